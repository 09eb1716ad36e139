import Dispatch
import Glibc
import Model
import Synchronization
import Testing

@testable import Hub

struct TurnsTests {
    @Test func whoHasMuchToDoWaitsForOthersBetweenTwoSteps() async throws {
        let turns = RoundRobinLock()
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
            // The tasks must queue in this order.
            while await turns.count < tasks.count { await Task.yield() }
        }
        await turns.leave()
        for task in tasks { await task.value }
        #expect(order.names == ["1", "a", "2", "b", "3"])
        // Nobody holds the lock now.
        await turns.enter(other)
        await turns.leave()
    }

    /// Hard work is serialized within one account and does not delay others.
    @Test func hardWorkOfAnAccountIsDoneOneByOne() async throws {
        let (work, one, other) = (
            KeyedLock(), Identifier(high: 1, low: 1), Identifier.random()
        )
        let busy = Busy()
        let tasks = (0..<50).map { _ in
            Task.detached {
                await work.alone(one) {
                    busy.enter()
                    usleep(100)
                    busy.leave()
                }
            }
        }
        for task in tasks { await task.value }
        #expect(busy.most == 1)

        let isFree = DispatchSemaphore(value: 0)
        let first = Task.detached {
            await work.alone(one) {
                busy.enter()
                isFree.wait()
            }
        }
        while !busy.isEntered { await Task.yield() }
        #expect(await work.alone(other) { 5 } == 5)
        isFree.signal()
        await first.value
        #expect(await work.alone(one) { 6 } == 6)
    }

    private final class Busy: Sendable {
        private let counts = Mutex<(now: Int, most: Int)>((0, 0))

        var most: Int { counts.withLock { $0.most } }
        var isEntered: Bool { counts.withLock { $0.now > 0 } }

        func enter() { counts.withLock { $0 = ($0.now + 1, max($0.most, $0.now + 1)) } }
        func leave() { counts.withLock { $0.now -= 1 } }
    }

    private final class Order: Sendable {
        private let all = Mutex<[String]>([])

        var names: [String] { all.withLock { $0 } }

        func add(_ name: String) { all.withLock { $0.append(name) } }
    }
}
