import Control
import Foundation
import Support
import Testing

@Suite("fsctl pins")
struct PinTests {
    private static func pins(_ path: String) throws -> [PinsReport.Pin] {
        let text = try Programs.fsctl("pins", "--json", path).succeed()
        return try JSONDecoder().decode(PinsReport.self, from: Data(text.utf8)).pins
    }

    @Test("lists what is pinned, what is excepted, and what is still to be downloaded")
    func lists() throws {
        try Fleet.with(1) { fleet in
            try fleet.shell(
                0, "mkdir -p film/raw; echo one > film/a; echo two > film/raw/b; echo three > c")
            try fleet.settle()
            let other = try fleet.join()
            try fleet.settle()
            #expect(try Self.pins(other.path).isEmpty)
            // Without the hub nothing is downloaded when it is pinned.
            try fleet.offline(1)
            #expect(try Programs.fsctl("pin", "\(other.path)/film").run().status != 0)
            #expect(try Programs.fsctl("pin", "\(other.path)/c").run().status != 0)
            try Programs.fsctl("unpin", "\(other.path)/film/raw").succeed()
            let all = try Self.pins(other.path)
            #expect(all.map(\.path.text) == ["c", "film", "film/raw"])
            #expect(all.map(\.pinned) == [true, true, false])
            #expect(all.map(\.directory) == [false, true, true])
            #expect(all.map(\.missing) == [1, 1, 0])
            #expect(all.map(\.missingBytes) == [6, 4, 0])
            // The answer for a document names the directory that decides.
            #expect(try Self.pins("\(other.path)/film/a").map(\.path.text) == ["film"])
            #expect(try Self.pins("\(other.path)/film/raw/b").map(\.pinned) == [false])
            try fleet.online(1)
            try Programs.fsctl("pin", "\(other.path)/film", "\(other.path)/c").succeed()
            #expect(try Self.pins(other.path).map(\.missing) == [0, 0, 0])
            let table = try Programs.fsctl("pins", other.path).succeed()
            #expect(table.contains("/film/raw/"), "\(table)")
            try fleet.expectSound()
        }
    }

    /// Otherwise a device would not know for which documents programs wait, and would send what is
    /// to stay on it.
    @Test("the files with the volume's settings are on each device, and stay there")
    func settings() throws {
        try Fleet.with(1) { fleet in
            try fleet.put(0, ".concordattributes", "*.md merge=union\n")
            try fleet.put(0, ".concordignore", "*.private\n")
            try fleet.put(0, "a", "one\n")
            try fleet.settle()
            let other = try fleet.join()
            try fleet.put(1, "b.private", "two\n")
            try fleet.settle()
            func isHere(_ name: String) throws -> Bool {
                let mark = Command("getfattr", "-n", "user.concord.absent", "\(other.tree)/\(name)")
                return try mark.run().status != 0
            }
            #expect(try !isHere("a"))
            for name in [".concordattributes", ".concordignore"] {
                #expect(try isHere(name))
                let refusal = try Programs.fsctl("evict", "\(other.path)/\(name)").run()
                #expect(refusal.status != 0 && refusal.errors.contains("stays on each device"))
            }
            #expect(try fleet.names(0) == [".concordattributes", ".concordignore", "a"])
            _ = try Programs.fsctl("evict", other.path).run()
            #expect(try isHere(".concordattributes") && isHere(".concordignore"))
            try fleet.shell(1, "rm b.private")
            try fleet.expectSound()
        }
    }
}
