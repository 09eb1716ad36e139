import Foundation
import Glibc
import Support
import Testing

/// Which session saved what, and undoing one of them.
@Suite("Sessions") struct SessionTests {
    private func script(
        _ volume: MountedVolume, _ text: String, as session: String? = nil
    ) throws -> String {
        let lead = session.map { "export CONCORD_SESSION='\($0)'\n" } ?? ""
        // The kernel shows the environment with which a program was executed, so the shell that
        // does the work is one that was executed with it.
        var command = Command(
            "/bin/bash", "-c",
            "\(lead)exec /bin/bash -euc \"$0\"",
            "PATH='\(Programs.directory):/usr/bin:/bin'\n\(text)")
        command.directory = volume.path
        return try command.succeed()
    }

    private func sessions(_ volume: MountedVolume, _ name: String) throws -> [String?] {
        struct Report: Decodable {
            struct Version: Decodable { var session: String? }
            var versions: [Version]
        }
        let text = try script(volume, "fsctl versions --json \(name)")
        return try JSONDecoder().decode(Report.self, from: Data(text.utf8)).versions.map(\.session)
    }

    @Test("a version says in which session it was saved") func who() throws {
        try MountedVolume.with { volume in
            _ = try script(volume, "echo one > a", as: "agent-7")
            _ = try script(volume, "sed -i s/one/two/ a", as: "agent/8")
            _ = try script(volume, "sed -i s/two/three/ a")
            // Neither a name of the kernel's form nor one with other characters is taken.
            _ = try script(volume, "sed -i s/three/four/ a", as: "pts/3.4711.1c9f03aa")
            _ = try script(volume, "sed -i s/four/five/ a", as: "a b")
            try volume.waitForDisk()
            let found = try sessions(volume, "a")
            #expect(found.count == 5)
            #expect(found.prefix(2) == ["agent-7", "agent/8"])
            for session in found.dropFirst(2) {
                let session = try #require(session)
                #expect(session.wholeMatch(of: /.+\.[0-9]+\.[0-9a-f]{8}/) != nil, "\(session)")
                #expect(session != "pts/3.4711.1c9f03aa")
            }
            #expect(try script(volume, "fsctl versions --by a").contains("agent/8"))
            try volume.remount()
            #expect(try sessions(volume, "a") == found)
        }
    }

    @Test("what a session sets up by setsid in a terminal is the terminal's") func terminals()
        throws
    {
        try MountedVolume.with { volume in
            // script(1) gives its command a terminal of its own.
            _ = try script(
                volume,
                """
                script -qc 'echo a > a; setsid -w bash -c "echo b > b"; (echo c > c)' /dev/null
                script -qc 'echo d > d' /dev/null
                """)
            try volume.waitForDisk()
            let found = try ["a", "b", "c", "d"].map { try sessions(volume, $0)[0] ?? "" }
            #expect(found.allSatisfy { $0.hasPrefix("pts/") }, "\(found)")
            #expect(Set(found[0...2]).count == 1, "\(found)")
            #expect(found[3] != found[0], "\(found)")
        }
    }

    @Test("a killed daemon's log tells the session, too") func killed() throws {
        try MountedVolume.with { volume in
            _ = try script(volume, "echo one > a; rm -f b", as: "agent-7")
            try volume.kill9()
            try volume.remount()
            try volume.waitForDisk()
            #expect(try sessions(volume, "a") == ["agent-7"])
        }
    }

    // MARK: Undoing

    /// Three sessions work on the same documents, each at a line of its own, and each makes,
    /// deletes and moves some.
    private func interleave(_ volume: MountedVolume, _ count: Int) throws {
        let lines = (1...9).map { "'line \($0)'" }.joined(separator: " ")
        _ = try script(
            volume,
            """
            for i in $(seq \(count)); do
                printf '%s\\n' \(lines) > d$i
            done
            for s in 1 2 3; do echo old > gone$s; echo old > moved$s; done; mkdir dir
            for s in 1 2 3; do mkdir dir/$s; echo in > dir/$s/in; done
            """, as: "first")
        for round in ["one", "two"] {
            for session in 1...3 {
                _ = try script(
                    volume,
                    """
                    for i in $(seq \(count)); do
                        sed -i "\(session * 4 - 3)s/$/ \(round) by \(session)/" d$i
                    done
                    """, as: "agent-\(session)")
            }
        }
        for session in 1...3 {
            _ = try script(
                volume,
                """
                echo new > new\(session); rm gone\(session); mv moved\(session) elsewhere\(session)
                mv dir/\(session) dir/other\(session)
                """, as: "agent-\(session)")
        }
    }

    private func state(_ volume: MountedVolume) throws -> String {
        try script(
            volume,
            """
            find . -type f ! -name '.*' | LC_ALL=C sort | while read f; do
                echo "$f"; cat "$f"
            done
            """
        )
    }

    @Test("one of three sessions is undone, and the others' work stays", arguments: [40])
    func undo(count: Int) throws {
        try MountedVolume.with { volume in
            try interleave(volume, count)
            try volume.waitForDisk()
            let before = try state(volume)
            let preview = try script(volume, "fsctl rewind --dry-run . --by agent-2")
            #expect(try state(volume) == before)
            for word in ["new2", "gone2", "elsewhere2", "dir/other2", "d1 "] {
                #expect(preview.contains(word), "\(word) in\n\(preview)")
            }
            #expect(!preview.contains("stays"), "\(preview)")
            let said = try script(volume, "fsctl rewind . --by agent-2")
            let after = try state(volume)
            #expect(!after.contains("by 2"))
            #expect(
                after.split(separator: "\n").count { $0.contains("one by 1 two by 1") } == count)
            #expect(
                after.split(separator: "\n").count { $0.contains("one by 3 two by 3") } == count)
            let names = try script(
                volume, "LC_ALL=C ls -d new* gone* moved* elsewhere* dir/* | xargs")
            #expect(
                names
                    == "dir/2 dir/other1 dir/other3 elsewhere1 elsewhere3 gone2 moved2 new1 new3\n")
            #expect(try script(volume, "find . -path '*/.conflicts/*'").isEmpty)
            // The last line takes it back.
            let back = try #require(said.split(separator: "\n").last?.split(separator: ": ").last)
            _ = try script(volume, String(back))
            #expect(try state(volume) == before)
        }
    }

    @Test("where both changed a line the document is in conflict, and nothing is lost")
    func conflict() throws {
        try MountedVolume.with { volume in
            _ = try script(volume, "printf '1\\n2\\n3\\n' > a", as: "first")
            _ = try script(volume, "sed -i s/2/two/ a", as: "agent-1")
            _ = try script(volume, "sed -i s/two/deux/ a", as: "agent-2")
            try volume.waitForDisk()
            let said = try script(volume, "fsctl rewind . --by agent-1")
            #expect(said.contains("in conflict"), "\(said)")
            #expect(try script(volume, "cat a") == "1\ndeux\n3\n")
            #expect(try script(volume, "cat .conflicts/a/*") == "1\n2\n3\n")
            // What another session has made its own stays.
            _ = try script(volume, "echo x > mine", as: "agent-1")
            _ = try script(volume, "echo y >> mine", as: "agent-2")
            try volume.waitForDisk()
            #expect(try script(volume, "fsctl rewind mine --by agent-1").contains("stays"))
            #expect(try script(volume, "cat mine") == "x\ny\n")
        }
    }

    @Test("what a session did is listed, and a beginning names one session only") func activity()
        throws
    {
        try MountedVolume.with { volume in
            _ = try script(volume, "echo a > a; echo b > b", as: "agent-7")
            try volume.waitForDisk()
            _ = try script(volume, "rm a; mv b c", as: "agent-7")
            _ = try script(volume, "echo x > x", as: "agent-8")
            try volume.waitForDisk()
            let said = try script(volume, "fsctl activity --by agent-7")
            for word in ["deleted", "moved", "saved", "version 1", "to c"] {
                #expect(said.contains(word), "\(word) in\n\(said)")
            }
            #expect(!said.contains("agent-8") && !said.contains(" x "))
            #expect(throws: (any Error).self) {
                try script(volume, "fsctl activity --by agent-")
            }
            #expect(throws: (any Error).self) {
                try script(volume, "fsctl rewind . --by nobody")
            }
        }
    }
}
