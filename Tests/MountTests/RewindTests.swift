import Foundation
import Support
import Testing

/// Past states of a directory.
@Suite("The past") struct RewindTests {
    private func script(_ volume: MountedVolume, _ text: String) throws -> String {
        var command = Command(
            "/bin/bash", "-ec", "PATH='\(Programs.directory):/usr/bin:/bin'\n\(text)")
        command.directory = volume.path
        return try command.succeed()
    }

    /// A moment between the earlier and the later changes.
    private func moment(_ volume: MountedVolume) throws -> String {
        try volume.waitForDisk()
        sleep(1)
        let text = try Command("date", "+%Y-%m-%d %H:%M:%S").succeed()
        sleep(1)
        return text.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    private func withHistory(_ body: (MountedVolume, String) throws -> Void) throws {
        try MountedVolume.with { volume in
            _ = try script(
                volume,
                """
                mkdir -p d/e d/empty; echo one > d/x; echo two > d/e/y; echo same > d/same
                mkdir d/p.rtfd; echo t > d/p.rtfd/t; echo gone > d/gone; echo z > d/z
                """)
            let time = try moment(volume)
            _ = try script(
                volume,
                """
                echo ONE > d/x; rm -r d/e d/p.rtfd; echo new > d/new; mv d/z d/renamed
                rm d/gone; echo another > d/gone
                """)
            try volume.waitForDisk()
            try body(volume, time)
        }
    }

    @Test(".versions/@TIME shows a directory as it was") func shown() throws {
        try withHistory { volume, time in
            let past = "d/.versions/@\(time)"
            let names = try script(volume, "find '\(past)' -printf '%P\\n' | sort | xargs")
            #expect(names == "e e/y gone p.rtfd p.rtfd/t same x z\n")
            let texts = try script(volume, "cd '\(past)'; cat x e/y same gone p.rtfd/t z")
            #expect(texts == "one\ntwo\nsame\ngone\nt\nz\n")
            #expect(try script(volume, "cat 'd/.versions/@now/x'") == "ONE\n")
            for wrong in [
                "ls 'd/.versions/@soon'", "rm 'd/.versions/@\(time)/x'",
                "cp d/x 'd/.versions/@\(time)/x'",
            ] {
                #expect(throws: (any Error).self, "\(wrong)") { _ = try script(volume, wrong) }
            }
        }
    }

    @Test(
        "users do not see other users' private documents in the past either",
        .enabled(if: geteuid() == 0, "acting as other users takes root"))
    func permissions() throws {
        try MountedVolume.with { volume in
            _ = try script(
                volume,
                """
                chmod 755 .; mkdir -m 1777 d; cd d
                umask 077; echo secret > private; echo secret > other; chown 1001 other
                mkdir closed; umask 022; echo secret > closed/below; mkdir closed/in
                echo secret > closed/in/deeper; echo shown > public; echo mine > own
                chown 1000 own; chmod 600 own; mkdir -m 700 theirs; echo mine > theirs/in
                chown 1000 theirs; chmod 644 theirs/in; echo secret > gone; chmod 600 gone
                """)
            let time = try moment(volume)
            _ = try script(volume, "rm d/gone; echo again > d/private")
            try volume.waitForDisk()
            for at in [time, "now"] {
                let said = try script(
                    volume,
                    """
                    setpriv --reuid=1000 --regid=1000 --groups=1000 sh -ec '
                        no() { if "$@" 2>/dev/null; then echo "was allowed: $*"; fi; }
                        p="d/.versions/@\(at)"
                        no cat "$p/private"; no cat "$p/other"; no cat "$p/gone"
                        no ls "$p/closed"; no stat "$p/closed/below"; no cat "$p/closed/below"
                        no cat "$p/closed/in/deeper"; cat "$p/public" "$p/own" "$p/theirs/in"'
                    """)
                #expect(said == "shown\nmine\nmine\n", "\(at)")
            }
            // Root sees everything.
            let all = try script(
                volume, "cd 'd/.versions/@\(time)'; cat private other closed/in/deeper gone")
            #expect(all == "secret\nsecret\nsecret\nsecret\n")
        }
    }

    @Test("rewind restores a directory by new versions, and can be undone") func rewind() throws {
        try withHistory { volume, time in
            let all = "find d -type f -printf '%P:' -exec cat {} \\; | sort | xargs"
            let before = try script(volume, all)
            let rehearsed = try script(
                volume, "fsctl rewind d --to '\(time)' --dry-run; \(all)")
            #expect(rehearsed.hasSuffix(before))
            let now = try moment(volume)
            let said = try script(volume, "fsctl rewind d --to '\(time)'")
            #expect(said.contains("d/new") && said.contains("stays"))
            let after = "e/y:two gone:gone new:new p.rtfd/t:t renamed:z same:same x:one\n"
            #expect(try script(volume, all) == after)
            // A second rewind changes nothing.
            #expect(try script(volume, "fsctl rewind d --to '\(time)'; \(all)").hasSuffix(after))
            // The contents until now are still in the history.
            #expect(try script(volume, "cat 'd/.versions/@\(now)/x'") == "ONE\n")
            _ = try script(volume, "fsctl rewind d --to '\(now)' --exact")
            #expect(try script(volume, all) == before)
            _ = try script(volume, "fsctl doctor .")
        }
    }

    @Test("rewind reports mistakes") func mistakes() throws {
        try MountedVolume.with { volume in
            for (words, status) in [
                ("rewind . --to soon", Int32(5)), ("rewind nothing --to 1h", 3), ("rewind .", 2),
            ] {
                let command = "cd '\(volume.path)'; '\(Programs.fsctl)' \(words)"
                let ended = try Command("/bin/bash", "-c", command).run()
                #expect(ended.status == status, "\(words): \(ended.errors)")
            }
        }
    }

    @Test("list_conflicts: .conflicts is listed where it is not empty") func listed() throws {
        try MountedVolume.with(options: ["list_conflicts"]) { volume in
            // A save into a replaced file: the first writer has the file open all the time.
            _ = try script(
                volume,
                """
                mkdir d; echo base > d/a; sync d/a; fsctl wait --durable disk .
                [ "$(ls -A d)" = a ]
                exec 3>>d/a; echo replaced > d/b; mv d/b d/a; echo late >&3; exec 3>&-
                fsctl wait --durable disk .
                """)
            #expect(try script(volume, "ls -A d | xargs; ls -A | xargs") == ".conflicts a\nd\n")
            #expect(try script(volume, "cat d/.conflicts/a/*") == "base\nlate\n")
            #expect(try script(volume, "find d | sort | xargs").contains("d/.conflicts/a/"))
            #expect(try script(volume, "rm -r d/.conflicts/a; ls -A d") == "a\n")
            #expect(try script(volume, "cat d/a") == "replaced\n")
        }
    }
}
