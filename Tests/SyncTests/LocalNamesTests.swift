import Foundation
import Support
import Testing

/// What stays on the device where it is.
@Suite("Names that never travel", .serialized) struct LocalNamesTests {
    @Test("temporary files, what the ignore file names, and what no other machine could be told")
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
            // Nothing of it counts as unsafe, and nothing is stuck.
            let hub = try fleet.report(fleet.devices[0]).hub
            #expect(hub?.unsent == 0 && hub?.problems.isEmpty == true)
            // The rule has travelled: it holds there, too.
            try fleet.shell(1, "echo 1 > b.log; echo 2 > letter")
            try fleet.settle()
            #expect(fleet.text(0, "letter") == "2\n")
            #expect(fleet.text(0, "b.log") == nil)
            // What is finished gets its name, and travels under that.
            try fleet.shell(0, "mv film.mkv.crdownload film.mkv; mv a.log a.txt")
            try fleet.settle()
            let there = [".concordignore", "a.txt", "b.log", "film.mkv", "letter"]
            let names = try fleet.names(1)
            #expect(names == there, "\(names)")
            // What begins to be ignored is deleted nowhere.
            try fleet.shell(1, "echo '*.txt' >> .concordignore")
            try fleet.settle()
            #expect(fleet.text(0, "a.txt") == "1\n")
            #expect(fleet.text(1, "a.txt") == "1\n")
        }
    }
}
