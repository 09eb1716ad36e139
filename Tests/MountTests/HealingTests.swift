import Foundation
import Support
import Testing

@Suite("a damaged store")
struct HealingTests {
    @Test("a damaged page of the journal costs neither documents nor their versions")
    func journalPage() throws {
        try MountedVolume.with { volume in
            for number in 1...200 {
                let file = "\(volume.path)/document \(number).txt"
                try "first \(number)\n".write(toFile: file, atomically: false, encoding: .utf8)
                try "second \(number)\n".write(toFile: file, atomically: false, encoding: .utf8)
            }
            try Programs.fsctl("wait", "--durable", "disk", volume.path).succeed()
            try volume.kill9()
            try Command("umount", "-l", volume.path).succeed()
            let journal = "\(volume.store)/journal.sqlite"
            // Writes the log into the database, as the next opening would.
            try Command("sqlite3", journal, "PRAGMA wal_checkpoint(TRUNCATE);").succeed()
            // A page with versions, because a free page is never read.
            let page = try Command(
                "sqlite3", journal,
                "SELECT max(pageno) FROM dbstat WHERE name = 'versions' AND pagetype = 'leaf';"
            ).succeed()
            let number = try #require(UInt64(page.trimmingCharacters(in: .whitespacesAndNewlines)))
            let file = try FileHandle(forUpdating: URL(filePath: journal))
            try file.seek(toOffset: (number - 1) * 4096)
            try file.write(contentsOf: Data(repeating: 0xA5, count: 4096))
            try file.close()
            try volume.mount()
            for number in 1...200 {
                let text = try String(
                    contentsOfFile: "\(volume.path)/document \(number).txt", encoding: .utf8)
                #expect(text == "second \(number)\n")
            }
            try Programs.fsctl("wait", "--durable", "disk", volume.path).succeed()
            let status = try Programs.fsctl("status", volume.path).succeed()
            #expect(status.contains("has been repaired"))
            let kept = try FileManager.default.contentsOfDirectory(atPath: volume.store)
            #expect(kept.contains { $0.hasPrefix("journal.sqlite.damaged-") })
            #expect(try Programs.fsctl("doctor", volume.path).run().status == 0)
        }
    }

    @Test("a damaged chunk costs only its version, and the doctor names it")
    func chunk() throws {
        try MountedVolume.with { volume in
            let file = "\(volume.path)/letter.txt"
            for text in ["one\n", "two\n", "three\n"] {
                try text.write(toFile: file, atomically: false, encoding: .utf8)
                try Programs.fsctl("wait", "--durable", "disk", file).succeed()
            }
            let pack = "\(volume.store)/chunks/00000001.pack"
            let bytes = try Data(contentsOf: URL(filePath: pack))
            let place = try #require(bytes.range(of: Data("one\n".utf8)))
            let handle = try FileHandle(forUpdating: URL(filePath: pack))
            try handle.seek(toOffset: UInt64(place.lowerBound))
            try handle.write(contentsOf: Data("ONE\n".utf8))
            try handle.close()
            #expect(try Programs.fsctl("show", file, "1").run().status != 0)
            #expect(try Programs.fsctl("show", file, "2").succeed() == "two\n")
            #expect(try String(contentsOfFile: file, encoding: .utf8) == "three\n")
            let doctor = try Programs.fsctl("doctor", volume.path).run()
            #expect(doctor.status == 1)
            #expect(doctor.output.contains("Version 1 of letter.txt"))
        }
    }
}
