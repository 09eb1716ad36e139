import Foundation
import Support
import Testing

/// A file system that refuses attributes which another one accepted.
@Suite(.serialized) struct AttributeTests {
    /// ext4 has 4096 bytes for all attributes of a file.
    private static let set =
        "setfattr -n user.large -v $(head -c 6000 /dev/zero | tr '\\0' x)"

    private func size(_ fleet: Fleet, _ path: String) throws -> Int? {
        let result = try Command(
            "getfattr", "--only-values", "-n", "user.large", "\(fleet.devices[0].path)/\(path)"
        ).run()
        return result.status == 0 ? result.output.utf8.count : nil
    }

    @Test("an attribute that does not fit on another device stays where it is")
    func misfit() throws {
        let roomy = try SmallDisk("300m")
        let narrow = try LoopDisk(.ext4, megabytes: 300)
        try Fleet.with(0) { fleet in
            try fleet.join(store: "\(roomy.path)/store")
            try fleet.join(store: "\(narrow.path)/store")
            try fleet.shell(0, "echo 1 > f; mkdir d; \(Self.set) f; \(Self.set) d; echo 1 > late")
            try fleet.settle()
            try fleet.shell(0, "setfattr -n user.large -v small late")
            try fleet.settle()
            try fleet.shell(0, "\(Self.set) late")
            try fleet.settle()
            try fleet.shell(1, "echo 2 > f; echo 2 > late; setfattr -n user.other -v 1 d")
            try fleet.settle()
            try fleet.devices[1].remount()
            try fleet.settle()
            for path in ["f", "d", "late"] { #expect(try size(fleet, path) == 6000, "\(path)") }
            #expect(fleet.text(0, "late") == "2\n")
            // When the attribute is removed where it is, it is gone for good.
            try fleet.shell(0, "setfattr -x user.large f; setfattr -x user.large d")
            try fleet.settle()
            try fleet.shell(1, "echo 3 > f; setfattr -n user.other -v 2 d")
            try fleet.settle()
            #expect(fleet.text(0, "f") == "3\n")
            for path in ["f", "d"] { #expect(try size(fleet, path) == nil, "\(path)") }
        }
    }
}
