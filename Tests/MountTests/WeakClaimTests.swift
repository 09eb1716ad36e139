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

    @Test("claims of users who may write are waited for") func kept() throws {
        try withReader(mode: "646") { volume in
            let ended = try as1001(
                volume, "'\(Programs.fsctl)' coordinate --timeout 2 write doc -- true")
            #expect(ended.status != 0)
        }
    }
}
