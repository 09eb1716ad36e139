import Foundation
import Glibc
import Support
import Testing

/// A tree that is there and cannot be read tells the hub of no deletion.
@Suite("A tree that cannot be read", .serialized) struct UnreadableTreeTests {
    /// A library that lets readdir(3) fail in the trees of stores, after some entries.
    private func library(in directory: String) throws -> String {
        let source = URL(filePath: #filePath).deletingLastPathComponent()
            .deletingLastPathComponent().appending(path: "KillAtStep/fail-readdir.c").path
        let library = "\(directory)/fail-readdir.so"
        try Command("gcc", "-shared", "-fPIC", "-O1", "-o", library, source).succeed()
        return library
    }

    @Test(
        "reading a directory fails with EIO, at its beginning or in its middle",
        arguments: [1, 12], [0, 3])
    func failing(documents: Int, after entries: Int) throws {
        let directory = try TemporaryDirectory("readdir")
        let library = try library(in: directory.path)
        try Fleet.with(2) { fleet in
            try fleet.shell(
                0, "mkdir d; for i in $(seq \(documents)); do echo $i > $i; echo $i > d/$i; done")
            try fleet.expectEqual()
            let device = fleet.devices[1]
            let names = try fleet.names(0)
            try device.unmount()
            device.environment = ["LD_PRELOAD": library, "CONCORD_FAIL_READDIR": "\(entries)"]
            try device.mount()
            try wait(seconds: 60, for: "the device to say so") {
                let said = try Programs.fsctl("status", "--json", device.path).run().output
                return said.contains("cannot be examined") ? true : nil
            }
            // Both tell each other something afterwards.
            try fleet.put(0, "later", "1")
            try wait(seconds: 60, for: "a document of the other device") {
                fleet.text(1, "later") == "1" ? true : nil
            }
            try fleet.put(1, "latest", "2")
            try wait(seconds: 60, for: "a document of this device") {
                fleet.text(0, "latest") == "2" ? true : nil
            }
            #expect(try fleet.names(0) == (names + ["later", "latest"]).sorted())
            #expect(try fleet.names(0, "d").count == documents)
            try device.unmount()
            device.environment = [:]
            try device.mount()
            try fleet.expectEqual()
            #expect(try fleet.names(1) == (names + ["later", "latest"]).sorted())
        }
    }

    @Test("one document of one is gone from a tree: the other device keeps it, and brake says so")
    func emptied() throws {
        try Fleet.with(2) { fleet in
            try fleet.put(0, "only", "text")
            try fleet.expectEqual()
            let device = fleet.devices[1]
            try device.unmount()
            try call(rename("\(device.tree)/only", "\(device.store)/away"))
            try device.mount()
            try wait(seconds: 60, for: "the brake") {
                let said = try Programs.fsctl("brake", "--at", device.path).succeed()
                return said.contains("1 document missing") ? true : nil
            }
            try fleet.settle()
            #expect(fleet.text(0, "only") == "text")
            let said = try Programs.fsctl("brake", "--release", "--at", device.path).succeed()
            #expect(said.contains("deleted now"))
            try wait(seconds: 60, for: "the deletion") {
                try fleet.names(0).isEmpty ? true : nil
            }
            try fleet.expectEqual()
            #expect(
                try Programs.fsctl("brake", "--at", device.path).succeed()
                    .contains("Nothing is held back"))
        }
    }
}
