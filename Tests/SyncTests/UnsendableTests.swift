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
                let last = try #require(try t.outbox(limit: .max).last)
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
}
