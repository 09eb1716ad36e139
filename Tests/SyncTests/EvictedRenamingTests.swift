import Foundation
import Support
import Testing

/// Placeholders that get another identity: the other device and the hub keep every content.
@Suite("Placeholders that are renamed, with another device", .serialized)
struct EvictedRenamingTests {
    private func data(_ fleet: Fleet, _ index: Int, _ path: String) throws -> Data {
        try Data(contentsOf: URL(filePath: "\(fleet.devices[index].path)/\(path)"))
    }

    @Test("moved over a document and into a package, and saved there later")
    func moved() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(
                0,
                """
                for name in draft.txt report.txt photo.jpg; do
                head -c 50000 /dev/urandom > $name
                done
                mkdir Note.rtfd; echo 1 > Note.rtfd/TXT.rtf
                """)
            try fleet.expectEqual()
            let draft = try data(fleet, 0, "draft.txt")
            let photo = try data(fleet, 0, "photo.jpg")
            let report = try data(fleet, 0, "report.txt")
            for name in ["draft.txt", "report.txt", "photo.jpg"] {
                try Programs.fsctl("evict", "\(fleet.devices[1].path)/\(name)").succeed()
            }
            try fleet.shell(1, "mv draft.txt report.txt; mv photo.jpg Note.rtfd/")
            try fleet.expectEqual(tries: 3)
            try fleet.shell(1, "echo 2 > Note.rtfd/TXT.rtf")
            try fleet.expectEqual(tries: 3)
            func expectAll() throws {
                for index in 0..<2 {
                    #expect(try fleet.names(index) == ["Note.rtfd", "report.txt"])
                    #expect(try data(fleet, index, "report.txt") == draft)
                    #expect(try data(fleet, index, "Note.rtfd/photo.jpg") == photo)
                    #expect(fleet.text(index, "Note.rtfd/TXT.rtf") == "2\n")
                }
            }
            try expectAll()
            try fleet.devices[1].remount()
            try fleet.expectEqual()
            try expectAll()
            // What was replaced is in the history.
            let versions = ".versions/report.txt"
            let former = try fleet.names(0, versions).map {
                try data(fleet, 0, "\(versions)/\($0)")
            }
            #expect(former.contains(report))
        }
    }
}
