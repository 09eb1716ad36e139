import CLinux
import Foundation
import Glibc
import Journal
import Model
import Support
import SystemCalls
import Testing
import Volume

@testable import Mount

/// What another device may decide about a file of this device.
@Suite("Incoming attributes", .serialized)
struct IncomingAttributesTests {
    private let stranger: uid_t = 4321

    private func status(_ stage: ApplierStage, _ name: String) throws -> stat {
        var status = stat()
        try #require(lstat(stage.path + "/" + name, &status) == 0, "\(name) \(errno)")
        return status
    }

    private func mode(_ stage: ApplierStage, _ name: String) throws -> UInt32 {
        try status(stage, name).st_mode & 0o7777
    }

    /// A directory that belongs to another user.
    private func directory(_ stage: ApplierStage, _ name: String, mode: mode_t = 0o755) throws {
        let path = stage.path + "/" + name
        #expect(mkdir(path, 0o755) == 0 && chown(path, stranger, stranger) == 0)
        #expect(chmod(path, mode) == 0)
    }

    @Test func setIDBitsNeverArrive() throws {
        try ApplierStage.with { stage in
            try directory(stage, "d")
            try directory(stage, "group", mode: 0o2775)
            var file = ApplierStage.arrival("a program", item: .random())
            file.mode = 0o6755
            #expect(
                stage.apply(
                    .make(incoming: try stage.prepare(file, ["a program"]), at: stage.place("d/f")))
                    == .done)
            #expect(try mode(stage, "d/f") == 0o755)
            #expect(try status(stage, "d/f").st_uid == stranger)
            var absent = ApplierStage.arrival("a program", item: .random())
            (absent.mode, absent.isDataless) = (0o4755, true)
            #expect(
                stage.apply(.make(incoming: try stage.prepare(absent), at: stage.place("d/absent")))
                    == .done)
            #expect(try mode(stage, "d/absent") == 0o755)
            for (name, expected): (String, UInt32) in [("d", 0o755), ("group", 0o2755)] {
                let made = Arrival(item: .random(), kind: .directory, mode: 0o6755)
                let place = stage.place(name + "/new")
                #expect(
                    stage.apply(.make(incoming: try stage.prepare(made), at: place)) == .done)
                // Also in a directory with the set-group-ID bit, as mkdir creates one.
                #expect(try mode(stage, name + "/new") == expected)
            }
        }
    }

    @Test func aReplacementOfASetIDProgramIsNotSetID() throws {
        try ApplierStage.with { stage in
            for arriving: UInt16? in [nil, 0o4755] {
                try stage.write("mine", to: "f")
                #expect(chown(stage.path + "/f", stranger, stranger) == 0)
                #expect(chmod(stage.path + "/f", 0o6751) == 0)
                try stage.quiet()
                let item = try #require(try stage.item("f"))
                var file = ApplierStage.arrival(
                    "theirs", item: item.id, parents: item.current.map { [$0] } ?? [])
                file.mode = arriving
                file.attributes = AttributeList(encoded: item.attributes) ?? AttributeList()
                let step = ApplierStep.replace(
                    incoming: try stage.prepare(file, ["theirs"]), at: stage.place("f"),
                    expected: try stage.expected("f"))
                #expect(stage.apply(step) == .done)
                #expect(stage.text("f") == "theirs")
                #expect(try mode(stage, "f") == (arriving == nil ? 0o751 : 0o755))
                #expect(try status(stage, "f").st_uid == stranger)
                #expect(unlink(stage.path + "/f") == 0)
                try stage.quiet()
            }
        }
    }

    @Test func packagesBelongToTheirDirectorysOwner() throws {
        try ApplierStage.with { stage in
            try directory(stage, "d")
            let bytes = Array("a program".utf8)
            let chunk = ChunkReference(id: .sha256(bytes), length: UInt32(bytes.count))
            let manifest = Manifest(entries: [
                .init(path: Array("in".utf8), kind: .directory, mode: 0o6755),
                .init(
                    path: Array("in/f".utf8), mode: 0o6755, size: UInt64(bytes.count),
                    chunks: [chunk]),
            ])
            // As an older device has encoded it.
            var encoded = manifest.encoded
            let plain: [UInt8] = [0xED, 0x03]
            for index in encoded.indices.dropLast()
            where Array(encoded[index...(index + 1)]) == plain { encoded[index + 1] = 0x1B }
            let version = Version(
                number: 0, device: .random(), deviceName: "other", person: "ann", program: "cp",
                name: Name("x"), size: manifest.size, modified: 1, saved: 1,
                content: .sha256(manifest.contentForm), durability: .hub)
            let arrival = Arrival(
                item: .random(), kind: .package, version: version, manifest: encoded, mode: 0o6755)
            let name = try stage.prepare(arrival, ["a program"])
            #expect(stage.apply(.make(incoming: name, at: stage.place("d/p.pages"))) == .done)
            for inside in ["", "/in", "/in/f"] {
                #expect(try mode(stage, "d/p.pages" + inside) == 0o755)
                #expect(try status(stage, "d/p.pages" + inside).st_uid == stranger)
            }
        }
    }

    @Test func aReplacedFilesAccessListStays() throws {
        try ApplierStage.with { stage in
            try stage.write("mine", to: "f")
            // Version 2; user rw-, user 4321 r--, group ---, mask r--, others ---.
            let list: [UInt8] =
                [2, 0, 0, 0] + [1, 0, 6, 0, 255, 255, 255, 255] + [2, 0, 4, 0, 0xE1, 0x10, 0, 0]
                + [4, 0, 0, 0, 255, 255, 255, 255] + [16, 0, 4, 0, 255, 255, 255, 255]
                + [32, 0, 0, 0, 255, 255, 255, 255]
            let name = "system.posix_acl_access"
            let old = try Descriptor(opening: stage.path + "/f", flags: O_PATH)
            try #require(cl_setxattr_fd(old.raw, name, list, list.count, 0) == 0)
            try stage.quiet()
            let item = try #require(try stage.item("f"))
            var file = ApplierStage.arrival("theirs", item: item.id)
            file.mode = 0o640
            let step = ApplierStep.replace(
                incoming: try stage.prepare(file, ["theirs"]), at: stage.place("f"),
                expected: try stage.expected("f"))
            #expect(stage.apply(step) == .done)
            var found = [UInt8](repeating: 0, count: 100)
            let count = cl_path_getxattr(stage.path + "/f", name, &found, found.count)
            #expect(count >= 0 && Array(found.prefix(max(0, count))) == list)
            #expect(try mode(stage, "f") == 0o640)
        }
    }

    private func list(_ stage: ApplierStage, _ name: String, _ attribute: String) -> [UInt8] {
        var found = [UInt8](repeating: 0, count: 100)
        let count = cl_path_getxattr(stage.path + "/" + name, attribute, &found, found.count)
        return Array(found.prefix(max(0, count)))
    }

    @Test func newFilesGetTheDirectorysDefaultAccessList() throws {
        try ApplierStage.with { stage in
            let (access, initial) = ("system.posix_acl_access", "system.posix_acl_default")
            try directory(stage, "d")
            // Version 2; user rwx, user 4321 rw-, group r-x, mask rwx, others r-x.
            func entries(_ bits: [UInt8]) -> [UInt8] {
                let all: [UInt8] = [255, 255, 255, 255]
                return [2, 0, 0, 0] + [1, 0, bits[0], 0] + all + [2, 0, bits[1], 0]
                    + [0xE1, 0x10, 0, 0] + [4, 0, bits[2], 0] + all + [16, 0, bits[3], 0] + all
                    + [32, 0, bits[4], 0] + all
            }
            let given = entries([7, 6, 5, 7, 5])
            let made = try Descriptor(opening: stage.path + "/d", flags: O_PATH)
            try #require(cl_setxattr_fd(made.raw, initial, given, given.count, 0) == 0)
            try stage.quiet()
            var file = ApplierStage.arrival("theirs", item: .random())
            file.mode = 0o640
            var name = try stage.prepare(file, ["theirs"])
            #expect(stage.apply(.make(incoming: name, at: stage.place("d/f"))) == .done)
            #expect(list(stage, "d/f", access) == entries([6, 6, 5, 4, 0]))
            #expect(try mode(stage, "d/f") == 0o640)
            #expect(list(stage, "d/f", initial) == [])
            name = try stage.prepare(Arrival(item: .random(), kind: .directory, mode: 0o750))
            #expect(stage.apply(.make(incoming: name, at: stage.place("d/new"))) == .done)
            #expect(list(stage, "d/new", access) == entries([7, 6, 5, 5, 0]))
            #expect(list(stage, "d/new", initial) == given)
            // As for a file created by creat(2).
            let path = stage.path + "/d/here"
            let own = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o640)
            #expect(own >= 0 && close(own) == 0)
            #expect(list(stage, "d/here", access) == list(stage, "d/f", access))
            #expect(mkdir(stage.path + "/d/local", 0o750) == 0)
            for attribute in [access, initial] {
                #expect(list(stage, "d/local", attribute) == list(stage, "d/new", attribute))
            }
        }
    }

    @Test func operationsSetNoOtherAttributes() throws {
        try ApplierStage.with { stage in
            try stage.write("mine", to: "f")
            try directory(stage, "d", mode: 0o2775)
            try stage.quiet()
            let list: [UInt8] =
                [2, 0, 0, 0] + [1, 0, 6, 0, 255, 255, 255, 255] + [2, 0, 7, 0, 0xE1, 0x10, 0, 0]
                + [4, 0, 7, 0, 255, 255, 255, 255] + [16, 0, 7, 0, 255, 255, 255, 255]
                + [32, 0, 7, 0, 255, 255, 255, 255]
            let forbidden: [(String, [UInt8])] = [
                // Revision 2, effective, all capabilities permitted.
                (
                    "security.capability",
                    [1, 0, 0, 2] + [255, 255, 255, 255, 0, 0, 0, 0, 255, 1, 0, 0, 0, 0, 0, 0]
                ),
                ("trusted.x", [1]), ("system.posix_acl_access", list),
                ("user.concord.absent", [UInt8](repeating: 7, count: 32)),
            ]
            for name in ["f", "d"] {
                let file = try Descriptor(opening: stage.path + "/" + name, flags: O_PATH)
                try #require(cl_setxattr_fd(file.raw, "trusted.mine", [1], 1, 0) == 0)
                try stage.quiet()
                let inode = try #require(try stage.item(name)).inode
                let change = TreeChange(
                    mode: 0o6750,
                    set: (forbidden + [("user.x", [1])]).map {
                        .init(name: Array($0.0.utf8), value: $0.1)
                    }, removed: [Array("trusted.mine".utf8)])
                #expect(
                    stage.apply(.change(at: stage.place(name), inode: inode, change)) == .done)
                let path = stage.path + "/" + name
                var value = [UInt8](repeating: 0, count: 100)
                #expect(cl_path_getxattr(path, "user.x", &value, value.count) == 1)
                #expect(cl_path_getxattr(path, "trusted.mine", &value, value.count) == 1)
                for (name, _) in forbidden {
                    let count = cl_path_getxattr(path, name, &value, value.count)
                    #expect(count < 0, "\(name)")
                }
                // The set-group-ID bit of a directory was set on this device.
                #expect(try mode(stage, name) == (name == "f" ? 0o750 : 0o2750))
            }
        }
    }
}
