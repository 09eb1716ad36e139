import Foundation
import Support
import Testing

@Suite("Emptied packages", .serialized) struct EmptiedPackageTests {
    @Test("a package without files is empty on other devices, too, and its history has the files")
    func emptied() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "mkdir p.pages; echo 1 > p.pages/a; echo 2 > p.pages/b")
            try fleet.settle()
            #expect(try fleet.names(1, "p.pages") == ["a", "b"])
            try fleet.shell(0, "rm p.pages/a p.pages/b")
            try fleet.settle()
            #expect(try fleet.names(1, "p.pages") == [])
            let history = try History.of("\(fleet.devices[1].path)/p.pages")
            #expect(history.versions.count == 2)
            try fleet.shell(1, "echo 3 > p.pages/c")
            try fleet.settle()
            #expect(fleet.text(0, "p.pages/c") == "3\n")
            try fleet.expectEqual()
            #expect(try fleet.conflicts(0, "p.pages").isEmpty)
        }
    }
}
