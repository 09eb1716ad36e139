import Control
import Foundation
import Glibc
import Support
import Testing

@testable import FileCoordination

/// Stories of people who work on documents, told with programs that `make test` builds for release,
/// because an optimized library has behaved differently from one that is linked into the tests. The
/// documents are those of `turns-program documents`.
@Suite("Stories of release programs", .serialized) struct StoryTests {
    /// A program with one open document.
    private struct Desk {
        let program: Program
        let path: String

        init(_ path: String) throws {
            self.path = path
            program = try Program("documents")
            try obey("open draft \(path)")
        }

        /// Returns the answer of the program, which is no error.
        @discardableResult
        func obey(_ command: String) throws -> Program.Said {
            let said = try program.file(command)
            if let error = said.error { throw SupportError("\(command): \(error)") }
            return said
        }

        func type(_ text: String) throws {
            let word = text.replacing(" ", with: "_").replacing("\n", with: "|")
            try obey("type draft \(word)")
        }

        var shown: String { get throws { try obey("show draft").text ?? "" } }
        var light: String { get throws { try obey("show draft").message ?? "" } }

        func wait(for text: String) throws {
            try Support.wait(for: "\(text) to be shown; there is \((try? shown) ?? "nothing")") {
                try shown == text ? true : nil
            }
        }

        func wait(forLight light: String) throws {
            try Support.wait(for: "the state \(light)") { try self.light == light ? true : nil }
        }

        /// Types while another program works that the document does not make room for.
        func type(_ text: String, while others: () throws -> Void) throws {
            try obey("deaf draft yes")
            try type(text)
            try others()
            try obey("deaf draft no")
            try obey("save draft")
        }
    }

    private static let lines = "one\ntwo\nthree\nfour\nfive\nsix\n"

    private func story(
        _ name: String = "a.txt", _ text: String = lines, _ body: (Desk, String) throws -> Void
    ) throws {
        try MountedVolume.with { volume in
            let path = "\(volume.path)/\(name)"
            let file = name.hasSuffix("rtfd") ? "\(path)/text" : path
            try FileManager.default.createDirectory(
                at: URL(filePath: file).deletingLastPathComponent(),
                withIntermediateDirectories: true)
            try Data(text.utf8).write(to: URL(filePath: file))
            try volume.waitForDisk()
            let desk = try Desk(path)
            try body(desk, volume.path)
            try desk.obey("close draft")
        }
    }

    @Test("a document opens, is typed into, and is read again when another program writes")
    func opened() throws {
        try story { desk, _ in
            #expect(try desk.shown == Self.lines)
            try desk.type("typed\n")
            try desk.obey("save draft")
            #expect(try text(desk.path) == "typed\n")
            try stranger("echo more >> \(desk.path)")
            try desk.wait(for: "typed\nmore\n")
            #expect(try desk.light == "normal")
        }
    }

    @Test(
        "twelve lines that another program adds to a document with unsaved changes are in it",
        arguments: ["echo LINE >> PATH", "fsctl coordinate write --merging PATH -- sh -c 'APPEND'"])
    func appended(_ script: String) throws {
        try story { desk, _ in
            try desk.type("ONE" + Self.lines.dropFirst(3)) {
                for number in 1...12 {
                    let append = "echo line \(number) >> \(desk.path)"
                    let tool = script.replacing("APPEND", with: append)
                        .replacing("LINE", with: "line \(number)")
                        .replacing("PATH", with: desk.path)
                    try stranger("PATH='\(Programs.directory)':$PATH; \(tool)")
                }
            }
            let added = (1...12).map { "line \($0)\n" }.joined()
            try desk.wait(for: "ONE" + Self.lines.dropFirst(3) + added)
            #expect(try text(desk.path) == desk.shown)
            #expect(try !versions(of: desk.path).versions.contains { $0.kind == "conflict" })
        }
    }

    @Test("a line that both change is in conflict, and neither text is lost")
    func conflict() throws {
        try story { desk, root in
            try desk.type("mine" + Self.lines.dropFirst(3)) {
                try stranger("sed -i s/one/theirs/ \(desk.path)")
            }
            try desk.wait(forLight: "conflict")
            #expect(try text(desk.path).hasPrefix("mine\n"))
            try Programs.fsctl("resolve", "--keep", "both", desk.path).succeed()
            try desk.wait(forLight: "normal")
            let all = try Command("sh", "-c", "cat \(root)/*.txt").succeed()
            #expect(all.contains("mine\n") && all.contains("theirs\n"))
        }
    }

    @Test("a package: what another program saves in it meanwhile is merged, or in conflict")
    func package() throws {
        try story("a.rtfd") { desk, root in
            try desk.type("mine" + Self.lines.dropFirst(3)) {
                try stranger("echo page > \(desk.path)/page.txt")
            }
            try wait(for: "both") { try? text("\(desk.path)/page.txt") == "page\n" ? true : nil }
            #expect(try text("\(desk.path)/text").hasPrefix("mine\n"))
            try desk.wait(forLight: "normal")
            try desk.type("again" + Self.lines.dropFirst(3)) {
                try stranger("sed -i s/mine/theirs/ \(desk.path)/text")
            }
            try desk.wait(forLight: "conflict")
            #expect(try text("\(desk.path)/text").hasPrefix("again\n"))
            let found = try Command("sh", "-c", "cat \(root)/.conflicts/a.rtfd/*/text").succeed()
            #expect(found.hasPrefix("theirs\n"))
        }
    }

    @Test(
        "what is on the screen is what is copied",
        arguments: ["cp PATH COPY", "cp -a PATH COPY", "install PATH COPY", "mv PATH COPY"])
    func copied(_ script: String) throws {
        let home = try TemporaryDirectory("copies")
        try story { desk, _ in
            try desk.type("unsaved\n")
            let copy = "\(home.path)/copy"
            try stranger(
                script.replacing("PATH", with: desk.path).replacing("COPY", with: copy))
            #expect(try text(copy) == "unsaved\n")
            if script.hasPrefix("mv") { try desk.wait(forLight: "closed") }
        }
    }

    @Test(
        "a removed document is gone, and the program that shows it closes it",
        arguments: ["rm PATH", "rm -r DIR", "rm PATH; echo new > PATH"])
    func removed(_ script: String) throws {
        try story("d/a.txt") { desk, root in
            try desk.type("unsaved\n")
            try stranger(
                script.replacing("PATH", with: desk.path).replacing("DIR", with: "\(root)/d"))
            try desk.wait(forLight: "closed")
            let left = try Command("find", root, "-type", "f").succeed()
            #expect(left == (script.contains("echo") ? "\(desk.path)\n" : ""))
            if script.contains("echo") { #expect(try text(desk.path) == "new\n") }
        }
    }

    @Test("a document that a program shows is not evicted; a person can insist")
    func shown() throws {
        try Fleet.with(2) { fleet in
            for name in ["a.txt", "b.txt"] { try fleet.put(0, name, "text") }
            try fleet.settle()
            let root = fleet.devices[1].path
            let desk = try Desk("\(root)/a.txt")
            func state(_ name: String) -> String {
                let bytes = FilePath("\(root)/\(name)").attribute("user.concord.state") ?? []
                return String(decoding: bytes, as: UTF8.self)
            }
            let said = try Command(Programs.fsctl, "evict", desk.path).run()
            #expect(said.status != 0 && said.errors.contains("turns-program"))
            // In a directory it is left out.
            _ = try Command(Programs.fsctl, "evict", root).run()
            #expect(state("a.txt") == "current" && state("b.txt") == "dataless")
            try Programs.fsctl("evict", "--force", desk.path).succeed()
            #expect(state("a.txt") == "dataless")
            try desk.obey("close draft")
        }
    }

    @Test("B4.2: a program finds the volumes, and the one for its documents")
    func discovery() throws {
        try MountedVolume.with { one in
            try MountedVolume.with { two in
                let program = try Program("documents")
                let places = [one, two].map { URL(filePath: $0.path).path }
                func mounted() throws -> [String] {
                    let all = try #require(try program.file("volumes all").paths)
                    return all.map { URL(filePath: $0).path }.filter(places.contains)
                }
                #expect(try mounted() == places)
                #expect(
                    try program.file("standard \(two.path)/x").path == "\(places[1])/Notes")
                #expect(FileManager.default.fileExists(atPath: "\(places[1])/Notes"))
                let error = try #require(try program.file("standard /etc").error)
                #expect(error.contains("CONCORD_VOLUME is /etc, which is on no Concord volume"))
                try two.suspend()
                defer { two.resume() }
                #expect(try mounted() == [places[0]])
            }
        }
    }

    @Test("a coordinated read downloads before its accessor runs, and offline throws")
    func downloaded() throws {
        try Fleet.with(2) { fleet in
            try fleet.put(0, "a.txt", "text")
            try fleet.settle()
            let (program, path) = (try Program("documents"), "\(fleet.devices[1].path)/a.txt")
            try Programs.fsctl("evict", path).succeed()
            #expect(try program.file("read \(path)").message == "current")
            try Programs.fsctl("evict", path).succeed()
            try fleet.offline(1)
            let said = try program.file("read \(path)")
            #expect(said.code == "unavailable" && said.message == nil)
            #expect(said.error?.contains("cannot be downloaded") == true)
        }
    }

    @Test("a bookmark is resolved although the daemon of another volume has stopped")
    func bookmark() throws {
        try story { desk, root in
            try MountedVolume.with { other in
                try desk.obey("mark m \(desk.path)")
                try stranger("mv \(desk.path) \(root)/b.txt")
                try other.suspend()
                defer { other.resume() }
                #expect(try desk.obey("find m").path == "\(root)/b.txt")
            }
        }
    }

    @Test("a query finds all, rests while nothing happens, and reports what happens then")
    func query() throws {
        try story { desk, root in
            try desk.obey("query all \(root)")
            try wait(for: "the first") {
                try desk.obey("found all").paths == [desk.path] ? true : nil
            }
            let thread = try #require(try QueryThread(of: desk.program.pid))
            try wait(seconds: 30, for: "the query to rest") {
                let count = try thread.switches
                usleep(700_000)
                return try thread.switches == count ? true : nil
            }
            try stranger("echo b > \(root)/b.txt")
            try wait(for: "the second") {
                try desk.obey("found all").paths == [desk.path, "\(root)/b.txt"] ? true : nil
            }
        }
    }

    @Test("ketchup and mustard: what both devices add to a list offline is in the list")
    func list() throws {
        try Fleet.with(2) { fleet in
            try fleet.put(0, "list.txt", "- bread\n")
            try fleet.expectEqual()
            let desks = try fleet.devices.map { try Desk("\($0.path)/list.txt") }
            for index in 0..<2 { try fleet.offline(index) }
            for (desk, what) in zip(desks, ["ketchup", "mustard"]) {
                try desk.type("- bread\n- \(what)\n")
                try desk.obey("save draft")
            }
            for index in 0..<2 { try fleet.online(index) }
            try fleet.settle()
            try wait(seconds: 30, for: "one list on both devices") {
                let shown = try desks.map { try $0.shown }
                let words = Set(shown[0].split(separator: "\n"))
                return shown[0] == shown[1] && words == ["- bread", "- ketchup", "- mustard"]
                    ? true : nil
            }
            for desk in desks { try desk.obey("close draft") }
        }
    }

    @Test("an edit that beats a deletion: the document is there again, with the edit")
    func edited() throws {
        try Fleet.with(2) { fleet in
            try fleet.put(0, "a.txt", "old\n")
            try fleet.expectEqual()
            let desk = try Desk("\(fleet.devices[1].path)/a.txt")
            try fleet.offline(1)
            try desk.type("edited\n")
            try desk.obey("save draft")
            try fleet.shell(0, "rm a.txt")
            try fleet.settle([0])
            try fleet.online(1)
            try fleet.settle()
            #expect(fleet.text(0, "a.txt") == "edited\n")
            #expect(fleet.text(1, "a.txt") == "edited\n")
            #expect(try desk.shown == "edited\n")
            try desk.obey("close draft")
        }
    }
}
