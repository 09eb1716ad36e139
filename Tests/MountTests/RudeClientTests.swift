import Foundation
import Glibc
import Support
import Testing

/// Clients of the control socket that flood it, never read, or send nonsense do not harm other
/// clients.
@Suite("Rude clients of the control socket")
struct RudeClientTests {
    private static let rude = """
        import json, os, socket, sys, threading, time
        path = sys.argv[1]
        def connect():
            client = socket.socket(socket.AF_UNIX)
            client.connect(os.getxattr(path, "user.concord.socket").decode())
            return client
        polite = connect().makefile("rw")
        def ask(**request):
            print(json.dumps(dict(id=1, **request)), file=polite, flush=True)
            return json.loads(polite.readline())
        def turn(number):
            access = [{"path": "document", "write": "update"}]
            assert ask(verb="claim", claim=number, access=access)["ok"]
            assert ask(verb="release", claim=number)["ok"]
        turn(1)

        # Sends claims and never reads the answers.
        flood, isDropped = connect(), threading.Event()
        def pour():
            number = 0
            try:
                while True:
                    number += 1
                    access = [{"path": "f%d" % number, "read": []}]
                    line = json.dumps(dict(id=number, verb="claim", claim=number, access=access))
                    flood.sendall(line.encode() + b"\\n")
            except OSError: isDropped.set()
        threading.Thread(target=pour, daemon=True).start()
        for number in range(2, 100): turn(number)
        assert isDropped.wait(60), "who floods is kept"
        assert all(one["path"] != "f1" for one in ask(verb="locks")["result"]["turns"])

        # Looks on and never reads what it is told.
        deaf = connect()
        deaf.sendall(b'{"id":1,"verb":"watch"}\\n')
        number, end = 100, time.time() + 120
        while time.time() < end:
            turn(number)
            number += 1
            if number % 1000: continue
            try: deaf.send(b"\\n")
            except OSError: break
        else: assert False, "who never reads is kept"

        # Nonsense, each answered by a sentence.
        confused = connect()
        nonsense = [
            os.urandom(1000).replace(b"\\n", b"x"), b"{}", b"[1]",
            b'{"id":1,"verb":"release","claim":1e99}', b'{"id":2,"verb":"release","claim":7}',
            b'{"id":3,"verb":"answer","presenter":1,"turn":-5}', b'{"id":4,"verb":"claim"}',
            b'{"id":5,"verb":"claim","claim":1,"access":[{"path":"../x","read":[]}]}',
            b'{"id":6,"verb":"claim","claim":1,"access":[{"path":"x"}]}',
            b'{"id":7,"verb":"present","presenter":1,"path":"x","hears":["nonsense"]}',
            b'{"id":8,"verb":"claim","claim":1,"process":1,"access":[{"path":"x","read":[]}]}']
        confused.sendall(b"\\n".join(nonsense) + b"\\n")
        answers = confused.makefile("r")
        for line in nonsense:
            answer = json.loads(answers.readline())
            assert answer["ok"] is False and answer["error"]["message"], answer
        turn(number)
        """

    private static let deep = """
        import json, os, socket, sys
        path, user, depth, least, most = sys.argv[1], *map(int, sys.argv[2:])
        os.setuid(user)
        client = socket.socket(socket.AF_UNIX)
        client.connect(os.getxattr(path, "user.concord.socket").decode())
        stream = client.makefile("rw")
        def ask(**request):
            print(json.dumps(dict(id=1, **request)), file=stream, flush=True)
            return json.loads(stream.readline())
        def claim(number, depth, name="a"):
            place = "/".join([name] * depth)
            return ask(verb="claim", claim=number, access=[{"path": place, "write": "update"}])
        answer = claim(1, 5000)
        assert "5000 names" in answer["error"]["message"], answer
        granted = 0
        while granted < 200 and claim(granted, depth, "n%d" % granted)["ok"]: granted += 1
        assert least <= granted <= most, granted
        assert not ask(verb="present", presenter=1, path="/".join(["p"] * depth))["ok"]
        assert ask(verb="release", claim=0)["ok"]
        assert claim(500, depth)["ok"]
        """

    @Test("paths that are deep: their names are counted")
    func deepPaths() throws {
        try MountedVolume.with { volume in
            try Command("chmod", "711", "\(volume.path)/..").succeed()
            try Command("chmod", "777", volume.path).succeed()
            // The root, and a user who does not own the volume.
            let users =
                geteuid() == 0 ? [["0", "4000", "50", "50"], ["1001", "1000", "20", "20"]] : []
            for user in users {
                var command = Command("python3", arguments: ["-c", Self.deep, volume.path] + user)
                command.timeoutSeconds = 60
                try command.succeed()
            }
        }
    }

    @Test("a flood, a watcher that never reads, and nonsense")
    func rude() throws {
        try MountedVolume.with { volume in
            var command = Command("python3", "-c", Self.rude, volume.path)
            command.timeoutSeconds = 300
            try command.succeed()
        }
    }
}
