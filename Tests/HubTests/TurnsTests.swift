import Dispatch
import Glibc
import HubProtocol
import Model
import Support
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

    /// Otherwise an account with many requests would make the others wait for all of them.
    @Test("what the requests of an account write waits for its turn", .timeLimit(.minutes(5)))
    func writes() async throws {
        try await RunningHub.with { running in
            let device = try await running.device(of: "anna", volume: "own")
            _ = try await running.device(of: "bert")
            let (hub, id) = (running.hub, device.volume.id)
            let caller = try await hub.devices.caller(token: device.token)
            let writes: [@Sendable () async throws -> Void] = [
                {
                    let request = GrantRequest(steps: [.init(.take, .random(), number: 1)])
                    _ = try await hub.grants.answer(request, in: id, from: nil, for: caller)
                },
                { _ = try await hub.devices.newEpoch(for: caller) },
                { _ = try await hub.openVolume(VolumeRequest(name: "new"), for: caller) },
                {
                    let request = MemberRequest(.add, "bert", role: .editor)
                    _ = try await hub.members.change(request, in: id, for: caller)
                },
            ]
            await hub.turns.enter(.random())
            let tasks = writes.map { write in Task { try await write() } }
            // To open a volume that exists is not to write.
            let known = try await hub.openVolume(VolumeRequest(name: "own"), for: caller)
            #expect(known.id == id && !known.created)
            try await running.until { await hub.turns.count == writes.count }
            await hub.turns.leave()
            for task in tasks { try await task.value }
        }
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
