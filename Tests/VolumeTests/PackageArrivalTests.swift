import CLinux
import Foundation
import Glibc
import Journal
import Model
import SystemCalls
import Testing

@testable import Volume

/// Packages arrive and change as a whole.
@Suite struct PackageArrivalTests {
    let program = Program(process: 10, name: "pages")
    let one = Array("one".utf8)
    let two = Array("two, and more of it".utf8)

    private func exchange(_ tree: ProgramTree, _ name: String, with path: String) throws {
        try tree.bring(name, to: path, flags: RENAME_EXCHANGE)
    }

    /// Removes the files of a package that was put aside, as the applier does.
    private func clear(_ tree: ProgramTree, _ name: String) throws {
        let directory = tree.store + "/incoming/" + name
        for file in try FileManager.default.subpathsOfDirectory(atPath: directory).reversed() {
            let path = directory + "/" + file
            let parent = try Descriptor(
                opening: (path as NSString).deletingLastPathComponent, flags: O_PATH)
            let inode = UInt64(try parent.status().st_ino)
            let last = (path as NSString).lastPathComponent
            try last.withCString { text in
                let place = Place(descriptor: parent.raw, inode: inode, name: text)
                let status = try #require(tree.status(place))
                if FileSnapshot(status).isDirectory {
                    try tree.volume.names.rmdir(place, status: status, by: applier.actor)
                } else {
                    _ = try tree.volume.names.unlink(
                        place, status: status, traits: [], by: applier.actor)
                }
            }
        }
        rmdir(directory)
    }

    @Test func aNewPackage() throws {
        let tree = try ProgramTree()
        let arrival = try tree.packageArrival([("in", nil), ("in/b", two), ("x", one)])
        try tree.bring(try tree.prepare(arrival, one, two), to: "p.pages")
        #expect(tree.quiet())
        let item = try #require(try tree.item("p.pages"))
        #expect(item.id == arrival.item && item.kind == .package)
        #expect(item.current == arrival.version?.id)
        #expect(try tree.kinds("p.pages") == [.current])
        #expect(tree.contents("p.pages/in/b") == two)
        try tree.checkInvariants()
    }

    @Test(arguments: [true, false]) func aChangedPackage(isKilled: Bool) throws {
        let tree = try ProgramTree()
        try tree.mkdir("p.pages", by: program)
        try tree.save("p.pages/x", one, by: program)
        try tree.save("p.pages/same", two, by: program)
        #expect(tree.quiet())
        let before = try #require(try tree.item("p.pages"))
        #expect(before.current != nil)
        let three = Array("three".utf8)
        let arrival = try tree.packageArrival(
            [("same", two), ("x", three)], item: before.id, parents: [before.current!])
        let name = try tree.prepare(arrival, two, three)
        if isKilled { tree.volume.recorder.abandon() }
        try exchange(tree, name, with: "p.pages")
        if isKilled {
            tree.onOpening = {
                $0.arrivals.onArrival { tag, _ in tag == arrival.mark ? arrival : nil }
            }
            try tree.crash()
        } else {
            try clear(tree, name)
        }
        #expect(tree.quiet())
        let now = try #require(try tree.item("p.pages"))
        #expect(now.key == before.key && now.current == arrival.version?.id)
        #expect(try tree.kinds("p.pages") == [.history, .current])
        #expect(tree.contents("p.pages/x") == three)
        let old = try tree.volume.versions.content(of: before.current!)
        let index = try #require(
            old.manifest.entries.firstIndex { $0.path == Array("x".utf8) })
        #expect(try tree.bytes(old, entry: index) == one)
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: tree.store + "/incoming").isEmpty)
        try tree.checkInvariants()
    }

    /// A program has changed the old package at the last moment, so it is put back.
    @Test func aChangedPackageIsPutBack() throws {
        let tree = try ProgramTree()
        try tree.mkdir("p.pages", by: program)
        try tree.save("p.pages/x", one, by: program)
        #expect(tree.quiet())
        let before = try #require(try tree.item("p.pages"))
        let arrival = try tree.packageArrival([("x", two)], item: before.id)
        let name = try tree.prepare(arrival, two)
        try exchange(tree, name, with: "p.pages")
        let directory = tree.store + "/incoming/"
        try Data("late".utf8).write(to: URL(fileURLWithPath: directory + name + "/y"))
        #expect(rename(directory + name, directory + "back." + name) == 0)
        try exchange(tree, "back." + name, with: "p.pages")
        try clear(tree, "back." + name)
        #expect(tree.quiet())
        #expect(tree.contents("p.pages/y") == Array("late".utf8))
        let history = try #require(try tree.volume.history.document(at: names("p.pages")))
        #expect(history.id == before.id)
        #expect(history.versions.last?.parents == [before.current!])
        #expect(history.versions.map(\.kind) == [.history, .current])
    }
}
