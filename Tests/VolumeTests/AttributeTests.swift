import CLinux
import Foundation
import Glibc
import Journal
import Model
import SystemCalls
import Testing

@testable import Volume

/// The journal has modes and extended attributes as they are in the tree.
@Suite struct AttributeTests {
    let program = Program(process: 10, name: "vim")

    private func set(_ tree: ProgramTree, _ path: String, _ name: String, _ value: [UInt8]) throws {
        let file = try Descriptor(opening: tree.real(path), flags: O_RDONLY)
        try check(cl_setxattr_fd(file.raw, name, value, value.count, 0))
        tree.volume.events.attributesChanged(inode: UInt64(try file.status().st_ino))
    }

    private func list(_ tree: ProgramTree, _ path: String) throws -> [String] {
        let item = try #require(try tree.item(path))
        let list = try #require(AttributeList(encoded: item.attributes))
        return list.attributes.map { String(decoding: $0.name, as: UTF8.self) }
    }

    /// The recorder learns of the change of the mode when the tree shows the new name already.
    @Test(arguments: ["a", "d"]) func renamedBeforeItIsRead(name: String) throws {
        let tree = try ProgramTree()
        try tree.mkdir("d", by: program)
        try tree.save(name == "a" ? "a" : "d/a", "text", by: program)
        #expect(tree.quiet())
        let file = name == "a" ? "a" : "d/a"
        let item = try #require(try tree.item(file))
        try check(chmod(tree.real(file), 0o600))
        try check(rename(tree.real(name), tree.real("new")))
        tree.volume.events.attributesChanged(inode: item.inode)
        #expect(tree.quiet())
        #expect(try tree.item(file)?.mode == 0o644)
        try check(rename(tree.real("new"), tree.real(name)))
        try tree.rename(name, "new", by: program)
        #expect(tree.quiet())
        #expect(try tree.item(name == "a" ? "new" : "new/a")?.mode == 0o600)
        #expect(try tree.texts(name == "a" ? "new" : "new/a") == ["text"])
        tree.stop()
    }

    @Test func programsChangeAttributes() throws {
        let tree = try ProgramTree()
        try tree.save("a", "text", by: program)
        try tree.mkdir("d", by: program)
        try tree.mkdir("p.pages", by: program)
        try tree.save("p.pages/x", "inside", by: program)
        #expect(tree.quiet())
        #expect(try tree.item("a")?.mode == 0o644)
        #expect(try tree.item("d")?.mode == 0o755)
        let versions = try tree.texts("a").count
        for path in ["a", "d", "p.pages"] {
            try set(tree, path, "user.z", [1])
            try set(tree, path, "user.b", Array(repeating: 7, count: 1000))
            try set(tree, path, "user.concord.other", [1])
            chmod(tree.real(path), 0o700)
            try set(tree, path, "user.c", [])
        }
        #expect(tree.quiet())
        for path in ["a", "d", "p.pages"] {
            #expect(try tree.item(path)?.mode == 0o700)
            #expect(try list(tree, path) == ["user.b", "user.c", "user.z"])
        }
        #expect(try tree.texts("a").count == versions)
        #expect(try tree.item("a")?.changed != 0)
        try tree.checkInvariants()
    }

    /// The attribute is larger than any file system accepts. It must not look as if a program had
    /// removed it.
    @Test func anAttributeThatDoesNotFitStaysAgreedOn() throws {
        let tree = try ProgramTree()
        let attributes = AttributeList([
            .init(name: Array("user.large".utf8), value: [UInt8](repeating: 7, count: 70_000)),
            .init(name: Array("user.small".utf8), value: [1]),
        ])
        let text = Array("text".utf8)
        var file = try tree.arrival(text)
        file.attributes = attributes
        let directory = Arrival(item: .random(), kind: .directory, attributes: attributes)
        try tree.arrive(text, file, at: "a")
        try tree.bring(try tree.prepare(directory), to: "d")
        #expect(tree.quiet())
        for path in ["a", "d"] {
            #expect(try list(tree, path) == ["user.large", "user.small"])
            try set(tree, path, "user.other", [1])
        }
        try tree.save("a", "edited", by: program)
        #expect(tree.quiet())
        try tree.remount()
        #expect(tree.quiet())
        for path in ["a", "d"] {
            #expect(try list(tree, path) == ["user.large", "user.other", "user.small"])
        }
        try tree.checkInvariants()
    }

    @Test func anAttributeThatDidNotFitIsTriedAgain() throws {
        let tree = try ProgramTree()
        try tree.save("a", "text", by: program)
        #expect(tree.quiet())
        let late = AttributeList.Attribute(
            name: Array("user.late".utf8), value: [9], isOnFile: false)
        var item = try #require(try tree.item("a"))
        item.attributes = AttributeList([late]).encoded
        let changed = item
        try tree.volume.recorder.perform { _, t in try t.update(changed) }
        let recorder = tree.volume.recorder
        recorder.signal.change { recorder.tasks.append { try? $0.attributes.retry() } }
        try tree.volume.recorder.perform { _, _ in }
        let known = AttributeList(encoded: try #require(try tree.item("a")).attributes)
        #expect(known?.attributes == [.init(name: late.name, value: [9])])
        let open = try Descriptor(opening: tree.real("a"), flags: O_RDONLY)
        #expect(AttributeList(of: open.raw) == known)
        #expect(try tree.texts("a") == ["text"])
        try tree.checkInvariants()
    }

    @Test func theScanFindsAttributes() throws {
        let tree = try ProgramTree()
        try tree.save("a", "text", by: program)
        try tree.mkdir("d", by: program)
        #expect(tree.quiet())
        try tree.remount {
            for path in ["a", "d"] {
                chmod(tree.real(path), 0o750)
                let file = try Descriptor(opening: tree.real(path), flags: O_RDONLY)
                try check(cl_setxattr_fd(file.raw, "user.x", "1", 1, 0))
            }
        }
        #expect(tree.quiet())
        for path in ["a", "d"] {
            #expect(try tree.item(path)?.mode == 0o750)
            #expect(try list(tree, path) == ["user.x"])
        }
        #expect(try tree.texts("a") == ["text"])
    }

    @Test func settingTimesMakesNoVersion() throws {
        let tree = try ProgramTree()
        try tree.save("a", "text", by: program)
        #expect(tree.quiet())
        let file = try Descriptor(opening: tree.real("a"), flags: O_RDONLY)
        try PlaceholderMark.restore(1_000_000_000_000, of: file.raw)
        tree.volume.events.attributesChanged(inode: UInt64(try file.status().st_ino))
        #expect(tree.quiet())
        #expect(try tree.item("a")?.modified == 1_000_000_000_000)
        #expect(try tree.texts("a") == ["text"])
        try tree.checkInvariants()
    }

    @Test func attributeListsAreEncoded() {
        let list = AttributeList([
            .init(name: Array("user.b".utf8), value: []),
            .init(name: Array("user.a".utf8), value: [0, 255]),
            .init(name: Array("user.concord.package".utf8), value: [1]),
            .init(name: Array("security.x".utf8), value: [1]),
        ])
        #expect(list.attributes.map(\.name) == [Array("user.a".utf8), Array("user.b".utf8)])
        #expect(AttributeList(encoded: list.encoded) == list)
        #expect(AttributeList().encoded == nil)
        #expect(AttributeList(encoded: nil) == AttributeList())
        #expect(AttributeList(encoded: [1, 0, 0]) == nil)
        #expect(AttributeList(encoded: [9, 0, 0, 0, 1]) == nil)
    }
}
