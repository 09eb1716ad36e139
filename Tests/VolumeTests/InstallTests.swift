import CLinux
import Foundation
import Glibc
import Journal
import Model
import SystemCalls
import Testing

@testable import Volume

/// A device joins: many items at once.
@Suite struct InstallTests {
    let program = Program(process: 10, name: "vim")

    private func file(_ size: UInt64) -> Arrival {
        let version = Version(
            number: 0, device: .random(), deviceName: "other", person: "ann", program: "cp",
            name: Name("x"), size: size, modified: 1_700_000_000_000_000_001, saved: 1,
            content: .sha256([1]), durability: .hub)
        return Arrival(item: .random(), kind: .file, version: version, mode: 0o644)
    }

    @Test func ownersAndAccessListsAreThoseOfTheDirectory() throws {
        let tree = try ProgramTree()
        try tree.mkdir("theirs", by: program)
        let path = tree.real("theirs")
        let all: [UInt8] = [255, 255, 255, 255]
        // Version 2; user rwx, user 4321 rw-, group ---, mask rwx, others ---.
        let list: [UInt8] =
            [2, 0, 0, 0] + [1, 0, 7, 0] + all + [2, 0, 6, 0, 0xE1, 0x10, 0, 0] + [4, 0, 0, 0]
            + all + [16, 0, 7, 0] + all + [32, 0, 0, 0] + all
        let made = try Descriptor(opening: path, flags: O_PATH)
        try #require(
            cl_setxattr_fd(made.raw, "system.posix_acl_default", list, list.count, 0) == 0)
        if geteuid() == 0 { try #require(chown(path, 4321, 4322) == 0) }
        let owner = try made.status()
        #expect(tree.quiet())
        let parent = try #require(try tree.item("theirs")).id
        let directory = Arrival(item: .random(), kind: .directory, mode: 0o755)
        let link = Arrival(item: .random(), kind: .symlink, target: Array("f".utf8))
        let report = try tree.volume.arrivals.install([
            Installation(directory, in: parent, name: Name("d")),
            Installation(file(5), in: directory.item, name: Name("f")),
            Installation(link, in: directory.item, name: Name("l")),
        ])
        #expect(report.taken.isEmpty)
        for (name, mode) in [("d", 0o755), ("d/f", 0o644), ("d/l", nil)] as [(String, mode_t?)] {
            var status = stat()
            try #require(lstat(path + "/" + name, &status) == 0)
            #expect((status.st_uid, status.st_gid) == (owner.st_uid, owner.st_gid), "\(name)")
            if let mode { #expect(status.st_mode & 0o7777 == mode, "\(name)") }
        }
        var found = [UInt8](repeating: 0, count: 100)
        for (name, attribute) in [("d", "default"), ("d", "access"), ("d/f", "access")] {
            let file = try Descriptor(opening: path + "/" + name, flags: O_PATH)
            let count = cl_getxattr_fd(
                file.raw, "system.posix_acl_" + attribute, &found, found.count)
            #expect(count == list.count, "\(name) \(attribute)")
        }
        try tree.remount()
        #expect(tree.quiet())
        #expect(try tree.item("theirs/d/f")?.mode == 0o644)
    }

    @Test func aTreeOfPlaceholders() throws {
        let tree = try ProgramTree()
        try tree.save("mine", "mine", by: program)
        let directory = Arrival(item: .random(), kind: .directory, mode: 0o755)
        let link = Arrival(item: .random(), kind: .symlink, target: Array("f0".utf8))
        var items = [
            Installation(directory, in: .none, name: Name("d")),
            Installation(link, in: directory.item, name: Name("l")),
            Installation(file(5), in: .none, name: Name("mine")),
            Installation(file(5), in: .random(), name: Name("nowhere")),
            Installation(file(0), in: directory.item, name: Name("empty")),
        ]
        let first = items.count
        for index in 0..<10_000 {
            items.append(
                Installation(
                    file(UInt64(index + 1)), in: directory.item, name: Name("f\(index)")))
        }
        let report = try tree.volume.arrivals.install(items) { item, key, t in
            try t.set("mirror \(key)", to: item.name.text)
        }
        #expect(report.taken == [2, 3])
        #expect(report.spots.count == items.count - 2)
        #expect(tree.quiet())
        #expect(try tree.texts("mine") == ["mine"])
        let last = try #require(try tree.item("d/f9999"))
        #expect(last.id == items[first + 9999].arrival.item && last.size == 10_000)
        #expect(last.current == items[first + 9999].arrival.version?.id)
        var status = stat()
        #expect(stat(tree.real("d/f9999"), &status) == 0)
        #expect(status.st_size == 10_000 && status.st_blocks == 0)
        #expect(status.st_mtim.tv_nsec == 1)
        #expect(try tree.item("d/l")?.id == link.item)
        #expect(try tree.volume.recorder.perform { try $1.value("mirror \(last.key)") } == "f9999")
        let absent = try tree.volume.journal.read { try $0.absentCount() }
        #expect(absent == 10_000)
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: tree.store + "/incoming").isEmpty)
        // Nothing of the placeholders is to be recorded.
        try tree.remount()
        #expect(tree.quiet())
        let count = try tree.volume.journal.read { try $0.versionCount() }
        #expect(count == 10_002)
    }
}
