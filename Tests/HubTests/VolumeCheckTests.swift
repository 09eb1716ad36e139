import HubProtocol
import Model
import Reconcile
import Support
import Testing

@testable import Hub

struct VolumeCheckTests {
    /// What a check finds after a change of the ledger, which is rolled back.
    private struct Found: Error {
        let faults: [String]
    }

    private func faults(
        _ hub: RunningHub, _ volume: Identifier, after sql: String? = nil, _ item: Identifier
    ) async throws -> [String] {
        do {
            try await hub.hub.ledger.write { transaction in
                if let sql { try transaction.execute(sql, [.id(item)]) }
                let whole = try VolumeCheck(volume, transaction).run()
                // Few rows in a page, and few chunks counted at once, make no difference.
                let parts = try VolumeCheck(volume, transaction).run(pageRows: 2, chunksHeld: 2)
                #expect(whole.items == parts.items && whole.revisions == parts.revisions)
                #expect(whole.items == 10 && whole.faults.sorted() == parts.faults.sorted())
                throw Found(faults: whole.faults)
            }
        } catch let found as Found {
            return found.faults
        }
        return []
    }

    /// Changes of the rows of an item and its version, and what is said of them.
    private static let planted = [
        ("UPDATE items SET sequence = 99 WHERE id = $1", "has a sequence after the head"),
        ("UPDATE items SET sequence = 0 WHERE id = $1", "has an older sequence number in its row"),
        ("UPDATE items SET alive = 0 WHERE id = $1", "is in another place in its row"),
        ("UPDATE items SET state = id WHERE id = $1", "cannot be read"),
        ("DELETE FROM revisions WHERE item = $1", "of item"),
        ("UPDATE items SET parent = id WHERE id = $1", "is in another place in its row"),
        (
            """
            UPDATE chunks SET uses = 7
            WHERE substr(id, length(id) - 31) = (SELECT chunks FROM revisions WHERE item = $1)
            """, "counts 7 versions, and 1 name it"
        ),
        (
            """
            UPDATE chunks SET state = 1
            WHERE substr(id, length(id) - 31) = (SELECT chunks FROM revisions WHERE item = $1)
            """, "is condemned"
        ),
        (
            """
            DELETE FROM chunks
            WHERE substr(id, length(id) - 31) = (SELECT chunks FROM revisions WHERE item = $1)
            """, "of version"
        ),
    ]

    @Test("each fault is found, in any page") func faults() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            try await device.commit([device.directory("directory")])
            for number in 0..<9 { try await device.save("\(number)", bytes("\(number)")) }
            let volume = device.volume.id
            let items = try await hub.hub.ledger.read { transaction in
                try transaction.rows(
                    "SELECT item FROM revisions WHERE volume = $1 ORDER BY item", [.id(volume)]
                ).map { try $0.id(0) }
            }
            #expect(try await faults(hub, volume, .root) == [])
            for (sql, said) in Self.planted {
                for item in [items[0], items[8]] {
                    let found = try await faults(hub, volume, after: sql, item)
                    #expect(found.contains { $0.contains(said) }, "\(said): \(found)")
                }
            }
            #expect(try await faults(hub, volume, .root) == [])
        }
    }

    @Test("two items with one name are found") func names() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            for number in 0..<10 { try await device.save("\(number)", bytes("\(number)")) }
            let volume = device.volume.id
            // Both rows and both states have the same name.
            let twins = try await hub.hub.ledger.read { transaction in
                try transaction.rows("SELECT id FROM items WHERE volume = $1", [.id(volume)])
                    .compactMap { try transaction.item($0.id(0), in: volume) }
            }
            let found: [String]
            do {
                found = try await hub.hub.ledger.write { transaction in
                    var twin = twins[0]
                    twin.placement = twins[1].placement
                    try transaction.put(twin, replacing: twins[0], in: volume)
                    throw Found(
                        faults: try VolumeCheck(volume, transaction).run(pageRows: 3).faults)
                }
            } catch let thrown as Found {
                found = thrown.faults
            }
            #expect(found.count == 1)
            #expect(found.first?.contains("have the same name in one directory") == true)
        }
    }
}
