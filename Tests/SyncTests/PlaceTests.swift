import Foundation
import Support
import Testing

@Suite("Places and kinds of items", .serialized) struct PlaceTests {
    private static let before = """
        for n in a b c; do echo $n > $n; done
        mkdir x y; echo x > x/in; echo y > y/in
        """

    @Test("cyclic renames of files, of folders, and between folders") func circle() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, Self.before)
            try fleet.expectEqual()
            try fleet.offline(0)
            try fleet.shell(
                0,
                """
                mv a t; mv c a; mv b c; mv t b; mv x t; mv y x; mv t y
                mv x/in t; mv y/in x; mv t y/in
                """)
            try fleet.devices[0].waitForDisk()
            try fleet.online(0)
            try fleet.expectEqual()
            for index in 0..<2 {
                #expect(try fleet.names(index) == ["a", "b", "c", "x", "y"])
                #expect(["a", "b", "c"].map { fleet.text(index, $0) } == ["c\n", "a\n", "b\n"])
                #expect(["x", "y"].map { fleet.text(index, "\($0)/in") } == ["x\n", "y\n"])
            }
            try fleet.expectSound()
        }
    }

    @Test("different cyclic renames on two devices at once") func circles() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, Self.before)
            try fleet.expectEqual()
            let scripts = [
                "mv a t; mv c a; mv b c; mv t b",
                "mv a t; mv b a; mv t b; mv x t; mv y x; mv t y",
            ]
            for index in 0..<2 {
                try fleet.offline(index)
                try fleet.shell(index, scripts[index])
                try fleet.devices[index].waitForDisk()
            }
            for index in 0..<2 { try fleet.online(index) }
            try fleet.expectEqual()
            try fleet.expectSound()
            let texts = try fleet.names(0).compactMap { fleet.text(0, $0) }.sorted()
            #expect(texts == ["a\n", "b\n", "c\n"])
            #expect(["x", "y"].map { fleet.text(0, "\($0)/in") } == ["y\n", "x\n"])
        }
    }

    /// The package stands next to the folder, and its history is complete.
    @Test("a package becomes a folder, and is edited") func packageToFolder() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "mkdir p.rtfd; echo 1 > p.rtfd/TXT")
            try fleet.settle()
            try fleet.shell(0, "echo 2 > p.rtfd/TXT")
            try fleet.expectEqual()
            let package = try PairDesk(root: fleet.devices[0].path).document("p.rtfd")
            for index in 0..<2 {
                try fleet.offline(index)
                try fleet.shell(index, ["mv p.rtfd p", "echo 3 > p.rtfd/TXT"][index])
                try fleet.devices[index].waitForDisk()
            }
            for index in 0..<2 { try fleet.online(index) }
            try fleet.expectEqual()
            for index in 0..<2 {
                #expect(fleet.text(index, "p/TXT") == "2\n")
                #expect(fleet.text(index, "p.rtfd/TXT") == "3\n")
                #expect(try PairDesk(root: fleet.devices[index].path).document("p.rtfd") == package)
            }
            let texts = try PairHistory(fleet.devices[0].path).texts(of: package)
            #expect(texts.sorted() == ["TXT=1\n", "TXT=2\n", "TXT=3\n"])
            try fleet.expectSound()
        }
    }
}
