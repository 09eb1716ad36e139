import Model
import Support
import Testing

@testable import Hub
@testable import HubWebDAV

struct DescendantTests {
    @Test("whether items are below a folder is found in few steps") func steps() async throws {
        try await RunningHub.with { hub in
            var device = try await hub.device()
            let top = Identifier.random()
            let (elsewhere, volume) = (Identifier.random(), device.volume.id)
            var entries = [
                device.directory("top", id: top), device.directory("elsewhere", id: elsewhere),
            ]
            var deepest = top
            for number in 0..<20 {
                let next = Identifier.random()
                entries.append(device.directory("\(number)", id: next, in: deepest))
                deepest = next
            }
            let items = (0..<50).map { _ in Identifier.random() }
            for (number, item) in items.enumerated() {
                entries.append(device.directory("item \(number)", id: item, in: deepest))
            }
            try await device.commit(entries)
            func below(_ folder: Identifier, steps: Int = Descendants.steps) async throws -> Int {
                try await hub.hub.ledger.read { transaction in
                    var below = Descendants(of: folder, in: volume, transaction, steps: steps)
                    return try items.count { try below.contains($0) }
                }
            }
            #expect(try await below(.root) == 50)
            #expect(try await below(top) == 50)
            #expect(try await below(elsewhere) == 0)
            // The directories above the items are looked up once.
            #expect(try await below(top, steps: 70) == 50)
            #expect(try await below(top, steps: 20) == 0)
            let itself = try await hub.hub.ledger.read { transaction in
                var below = Descendants(of: top, in: volume, transaction)
                return try (below.contains(top), below.contains(elsewhere))
            }
            #expect(itself == (false, false))
        }
    }
}
