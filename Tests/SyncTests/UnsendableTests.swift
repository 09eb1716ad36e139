import Journal
import Model
import Reconcile
import Support
import Testing

@testable import Sync

/// A change that can no longer be sent does not block the others.
@Suite("What cannot be sent", .serialized) struct UnsendableTests {
    @Test("an operation whose contents are gone does not stop the sending")
    func goneContents() throws {
        try Fleet.with(1) { fleet in
            try fleet.shell(0, "echo 1 > a; echo 1 > b")
            try fleet.settle()
            try fleet.hub.stop()
            // An operation without contents gets its number without the hub.
            try fleet.shell(0, "mkdir d")
            let device = fleet.devices[0]
            try wait(for: "what is to be sent to have a number") {
                try fleet.report(device).hub?.sending ?? 0 > 0 ? true : nil
            }
            try device.unmount()
            let journal = try Journal.open(path: "\(device.store)/journal.sqlite")
            try journal.write { t in
                let item = try #require(try t.item(parent: Item.root, name: Name("a")))
                let last = try #require(try t.hub.outbox(limit: .max).last)
                let decoded = Reconcile.Operation(encoded: last.operation)
                var operation = try #require(decoded)
                operation.id.number += 1
                operation.item = item.id
                // The contents were removed in the meantime.
                operation.change = .edit(
                    Revision(
                        id: .random(), parents: [], content: .sha256([1]), size: 1,
                        moment: operation.moment))
                try t.append(
                    OutboxRow(
                        number: operation.id.number, item: item.id, operation: operation.encoded))
                var session = try #require(try Session(t))
                session.nextNumber = operation.id.number + 1
                try session.store(t)
            }
            try journal.close()
            try device.mount()
            try fleet.shell(0, "echo 2 > b; echo 2 > c")
            try fleet.hub.start()
            try fleet.settle()
            try fleet.shell(0, "echo 3 > a")
            try fleet.settle()
            try fleet.join()
            try fleet.expectEqual()
            #expect(try fleet.names(1) == ["a", "b", "c", "d"])
            #expect(fleet.text(1, "a") == "3\n" && fleet.text(1, "b") == "2\n")
        }
    }

    /// The save is recorded and was never sent. Its contents exist nowhere any more.
    @Test("contents that replaced an unsent save in the tree are sent, and are no conflict")
    func lostWhileUnmounted() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "echo 1 > a; echo 1 > b")
            try fleet.expectEqual()
            try fleet.offline(0)
            try fleet.shell(0, "echo 2 > a; echo 2 > b")
            let device = fleet.devices[0]
            try device.waitForDisk()
            try device.unmount()
            var edit = Command("sh", "-ec", "echo new > a; echo new > n; mv n b")
            edit.directory = device.tree
            try edit.succeed()
            try device.mount()
            try device.waitForDisk()
            let said = try Programs.fsctl("status", device.path).succeed()
            for name in ["a", "b"] { #expect(said.contains("of \(name) was replaced"), "\(said)") }
            try fleet.online(0)
            try fleet.expectEqual()
            for index in 0..<2 {
                for name in ["a", "b"] {
                    #expect(fleet.text(index, name) == "new\n")
                    #expect(try fleet.conflicts(index, name) == [])
                }
            }
            try fleet.shell(0, "echo 4 > a")
            try fleet.shell(1, "echo 4 > b")
            try fleet.expectEqual()
            for name in ["a", "b"] { #expect(try fleet.conflicts(0, name) == []) }
        }
    }

    /// Device 0 has the conflict version "by 0"; the other devices have only its description. The
    /// hub comes back as a copy from before the conflict, and device 0 stays away.
    @Test("a conflict version without contents does not hold back its document")
    func conflictWithoutContents() throws {
        try Fleet.with(3) { fleet in
            try fleet.put(0, "a", "base")
            try fleet.expectEqual()
            let backup = try fleet.hub.backUp()
            try fleet.conflict("a")
            for index in 1...2 {
                #expect(try fleet.history(index, "a").versions.contains { $0.kind == "conflict" })
            }
            try fleet.offline(0)
            try fleet.offline(2)
            try fleet.hub.stop()
            try fleet.hub.restore(backup)
            try fleet.hub.start()
            try fleet.put(1, "a", "edited")
            try fleet.shell(1, "mv a b")
            // Device 2 has an unsent conflict version, and yet what device 1 has changed arrives.
            try fleet.online(2)
            try fleet.settle([1, 2])
            #expect(fleet.text(2, "b") == "edited")
            try fleet.shell(2, "mv b c")
            try fleet.settle([1, 2])
            #expect(fleet.text(1, "c") == "edited")
            // It is history on these devices until the device that has its contents comes.
            for index in 1...2 {
                let versions = try fleet.history(index, "c").versions
                #expect(versions.allSatisfy { $0.kind != "conflict" })
            }
            try fleet.online(0)
            try fleet.expectEqual()
            for index in 0..<3 {
                #expect(fleet.text(index, "c") == "edited")
                let conflicts = try fleet.conflicts(index, "c")
                #expect(conflicts == ["by 0"])
            }
        }
    }

    /// Device 1 knew only the name of the document, and the hub has replaced the version since.
    @Test("a version that was never downloaded here does not hold back its document")
    func placeholderInAnOlderStore() throws {
        try Fleet.with(1) { fleet in
            try fleet.put(0, "a", "1")
            try fleet.settle()
            let device = try fleet.join()
            try fleet.settle()
            #expect(try fleet.report(device).hub?.dataless == 1)
            try device.unmount()
            let kept = "\(device.store)-kept"
            try Command("cp", "-a", device.store, kept).succeed()
            try fleet.put(0, "a", "2")
            try fleet.settle([0])
            try device.mount()
            // Without this the hub would not see that the store is an older one.
            try fleet.put(1, "b", "sent")
            try fleet.settle()
            try device.unmount()
            try Command("rm", "-r", device.store).succeed()
            try Command("mv", kept, device.store).succeed()
            for _ in 0..<2 { try fleet.hub.run("gc", "--grace", "0") }
            try device.mount()
            try fleet.expectEqual()
            #expect(fleet.text(1, "a") == "2")
            #expect(try fleet.conflicts(1, "a") == [])
            try fleet.shell(1, "mv a c; echo 3 > c")
            try fleet.expectEqual()
            #expect(fleet.text(0, "c") == "3\n" && fleet.text(0, "b") == "sent")
        }
    }

    /// Device 0 saved the version and evicted it after the hub had confirmed it. Then the hub comes
    /// back as a copy from before, and another device edits the version that the copy has.
    @Test("an evicted version that the hub has lost does not hold back its document")
    func evictedAndLost() throws {
        try Fleet.with(2) { fleet in
            try fleet.put(0, "a", "1")
            try fleet.expectEqual()
            let kept = try fleet.hub.copyData()
            try fleet.offline(1)
            try fleet.put(0, "a", "evicted")
            try fleet.settle([0])
            try Programs.fsctl("evict", "\(fleet.devices[0].path)/a").succeed()
            try fleet.offline(0)
            try fleet.hub.stop()
            try fleet.hub.replaceData(by: kept)
            try fleet.hub.run("restored")
            try fleet.hub.start()
            try fleet.put(1, "a", "2")
            for index in 0..<2 { try fleet.online(index) }
            // The hub's answer must show first that it has lost something.
            try wait(seconds: 60, for: "what the hub has") {
                fleet.text(0, "a") == "2" ? true : nil
            }
            try fleet.expectEqual()
            #expect(try fleet.conflicts(0, "a") == [])
            try fleet.shell(0, "mv a b; echo 3 > b")
            try fleet.expectEqual()
            #expect(fleet.text(1, "b") == "3\n")
        }
    }

    /// Device 1 knows only the name of the document. The hub has replaced its version twice, and
    /// then it comes back as another journal, so that the device cannot tell whether the hub has
    /// this version. The hub has it, the device does not.
    @Test("a version that only the hub has stops nothing")
    func placeholderOfAFormerVersion() throws {
        try Fleet.with(1) { fleet in
            try fleet.put(0, "a", "1")
            try fleet.settle()
            let device = try fleet.join()
            try fleet.settle()
            #expect(try fleet.report(device).hub?.dataless == 1)
            try fleet.offline(1)
            for text in ["2", "3"] {
                try fleet.put(0, "a", text)
                try fleet.settle([0])
            }
            try fleet.hub.stop()
            try fleet.hub.run("restored")
            try fleet.hub.start()
            try fleet.put(1, "b", "sent")
            try fleet.online(1)
            try fleet.expectEqual()
            #expect(fleet.text(1, "a") == "3" && fleet.text(0, "b") == "sent")
            #expect(try fleet.conflicts(1, "a") == [])
        }
    }
}
