import Foundation
import Support
import Testing

/// Items that stay on their device.
@Suite("Names that are never sent", .serialized) struct LocalNamesTests {
    @Test("temporary files, ignored files, and names that other machines cannot represent")
    func stayHere() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(
                0,
                #"""
                echo '*.log' > .concordignore; echo '/build/' >> .concordignore
                echo 1 > a.log; mkdir build; echo 1 > build/out; echo 1 > .letter.swp
                echo 1 > film.mkv.crdownload; echo 1 > $'bad\xff'; echo 1 > letter
                """#)
            try fleet.settle()
            let came = try fleet.names(1)
            #expect(came == [".concordignore", "letter"], "\(came)")
            // None of them counts as unsafe, and nothing is stuck.
            let hub = try fleet.report(fleet.devices[0]).hub
            #expect(hub?.unsent == 0 && hub?.problems.isEmpty == true)
            // The ignore file was sent, so the rule holds on the other device, too.
            try fleet.shell(1, "echo 1 > b.log; echo 2 > letter")
            try fleet.settle()
            #expect(fleet.text(0, "letter") == "2\n")
            #expect(fleet.text(0, "b.log") == nil)
            // A finished file gets its final name, and is sent under it.
            try fleet.shell(0, "mv film.mkv.crdownload film.mkv; mv a.log a.txt")
            try fleet.settle()
            let there = [".concordignore", "a.txt", "b.log", "film.mkv", "letter"]
            let names = try fleet.names(1)
            #expect(names == there, "\(names)")
            // A file that becomes ignored is not deleted on other devices.
            try fleet.shell(1, "echo '*.txt' >> .concordignore")
            try fleet.settle()
            #expect(fleet.text(0, "a.txt") == "1\n")
            #expect(fleet.text(1, "a.txt") == "1\n")
        }
    }

    @Test("a rule that comes later and goes again deletes nothing, and what it named is sent")
    func changedRules() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "mkdir build; echo 1 > build/old; echo 1 > letter")
            try fleet.settle()
            try Programs.fsctl("offline", "--at", fleet.devices[0].path).succeed()
            try fleet.shell(0, "echo 1 > build/new; mkdir late; echo 1 > late/file; echo 1 > a.log")
            try fleet.devices[0].waitForDisk()
            try fleet.shell(0, #"echo '*.log' > .concordignore; echo late/ >> .concordignore"#)
            try fleet.shell(0, "echo build/ >> .concordignore")
            try fleet.devices[0].waitForDisk()
            try Programs.fsctl("online", "--at", fleet.devices[0].path).succeed()
            try fleet.settle()
            var came = try fleet.names(1)
            #expect(came == [".concordignore", "build", "letter"], "\(came)")
            #expect(fleet.text(1, "build/old") == "1\n" && fleet.text(1, "build/new") == nil)
            for name in ["late", "late/file", "a.log"] {
                let waited = try Programs.fsctl(
                    "wait", "--durable", "hub", "\(fleet.devices[0].path)/\(name)"
                ).run()
                #expect(waited.status != 0 && waited.errors.contains(".concordignore"), "\(waited)")
            }
            try fleet.shell(1, "rm .concordignore")
            try fleet.settle()
            for device in 0...1 {
                came = try fleet.names(device)
                #expect(came == ["a.log", "build", "late", "letter"], "\(came)")
                for name in ["build/new", "build/old", "late/file"] {
                    #expect(fleet.text(device, name) == "1\n", "\(device) \(name)")
                }
            }
        }
    }

    @Test("what a desktop has thrown away is deleted elsewhere, and stays on its device")
    func trash() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(
                0, "echo 1 > letter; mkdir -p notes/.Trash-0; echo 1 > notes/.Trash-0/a")
            try fleet.settle()
            #expect(fleet.text(1, "letter") == "1\n")
            // As gio(1) does it.
            try fleet.shell(
                0,
                """
                mkdir -p .Trash-0/files .Trash-0/info; mv letter .Trash-0/files/
                echo '[Trash Info]' > .Trash-0/info/letter.trashinfo
                """)
            try fleet.settle()
            #expect(try fleet.names(1) == ["notes"])
            #expect(fleet.text(1, "notes/.Trash-0/a") == "1\n")
            #expect(fleet.text(0, ".Trash-0/files/letter") == "1\n")
            let hub = try fleet.report(fleet.devices[0]).hub
            #expect(hub?.unsent == 0 && hub?.problems.isEmpty == true)
            // It comes back as it was.
            try fleet.shell(0, "mv .Trash-0/files/letter letter")
            try fleet.settle()
            #expect(fleet.text(1, "letter") == "1\n")
        }
    }
}
