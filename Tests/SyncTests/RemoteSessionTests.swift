import Foundation
import Support
import Testing

/// Versions that sessions have saved on another device.
@Suite("Sessions of another device", .serialized) struct RemoteSessionTests {
    /// Runs a script on a device as a session.
    private func run(
        _ fleet: Fleet, _ index: Int, _ script: String, as session: String
    ) throws -> String {
        // The kernel shows the environment with which a program was executed, so the shell that
        // does the work is executed with it.
        var command = Command(
            "env", "CONCORD_SESSION=\(session)", "PATH=\(Programs.directory):/usr/bin:/bin",
            "/bin/bash", "-euc", script)
        command.directory = fleet.devices[index].path
        return try command.succeed()
    }

    private func sessions(_ fleet: Fleet, _ index: Int, _ name: String) throws -> [String?] {
        struct Report: Decodable {
            struct Version: Decodable { var session: String? }
            var versions: [Version]
        }
        let text = try Programs.fsctl(
            "versions", "--json", "\(fleet.devices[index].path)/\(name)"
        ).succeed()
        return try JSONDecoder().decode(Report.self, from: Data(text.utf8)).versions.map(\.session)
    }

    @Test("they are named, listed and undone on a device that got their versions from the hub")
    func remote() throws {
        try Fleet.with(2) { fleet in
            let lines = (1...9).map { "line \($0)\n" }.joined()
            try fleet.put(0, "a", lines)
            try fleet.put(0, "b", "old\n")
            try fleet.put(0, "c", "old\n")
            try fleet.expectEqual()
            // Three sessions, of which two work on the first device.
            for round in ["one", "two"] {
                for (index, session, line) in [(0, "agent-1", 1), (0, "agent/2", 5), (1, "s3", 9)] {
                    let script = "sed -i '\(line)s|$| \(round) by \(session)|' a"
                    _ = try run(fleet, index, script, as: session)
                    try fleet.expectEqual()
                }
            }
            _ = try run(fleet, 0, "echo new > new; echo changed > b", as: "agent-1")
            _ = try run(fleet, 0, "echo other > c", as: "agent/2")
            try fleet.expectEqual()
            let before = fleet.text(1, "a")
            for index in 0..<2 {
                let found = try sessions(fleet, index, "a").compactMap { $0 }
                #expect(
                    found.suffix(6) == ["agent-1", "agent/2", "s3", "agent-1", "agent/2", "s3"],
                    "device \(index): \(found)")
                #expect(try run(fleet, index, "fsctl versions --by a", as: "x").contains("agent/2"))
                let said = try run(fleet, index, "fsctl activity --by agent-1", as: "x")
                for word in ["new", "b", "saved", "sed"] {
                    #expect(said.contains(word), "\(word) on device \(index) in\n\(said)")
                }
                #expect(!said.contains("agent/2") && !said.contains("s3"), "\(said)")
            }

            // The second device undoes what a session has done on the first one.
            let preview = try run(fleet, 1, "fsctl rewind --dry-run . --by agent-1", as: "x")
            for name in ["a", "b", "new"] {
                #expect(preview.contains(name), "\(name) in\n\(preview)")
            }
            #expect(fleet.text(1, "a") == before)
            let said = try run(fleet, 1, "fsctl rewind . --by agent-1", as: "x")
            try fleet.expectEqual()
            let rest = lines.replacing("line 5", with: "line 5 one by agent/2 two by agent/2")
                .replacing("line 9", with: "line 9 one by s3 two by s3")
            for index in 0..<2 {
                #expect(fleet.text(index, "a") == rest)
                #expect(fleet.text(index, "b") == "old\n")
                #expect(fleet.text(index, "c") == "other\n")
                #expect(fleet.text(index, "new") == nil)
                #expect(try fleet.conflicts(index, "a").isEmpty)
            }

            // The last line takes it back, here and there.
            let back = try #require(said.split(separator: "\n").last?.split(separator: ": ").last)
            _ = try run(fleet, 1, String(back), as: "x")
            try fleet.expectEqual()
            for index in 0..<2 {
                #expect(fleet.text(index, "a") == before)
                #expect(fleet.text(index, "b") == "changed\n")
                #expect(fleet.text(index, "new") == "new\n")
            }
        }
    }
}
