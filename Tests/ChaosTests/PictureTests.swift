import Testing

@testable import chaos

@Suite("The picture of a document") struct PictureTests {
    @Test("shows its saves on their devices, faults, and no other document") func life() {
        var told = HandWrittenHistory()
        told.save("dev0", "shared/b", "B1")
        told.add(.fault, "dev1") { ($0.verb, $0.detail) = (["kill"], "kill") }
        told.save("dev1", "shared/b", "B2<", base: "B1", outcome: "EIO")
        told.save("dev1", "shared/c", "C1")
        let svg = Picture(of: "shared/b", events: told.events).svg
        #expect(svg.hasPrefix("<svg") && svg.hasSuffix("</svg>"))
        for words in ["dev0", "dev1", "B1", "B2&lt;", "kill", "EIO"] {
            #expect(svg.contains(words), "\(words)")
        }
        #expect(!svg.contains("C1"))
    }
}
