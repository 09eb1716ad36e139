import Foundation
import Support
import Testing

/// Automatic merges, with the true common ancestor, on two mounts.
@Suite("Merging") struct MergingTests {
    /// Edits on both devices without synchronisation, and then synchronises.
    private func edit(_ fleet: Fleet, _ zero: String, _ one: String) throws {
        try fleet.settle()
        try fleet.offline(0)
        try fleet.script(0, zero)
        try fleet.devices[0].waitForDisk()
        try fleet.script(1, one)
        try fleet.settle([1])
        try fleet.online(0)
    }

    private func awaitMerged(_ fleet: Fleet, _ names: [String]) throws {
        // The conflict has reached both devices, or is already settled.
        try fleet.settle()
        try wait(seconds: 60, for: "\(names) to be merged") { () throws -> Bool? in
            for index in fleet.devices.indices {
                for name in names where try !fleet.conflicts(index, name).isEmpty { return nil }
            }
            return true
        }
        try fleet.expectEqual()
    }

    @Test("clean merges are made: text, lists, JSON, packages; both devices agree")
    func clean() throws {
        try Fleet.with(2) { fleet in
            try fleet.script(
                0,
                """
                echo 'list.md merge=union' > .concordattributes
                printf 'eggs\\nmilk\\n' > list.md
                seq 1 20 > n.txt
                printf '{"a": 1, "b": 2}\\n' > j.json
                mkdir p.rtfd; seq 9 > p.rtfd/text; echo gone > p.rtfd/gone
                """)
            try edit(
                fleet,
                """
                echo mustard >> list.md; sed -i s/^3$/three/ n.txt
                printf '{"a": 10, "b": 2}\\n' > j.json
                sed -i s/^2$/two/ p.rtfd/text; echo new > p.rtfd/new
                """,
                """
                echo ketchup >> list.md; sed -i s/^18$/eighteen/ n.txt
                printf '{"a": 1, "b": 20}\\n' > j.json
                sed -i s/^8$/eight/ p.rtfd/text; rm p.rtfd/gone
                """)
            try awaitMerged(fleet, ["list.md", "n.txt", "j.json", "p.rtfd"])
            for index in 0..<2 {
                let list = fleet.text(index, "list.md") ?? ""
                #expect(list.contains("mustard") && list.contains("ketchup"))
                let lines = fleet.text(index, "n.txt")?.split(separator: "\n") ?? []
                #expect(lines.count == 20 && lines[2] == "three" && lines[17] == "eighteen")
                #expect(fleet.text(index, "j.json") == "{\"a\": 10, \"b\": 20}\n")
                try fleet.script(
                    index,
                    """
                    grep -qx two p.rtfd/text; grep -qx eight p.rtfd/text
                    [ -e p.rtfd/new ]; [ ! -e p.rtfd/gone ]
                    no grep -rqE '^(<<<<<<<|>>>>>>>)' .
                    """)
                // There is exactly one version with two parents.
                let versions = try fleet.history(index, "n.txt").versions
                #expect(versions.last { $0.kind == "current" }?.parents.count == 2)
            }
            try fleet.expectSound()
        }
    }

    @Test("conflicts stay that do not merge cleanly or that the rules leave alone")
    func left() throws {
        try Fleet.with(2) { fleet in
            try fleet.script(
                0,
                """
                printf 'asked.txt automerge=ask\\noff.txt automerge=off\\n' > .concordattributes
                seq 1 20 | tee asked.txt off.txt same.txt > binary
                printf 'x\\0' | cat - binary > b2; mv b2 binary
                """)
            try edit(
                fleet, "sed -i s/^3$/three/ *.txt binary",
                "sed -i s/^18$/eighteen/ asked.txt off.txt binary; sed -i s/^3$/drei/ same.txt")
            try fleet.settle()
            for index in 0..<2 {
                for name in ["asked.txt", "off.txt", "same.txt", "binary"] {
                    #expect(try fleet.conflicts(index, name).count == 1, "\(name)")
                }
                try fleet.script(
                    index,
                    """
                    no fsctl merge --explain same.txt > said; grep -q 'stay' said
                    no fsctl merge --explain asked.txt > said; grep -q 'line 1' said
                    no fsctl merge --explain off.txt > said; grep -q 'line 2' said
                    no fsctl merge --explain binary > said; grep -q 'stay' said
                    rm said
                    """)
            }
            // A requested merge is made; if both devices make it at once, it is one version.
            for index in 0..<2 { try fleet.offline(index) }
            for index in 0..<2 {
                try fleet.script(index, "fsctl resolve asked.txt --merge; fsctl merge off.txt")
                try fleet.devices[index].waitForDisk()
            }
            for index in 0..<2 { try fleet.online(index) }
            try fleet.expectEqual()
            for index in 0..<2 {
                for name in ["asked.txt", "off.txt"] {
                    let text = fleet.text(index, name) ?? ""
                    #expect(text.contains("three") && text.contains("eighteen"))
                    #expect(try fleet.conflicts(index, name).isEmpty)
                }
            }
        }
    }

    /// Both merges have the same contents, so neither is sent to the other device. Times differ
    /// where both devices take their own.
    @Test("a package that both devices have merged has the same times on both") func packages()
        throws
    {
        try Fleet.with(2) { fleet in
            try fleet.script(
                0, "echo '* automerge=ask' > .concordattributes; mkdir p.rtfd; seq 9 > p.rtfd/a")
            try edit(
                fleet, "sed -i s/^2$/two/ p.rtfd/a; echo new > p.rtfd/b",
                "sed -i s/^8$/eight/ p.rtfd/a; echo new > p.rtfd/b")
            try fleet.settle()
            // This fetches the other side's contents.
            for index in 0..<2 {
                try fleet.script(index, "find .versions/p.rtfd -type f | xargs -d '\\n' cat >said")
                try fleet.script(index, "rm said")
            }
            for index in 0..<2 { try fleet.offline(index) }
            for index in 0..<2 {
                try fleet.script(index, "fsctl merge p.rtfd")
                try fleet.devices[index].waitForDisk()
            }
            for index in 0..<2 { try fleet.online(index) }
            try fleet.expectEqual()
            for index in 0..<2 {
                let text = fleet.text(index, "p.rtfd/a") ?? ""
                #expect(text.contains("two") && text.contains("eight"))
                #expect(try fleet.conflicts(index, "p.rtfd").isEmpty)
            }
        }
    }

    @Test("an undone merge is not repeated, unless a person asks") func undone() throws {
        try Fleet.with(2) { fleet in
            try fleet.script(0, "seq 1 20 > n.txt")
            try edit(fleet, "sed -i s/^3$/three/ n.txt", "sed -i s/^18$/eighteen/ n.txt")
            try awaitMerged(fleet, ["n.txt"])
            try fleet.script(1, "fsctl resolve n.txt --undo")
            try fleet.settle()
            // This is longer than devices wait for each other.
            sleep(6)
            try fleet.settle()
            for index in 0..<2 {
                #expect(fleet.text(index, "n.txt")?.contains("three") == false)
                #expect(try fleet.conflicts(index, "n.txt").count == 1)
            }
            try fleet.script(0, "fsctl resolve n.txt --merge")
            try awaitMerged(fleet, ["n.txt"])
            let text = fleet.text(1, "n.txt") ?? ""
            #expect(text.contains("three") && text.contains("eighteen"))
        }
    }

    @Test("a merge waits until presenters have saved") func presented() throws {
        try Fleet.with(2) { fleet in
            try fleet.script(0, "echo '* automerge=ask' > .concordattributes; seq 1 20 > n.txt")
            try edit(fleet, "sed -i s/^3$/three/ n.txt", "sed -i s/^18$/eighteen/ n.txt")
            try fleet.settle()
            let unsaved = (1...20).map { $0 == 18 ? "eighteen" : $0 == 10 ? "ten" : "\($0)" }
            let path = "\(fleet.devices[0].path)/n.txt"
            let editor = try Beside(
                "present", path, "--save-text",
                unsaved.joined(separator: "\n"))
            try editor.wait(for: "present")
            try fleet.script(0, "fsctl resolve n.txt --merge")
            editor.send(SIGTERM)
            _ = try editor.waitForEnd()
            try fleet.expectEqual()
            let text = fleet.text(1, "n.txt") ?? ""
            #expect(text.contains("three") && text.contains("eighteen") && text.contains("ten"))
        }
    }

    /// A device that never had the contents of the ancestor cannot merge then. It must not try
    /// again for ever, and say that the conflict is not examined.
    @Test("an ancestor that the hub has lost leaves the conflict to people")
    func lostAncestor() throws {
        try Fleet.with(2) { fleet in
            try fleet.script(0, "echo '* automerge=ask' > .concordattributes; seq 1 20 > n.txt")
            try edit(fleet, "sed -i s/^3$/three/ n.txt", "sed -i s/^18$/eighteen/ n.txt")
            try fleet.settle()
            let device = fleet.devices[1]
            try device.unmount()
            // The device gets an ancestor that no hub has ever had.
            try Command(
                "sh", "-ec",
                """
                id=$(sqlite3 "$1" "SELECT hex(parents) FROM versions JOIN items
                    ON items.current = versions.id WHERE versions.name = x'6e2e747874'")
                sqlite3 "$1" "UPDATE manifests SET bytes = x'' WHERE key =
                        (SELECT manifest FROM versions WHERE id = x'$id');
                    UPDATE versions SET id = x'$2' WHERE id = x'$id';
                    UPDATE versions SET parents = x'$2' WHERE parents = x'$id'"
                """, "-", "\(device.store)/journal.sqlite", String(repeating: "1", count: 32)
            ).succeed()
            try device.mount()
            try fleet.settle()
            #expect(try fleet.conflicts(1, "n.txt").count == 1)
            let explained = try Programs.fsctl("merge", "--explain", "\(device.path)/n.txt").run()
            #expect(explained.output.contains("is not available any more"), "\(explained.output)")
        }
    }
}
