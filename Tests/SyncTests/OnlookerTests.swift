import Foundation
import Glibc
import Support
import Testing

/// What another user of the machine learns from the daemon of a root mount that has a hub.
@Suite(
    "Onlookers", .serialized, .enabled(if: geteuid() == 0, "acting as other users takes root"))
struct OnlookerTests {
    /// Runs a script in the first device's volume, in which `as COMMAND…` acts as another user.
    private func script(_ fleet: Fleet, _ text: String) throws -> String {
        var command = Command(
            "/bin/bash", "-ec",
            """
            PATH='\(Programs.directory):/usr/bin:/bin'
            # Others come as far as the volume.
            chmod 711 ..; chmod 755 .
            as() { setpriv --reuid=1001 --regid=1001 --clear-groups "$@"; }
            \(text)
            """)
        command.directory = fleet.devices[0].path
        return try command.succeed()
    }

    @Test("status and wait name nothing in a place that a user may not list")
    func statusAndWait() throws {
        try Fleet.with(1) { fleet in
            try fleet.shell(0, "mkdir -m 700 closed")
            try fleet.settle()
            try fleet.offline(0)
            let said = try script(
                fleet,
                """
                echo x > closed/secret; echo y > public
                fsctl wait --durable disk .
                fsctl status --json | grep -o '"path":"[^"]*"' | sort | xargs
                as fsctl status --json | grep -o '"path":"[^"]*"' | sort | xargs
                rm public; fsctl wait --durable disk .
                for level in disk hub; do
                    as fsctl wait --durable $level --timeout 2 . 2>&1 || true
                done > ../said
                grep -c secret ../said || true
                grep -c "may not list" ../said || true
                fsctl wait --durable hub --timeout 2 . 2>&1 | grep -c closed/secret || true
                """)
            #expect(
                said.hasPrefix("path:closed/secret path:public\n"), "\(said)")
            let lines = said.split(separator: "\n").map(String.init)
            #expect(lines.count == 5, "\(said)")
            #expect(lines[1] == "path:public")
            #expect(lines[2] == "0")
            #expect(Int(lines[3]) ?? 0 > 0)
            #expect(Int(lines[4]) ?? 0 > 0)
            try fleet.online(0)
            try fleet.settle()
        }
    }

    @Test("the states in a directory are those that a user could have asked for one by one")
    func entries() throws {
        try Fleet.with(1) { fleet in
            let said = try script(
                fleet,
                """
                cat > ../ask.py <<'END'
                import json, os, socket
                daemon = socket.socket(socket.AF_UNIX)
                daemon.connect(os.getxattr(".", "user.concord.socket").decode())
                daemon.sendall(b'{"id":1,"verb":"status","path":"d","entries":true}\\n')
                groups = json.loads(daemon.makefile().readline())["result"]["groups"]
                print(*sorted(name for group in groups for name in group["names"]))
                END
                mkdir -m 755 d; echo x > d/public; echo y > d/private; chmod 600 d/private
                fsctl wait --durable disk .
                python3 ../ask.py
                as python3 ../ask.py
                """)
            #expect(said == "private public\npublic\n")
            try fleet.settle()
        }
    }

    @Test("an eviction of a directory evicts and names only what the user may write")
    func eviction() throws {
        try Fleet.with(1) { fleet in
            let said = try script(
                fleet,
                """
                mkdir -m 777 d; mkdir -m 700 d/closed
                head -c 200000 /dev/urandom > d/closed/secret
                head -c 200000 /dev/urandom > d/theirs; fsctl pin d/theirs
                as sh -c 'head -c 200000 /dev/urandom > d/mine'
                fsctl wait --durable hub .
                as fsctl evict d --json 2>&1 | grep -c 'secret\\|theirs' || true
                for file in d/mine d/theirs d/closed/secret; do
                    fsctl status $file --json | grep -o '"state":"[^"]*"'
                done | xargs
                """)
            #expect(said == "0\nstate:dataless state:current state:current\n", "\(said)")
        }
    }
}
