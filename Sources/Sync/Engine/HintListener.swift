import CLinux
import HubProtocol
import Logging
import Model
import Volume

/// Reads the hub's hints that there are changes, on a thread of its own. What it learns is in the
/// engine's state.
struct HintListener: EnginePart, Sendable {
    let parts: EngineParts
    let leases: LeaseExchange
    let grants: GrantExchange

    /// The nanoseconds between the end of a feed and the next request for one. The pause doubles
    /// while feeds end quickly.
    private static let feedPause: Int64 = 500_000_000
    private static let feedPauseMax: Int64 = 16_000_000_000

    func run() {
        var pause = HintListener.feedPause
        // The hub ends a feed when something about this device has changed. More may change before
        // the next feed is open.
        let wasEnded = Shared(false)
        while !threads.isEnding {
            guard !state.withLock({ $0.isOffline }) else {
                threads.wait(until: .max / 2) { !state.withLock(\.isOffline) }
                continue
            }
            let began = cl_clock_monotonic_ns()
            if let session = try? journal.session() { listen(session.volumeEpoch, wasEnded) }
            let now = cl_clock_monotonic_ns()
            if now - began > HintListener.feedPauseMax { pause = HintListener.feedPause }
            // The engine's thread may find out earlier that the hub can be reached.
            let isDown = state.withLock { $0.connection != .up }
            threads.wait(until: now + pause) {
                isDown && state.withLock { $0.connection == .up }
            }
            pause = min(2 * pause, HintListener.feedPauseMax)
        }
    }

    /// Reads one feed until it ends.
    private func listen(_ epoch: Identifier, _ wasEnded: Shared<Bool>) {
        let isFirst = Shared(true)
        defer { leases.feedEnded() }
        do {
            try client.feed(journal.account.volume, epoch: epoch) { hint in
                guard !threads.isEnding, !state.withLock({ $0.isOffline }) else { return false }
                if let head = hint.head {
                    state.withLock {
                        $0.head = max($0.head, head)
                        $0.isUrgent = true
                    }
                    threads.poke()
                }
                // Whoever waits for a lease to end waits for what was saved before, too.
                let isNew = isFirst.withLock { isFirst in
                    defer { isFirst = false }
                    return isFirst
                }
                leases.take(hint, isFirst: isNew)
                if isNew || hint.beat != nil { grants.beat() }
                if hint.ended != nil || wasEnded.withLock({ $0 }) {
                    state.withLock { $0.mustAskHub = true }
                    threads.poke()
                }
                wasEnded.withLock { $0 = hint.ended != nil }
                if hint.ended != nil { return false }
                if let other = hint.process { confirm(beside: other) }
                return true
            }
        } catch {
            log.trace("no hints: \(error)")
            // Without this, the device would not ask the hub before its next poll.
            if case .refused(let failure) = error, failure.code == .volumeEpoch {
                state.withLock { ($0.mustAskHub, $0.isUrgent) = (true, true) }
                threads.poke()
            }
        }
    }

    /// Tells the hub that this process is alive and is the device. It uses its own thread, because
    /// the thread that reads hints must not wait for the answer.
    private func confirm(beside other: Identifier) {
        startThread(named: "confirm") { [client, log] in
            do throws(HubFault) {
                try client.confirm(beside: other)
            } catch {
                log.debug("\(error)")
            }
        }
    }
}
