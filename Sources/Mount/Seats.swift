import Synchronization

/// The implicit turns on one file: who has it open, and who waits to open it. Readers wait for
/// those who write in place, and these for all others; but nobody waits for long.
final class Seats: Sendable {
    enum Kind: Sendable {
        case reader, writer, appender

        /// Nothing is torn by appending.
        func conflicts(with other: Kind) -> Bool {
            switch (self, other) {
            case (.reader, .reader), (.reader, .appender), (.appender, .reader),
                (.appender, .appender):
                false
            default: true
            }
        }
    }

    struct Holder: Sendable {
        let seat: UInt64
        let kind: Kind
        /// A thread's.
        let process: Int32
        /// Monotonic nanoseconds.
        let since: Int64
        /// What was seen of its doings, and when that last changed; from when somebody waits.
        var trail: [UInt64] = []
        var active: Int64 = 0
        /// It had its turn: nobody waits for it any more.
        var hasLapsed = false
    }

    struct Waiter: Sendable {
        let seat: UInt64
        let kind: Kind
        let process: Int32
        let since: Int64
        let line: [Int32]
        let go: @Sendable () -> Void
    }

    private struct State {
        var holders: [Holder] = []
        var waiters: [Waiter] = []
        var last: UInt64 = 0
        /// Its programs coordinate themselves (record locks), or it needs no turns.
        var isFree = false

        mutating func next() -> UInt64 {
            last += 1
            return last
        }
    }

    private let state = Mutex(State())

    /// Takes a seat if nobody is in the way; `anyway`: even then.
    func take(_ kind: Kind, process: Int32, now: Int64, anyway: Bool = false) -> UInt64? {
        state.withLock { state in
            if !anyway, !state.isFree {
                guard state.waiters.isEmpty,
                    !state.holders.contains(where: {
                        !$0.hasLapsed && $0.kind.conflicts(with: kind)
                    })
                else { return nil }
            }
            let seat = state.next()
            state.holders.append(Holder(seat: seat, kind: kind, process: process, since: now))
            return seat
        }
    }

    /// `go` is called when the seat is taken; from `leave`, `look` or another `wait`.
    func wait(
        _ kind: Kind, process: Int32, line: [Int32], now: Int64,
        _ go: @escaping @Sendable () -> Void
    ) -> (seat: UInt64, ready: [@Sendable () -> Void]) {
        state.withLock { state in
            let seat = state.next()
            state.waiters.append(
                Waiter(
                    seat: seat, kind: kind, process: process, since: now, line: line, go: go))
            return (seat, admit(&state, now: now))
        }
    }

    /// Gives a seat, or a place in the line, up. Those whose turn it is now are to be called.
    func leave(_ seat: UInt64, now: Int64) -> [@Sendable () -> Void] {
        state.withLock { state in
            if let index = state.holders.lastIndex(where: { $0.seat == seat }) {
                state.holders.swapAt(index, state.holders.count - 1)
                state.holders.removeLast()
            } else {
                state.waiters.removeAll { $0.seat == seat }
            }
            return state.waiters.isEmpty ? [] : admit(&state, now: now)
        }
    }

    var isWaitedFor: Bool { state.withLock { !$0.waiters.isEmpty } }

    /// For `fsctl locks`.
    var all: (holders: [Holder], waiters: [Waiter]) {
        state.withLock { ($0.holders, $0.waiters) }
    }

    /// Looks whether those in the way still do anything. `trail` says what can be seen of a
    /// holder's doings; `isFree` whether the file needs no turns after all.
    func look(
        now: Int64, _ limits: TurnLimits, isFree: () -> Bool, trail: (Holder) -> [UInt64]
    ) -> [@Sendable () -> Void] {
        state.withLock { state in
            guard let first = state.waiters.first else { return [] }
            if isFree() { state.isFree = true }
            for index in state.holders.indices {
                let holder = state.holders[index]
                guard !holder.hasLapsed,
                    state.waiters.contains(where: { $0.kind.conflicts(with: holder.kind) })
                else { continue }
                let seen = trail(holder)
                if holder.active == 0 || seen != holder.trail {
                    (state.holders[index].trail, state.holders[index].active) = (seen, now)
                }
                let idle = now - state.holders[index].active
                let waited = now - max(first.since, holder.since)
                let limit = holder.kind == .reader ? limits.reader : limits.writer
                if idle >= limits.idle || waited >= limit { state.holders[index].hasLapsed = true }
            }
            return admit(&state, now: now)
        }
    }

    /// In the order in which they came; those who are in nobody's way go before others who are.
    private func admit(_ state: inout State, now: Int64) -> [@Sendable () -> Void] {
        var ready: [@Sendable () -> Void] = []
        var waiting: [Waiter] = []
        var lines: [Int32: [Int32]] = [:]
        for (index, waiter) in state.waiters.enumerated() {
            // Relatives of those in the way are seldom far behind.
            guard waiting.count < 64 else {
                waiting += state.waiters[index...]
                break
            }
            let isBehind =
                waiting.contains {
                    $0.kind.conflicts(with: waiter.kind) && !Family.areKin($0.line, waiter.line)
                }
            let isBlocked =
                isBehind
                || state.holders.contains { holder in
                    guard !holder.hasLapsed, holder.kind.conflicts(with: waiter.kind) else {
                        return false
                    }
                    let line = lines[holder.process] ?? Family.line(of: holder.process)
                    lines[holder.process] = line
                    return !Family.areKin(line, waiter.line)
                }
            if isBlocked, !state.isFree {
                waiting.append(waiter)
            } else {
                state.holders.append(
                    Holder(
                        seat: waiter.seat, kind: waiter.kind, process: waiter.process, since: now))
                ready.append(waiter.go)
            }
        }
        state.waiters = waiting
        return ready
    }
}

/// How long plain programs wait for one another: nanoseconds.
struct TurnLimits: Sendable {
    /// A holder that has done nothing for so long is waited for no longer.
    var idle: Int64 = 1_000_000_000
    /// However busy it is.
    var reader: Int64 = 5_000_000_000
    var writer: Int64 = 10_000_000_000
}
