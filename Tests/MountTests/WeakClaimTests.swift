import Foundation
import Glibc
import Support
import Testing

/// Claims of users who may read a document but not write it.
@Suite(
    "Claims of users who may not write",
    .enabled(if: geteuid() == 0, "acting as other users takes root"))
struct WeakClaimTests {
    private let options = ["reader_time=0.2", "coordination_timeout=20"]

    private func as1001(_ volume: MountedVolume, _ text: String) throws -> Command.Result {
        var command = Command(
            "setpriv", "--reuid=1001", "--regid=1001", "--clear-groups", "/bin/sh", "-ec", text)
        command.directory = volume.path
        return try command.run()
    }

    /// Runs `body` while uid 1002 holds a claim to read `doc`, which belongs to 1001.
    private func withReader(mode: String, _ body: (MountedVolume) throws -> Void) throws {
        try MountedVolume.with(options: options) { volume in
            let heard = volume.store + ".turn"
            defer { unlink(heard) }
            var command = Command(
                "/bin/bash", "-ec",
                """
                chmod 711 ..; chmod 777 .; echo one > doc; chown 1001 doc; chmod \(mode) doc
                setsid setpriv --reuid=1002 --regid=1002 --clear-groups \\
                    '\(Programs.fsctl)' coordinate read doc -- \\
                    sh -c 'echo turn; exec sleep 1000' > '\(heard)' 2>&1 & echo $!
                """)
            command.directory = volume.path
            let holder = try command.succeed().trimmingCharacters(in: .whitespacesAndNewlines)
            defer { _ = try? Command("kill", "--", "-\(holder)").run() }
            try wait(for: "the reader's turn") {
                let said = try? String(contentsOfFile: heard, encoding: .utf8)
                return said?.contains("turn") == true ? true : nil
            }
            try body(volume)
        }
    }

    @Test("they delay users who may write for a bounded time only") func bounded() throws {
        try withReader(mode: "644") { volume in
            let fsctl = Programs.fsctl
            for line in [
                "echo two >> doc", "echo three > doc", "'\(fsctl)' coordinate write doc -- true",
            ] {
                let ended = try as1001(volume, line)
                #expect(ended.status == 0, "\(line): \(ended.errors)")
            }
            #expect(try String(contentsOfFile: "\(volume.path)/doc", encoding: .utf8) == "three\n")
        }
    }

    /// Claims deep paths as each of some users until a claim is refused, and prints what each got.
    private static let greedy = """
        import json, os, socket, sys
        path, users = sys.argv[1], [int(user) for user in sys.argv[2:]]
        def claim(streams, user, number):
            if number % 15 == 0:
                client = socket.socket(socket.AF_UNIX)
                client.connect(os.getxattr(path, "user.concord.socket").decode())
                streams.append(client.makefile("rw"))
            place = "/".join(["n%d-%d" % (user, number)] + ["a"] * 999)
            access = [{"path": place, "write": "update"}]
            request = dict(id=1, verb="claim", claim=number, access=access)
            print(json.dumps(request), file=streams[-1], flush=True)
            return json.loads(streams[-1].readline())
        ends = []
        for user in users:
            (heard, told), (rest, end) = os.pipe(), os.pipe()
            if os.fork() == 0:
                os.close(end)
                for other in ends: os.close(other)
                os.setresuid(user, user, user)
                streams, number, answer = [], 0, {"ok": True}
                while number < 300 and answer["ok"]:
                    answer = claim(streams, user, number)
                    number += answer["ok"]
                error = answer.get("error", {"code": "", "message": ""})
                said = error["code"] + " " + error["message"]
                os.write(told, ("%d %d %s\\n" % (user, number, said)).encode())
                os.read(rest, 1)
                os._exit(0)
            ends.append(end)
            print(os.read(heard, 1 << 16).decode(), end="")
        """

    @Test("all connections of other users together have a bound, and each user has a share of it")
    func shares() throws {
        try MountedVolume.with { volume in
            try Command("chmod", "711", "\(volume.path)/..").succeed()
            try Command("chmod", "777", volume.path).succeed()
            var command = Command(
                "python3", "-c", Self.greedy, volume.path, "1001", "1002", "1003", "0")
            command.timeoutSeconds = 120
            let lines = try command.succeed().split(separator: "\n").map(String.init)
            #expect(lines.count == 4, "\(lines)")
            for (line, start) in zip(
                lines, ["1001 49 busy", "1002 25 busy", "1003 12 busy", "0 300 "])
            {
                #expect(line.hasPrefix(start) || line + " " == start, "\(line)")
                if start.hasSuffix("busy") { #expect(line.contains("release some")) }
            }
            try Programs.fsctl("coordinate", "write", "\(volume.path)/doc", "--", "true").succeed()
        }
    }

    @Test("claims of users who may write are waited for") func kept() throws {
        try withReader(mode: "646") { volume in
            let ended = try as1001(
                volume, "'\(Programs.fsctl)' coordinate --timeout 2 write doc -- true")
            #expect(ended.status != 0)
        }
    }
}
