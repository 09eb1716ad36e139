import Foundation
import Support
import Testing

/// Conflicts as presenters see them, on two devices of one hub.
@Suite("Conflict stories") struct ConflictStoryTests {
    private func awaitMessage(
        _ program: Program, _ name: String, _ message: String, _ path: String
    ) throws -> Program.Said {
        try wait(for: "\(message) of \(path); it said \(program.all)") {
            program.all.first {
                $0.at == "message" && $0.name == name && $0.message == message && $0.path == path
            }
        }
    }

    /// The Mac is device 0, the iPad device 1.
    @Test("A14.8, A22.1: both edit in airplane mode; the iPad's user sees both and takes the Mac's")
    func airplane() throws {
        try Fleet.with(2) { fleet in
            try fleet.put(0, ".concordattributes", "* automerge=off\n")
            try fleet.shell(0, "mkdir shoebox; printf eggs > shoebox/list.txt")
            try fleet.expectEqual()
            let roots = fleet.devices.map { "\($0.path)/shoebox" }
            let (mac, pad) = (try Program(), try Program())
            try mac.present("box", roots[0])
            try pad.present("box", roots[1])
            let (macList, padList) = ("\(roots[0])/list.txt", "\(roots[1])/list.txt")
            try mac.present("list", macList)
            // In airplane mode the Mac edits and uploads; the iPad edits, and its edit stays there.
            try fleet.offline(1)
            try mac.claim("edit", "write:\(macList) as=box")
            try mac.file("put \(macList) mustard")
            try mac.end("edit")
            try fleet.settle([0])
            try pad.claim("edit", "write:\(padList) as=box")
            try pad.file("put \(padList) ketchup")
            try pad.end("edit")
            try fleet.devices[1].waitForDisk()
            #expect(pad.messages("box").isEmpty, "its own edit")
            // Airplane mode ends: each device has both versions, and the iPad's is newer.
            try fleet.online(1)
            let gained = try awaitMessage(pad, "box", "subitemVersionGained", padList)
            _ = try awaitMessage(mac, "box", "subitemVersionGained", macList)
            try mac.wait("message", "list", "versionGained")
            try mac.wait("message", "list", "changed")
            try fleet.settle()
            #expect(!pad.messages("box").contains("subitemChanged"), "its contents won")
            // The presenter lists the versions: they are in conflict, and the Mac's is among them.
            let id = try #require(gained.version)
            let shown = try #require(try pad.file("conflicts \(padList)").text)
            #expect(shown == "\(id) dev0 mustard")
            #expect(try mac.file("conflicts \(macList)").text == shown, "the same on both")
            // Further messages arrive while the user is asked.
            try fleet.put(0, "shoebox/more.txt", "more")
            _ = try awaitMessage(pad, "box", "subitemAppeared", "\(roots[1])/more.txt")
            // The user takes the Mac's version.
            let before = mac.messages("list").count
            try pad.claim("choose", "write:\(padList) as=box")
            try pad.file("put \(padList) mustard")
            try pad.file("settle \(padList) \(id)")
            try pad.end("choose")
            try mac.wait("message", "list", "versionResolved")
            _ = try awaitMessage(mac, "box", "subitemVersionResolved", macList)
            try fleet.settle()
            for index in 0..<2 {
                #expect(fleet.text(index, "shoebox/list.txt") == "mustard")
                #expect(try fleet.conflicts(index, "shoebox/list.txt").isEmpty)
            }
            // Before the contents arrive, the presenter is asked to relinquish.
            let asked: Set = ["relinquishToWriter", "relinquishToReader", "save", "reacquire"]
            let told = Set(mac.messages("list").dropFirst(before)).subtracting(asked)
            #expect(told == ["versionResolved", "changed"])
        }
    }

    @Test("A14.10: a device that already shows the chosen version gets no change message")
    func noEcho() throws {
        try Fleet.with(2) { fleet in
            try fleet.put(0, ".concordattributes", "* automerge=off\n")
            try fleet.put(0, "list.txt", "eggs")
            try fleet.expectEqual()
            try fleet.offline(1)
            try fleet.put(1, "list.txt", "ketchup")
            try fleet.devices[1].waitForDisk()
            // The newer version is the Mac's, and the Mac keeps it.
            try fleet.put(0, "list.txt", "mustard")
            try fleet.settle([0])
            let mac = try Program()
            let path = "\(fleet.devices[0].path)/list.txt"
            try mac.present("list", path)
            try fleet.online(1)
            let gained = try mac.wait("message", "list", "versionGained")
            try fleet.settle()
            // The iPad settles the conflict in favour of the version that the Mac shows.
            let pad = try Program()
            let padPath = "\(fleet.devices[1].path)/list.txt"
            try pad.file("settle \(padPath) \(gained.version ?? "")")
            let resolved = try mac.wait("message", "list", "versionResolved")
            #expect(resolved.version == gained.version)
            try fleet.settle()
            #expect(mac.messages("list") == ["versionGained", "versionResolved"])
        }
    }

    @Test("A14.6, A22.7: three devices, two conflicts; settling one of them twice is no error")
    func three() throws {
        try Fleet.with(3) { fleet in
            try fleet.put(0, ".concordattributes", "* automerge=off\n")
            try fleet.put(0, "list.txt", "eggs")
            try fleet.expectEqual()
            for index in 0..<3 { try fleet.offline(index) }
            for index in 0..<3 {
                try fleet.put(index, "list.txt", "by \(index)")
                try fleet.devices[index].waitForDisk()
            }
            let program = try Program()
            let paths = fleet.devices.map { "\($0.path)/list.txt" }
            for index in 0..<3 {
                try program.present("p\(index)", paths[index])
                try fleet.online(index)
                try fleet.settle(Array(0...index))
            }
            for index in 0..<3 {
                #expect(fleet.text(index, "list.txt") == "by 2")
                #expect(try fleet.conflicts(index, "list.txt") == ["by 0", "by 1"])
                try program.wait("message", "p\(index)", "versionGained")
            }
            // Two users decide at once, without knowing of each other.
            let ids = try #require(try program.file("conflicts \(paths[0])").text)
                .split(separator: "\n").compactMap {
                    $0.split(separator: " ").first.map(String.init)
                }
            for index in 0..<2 { try fleet.offline(index) }
            for id in ids { try program.file("settle \(paths[0]) \(id)") }
            try program.file("settle \(paths[1]) \(ids[0])")
            for index in 0..<2 { try fleet.online(index) }
            try fleet.settle()
            for index in 0..<3 {
                #expect(try fleet.conflicts(index, "list.txt").isEmpty)
                #expect(fleet.text(index, "list.txt") == "by 2")
            }
            try program.wait("message", "p2", "versionResolved")
        }
    }
}
