import Model
import Synchronization
import Testing

@testable import Hub

struct TurnsTests {
    @Test func whoHasMuchToDoWaitsForOthersBetweenTwoSteps() async throws {
        let turns = Turns()
        let (one, other) = (Identifier(high: 1, low: 1), Identifier(high: 2, low: 2))
        let order = Order()
        await turns.enter(one)
        var tasks: [Task<Void, Never>] = []
        for (account, name) in [(one, "1"), (one, "2"), (one, "3"), (other, "a"), (other, "b")] {
            tasks.append(
                Task {
                    await turns.enter(account)
                    order.add(name)
                    await turns.leave()
                })
            // In this order.
            while await turns.count < tasks.count { await Task.yield() }
        }
        await turns.leave()
        for task in tasks { await task.value }
        #expect(order.names == ["1", "a", "2", "b", "3"])
        // Nobody has it now.
        await turns.enter(other)
        await turns.leave()
    }

    private final class Order: Sendable {
        private let all = Mutex<[String]>([])

        var names: [String] { all.withLock { $0 } }

        func add(_ name: String) { all.withLock { $0.append(name) } }
    }
}
