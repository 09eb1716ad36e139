import CLinux
import Model
import Volume

/// On how many devices versions are, according to the hub's last answers, which are in the engine's
/// state. Any thread may use it.
struct HolderCounts: EnginePart, Sendable {
    let parts: EngineParts

    /// The versions about which the hub must be asked.
    var wanted: Set<Identifier> { state.withLock { $0.wanted } }

    func learn(_ ids: [Identifier], _ counts: [Int?]) {
        state.withLock { state in
            if state.holders.count > 200_000 { state.holders = [:] }
            for (id, count) in zip(ids, counts) { state.holders[id] = count }
            state.wanted.subtract(ids)
        }
    }

    /// Returns on how many devices a version is, according to the hub's last answer; nil if the hub
    /// has not been asked. The engine asks soon. The call never blocks.
    func devices(holding version: Identifier) -> Int? {
        let (count, isNew) = state.withLock { state in
            let isNew = state.wanted.count < 1000 && state.wanted.insert(version).inserted
            return (state.holders[version], isNew)
        }
        if isNew, count == nil { threads.poke() }
        return count
    }

    /// The same, but asks the hub now and waits at most this long. After that it returns the last
    /// known answer.
    func devices(holding version: Identifier, milliseconds: Int64) -> Int? {
        guard case .up = state.withLock({ $0.connection }) else { return devices(holding: version) }
        let signal = Signal()
        let isAnswered = Shared(false)
        startThread(named: "devices") { [self] in
            if let counts = try? client.durability(account.volume, [version]) {
                learn([version], counts)
            }
            signal.change { isAnswered.withLock { $0 = true } }
        }
        let deadline =
            cl_clock_monotonic_ns() + Timestamp.span(seconds: Double(milliseconds) / 1000)
        _ = signal.wait(until: deadline) { isAnswered.withLock { $0 } }
        return state.withLock { $0.holders[version] }
    }
}
