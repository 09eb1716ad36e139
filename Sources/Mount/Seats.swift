/// The implicit turns on one file: who has it open, and who waits to open it. Readers wait for
/// those who write in place, and these for all others; but nobody waits for long.
struct Seats: Sendable {
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

    private(set) var holders: [Holder] = []
    private(set) var waiters: [Waiter] = []
    private var last: UInt64 = 0
    /// Its programs coordinate themselves (record locks), or it needs no turns.
    private var isFree = false

    private mutating func next() -> UInt64 {
        last += 1
        return last
    }

    /// Takes a seat if nobody is in the way; `anyway`: even then.
    mutating func take(_ kind: Kind, process: Int32, now: Int64, anyway: Bool = false) -> UInt64? {
        if !anyway, !isFree {
            // A close that was answered may not have been heard of yet.
            let isBlocked = holders.contains {
                !$0.hasLapsed && $0.process != process && $0.kind.conflicts(with: kind)
            }
            guard waiters.isEmpty, !isBlocked else { return nil }
        }
        let seat = next()
        holders.append(Holder(seat: seat, kind: kind, process: process, since: now))
        return seat
    }

    /// `go` is to be called when the seat is taken; `ready` has those whose turn it is at once.
    mutating func wait(
        _ kind: Kind, process: Int32, line: [Int32], now: Int64,
        _ go: @escaping @Sendable () -> Void
    ) -> (seat: UInt64, ready: [@Sendable () -> Void]) {
        let seat = next()
        waiters.append(
            Waiter(seat: seat, kind: kind, process: process, since: now, line: line, go: go))
        return (seat, admit(now: now))
    }

    /// Gives a seat, or a place in the line, up. Those whose turn it is now are to be called.
    mutating func leave(_ seat: UInt64, now: Int64) -> [@Sendable () -> Void] {
        if let index = holders.lastIndex(where: { $0.seat == seat }) {
            holders.swapAt(index, holders.count - 1)
            holders.removeLast()
        } else {
            waiters.removeAll { $0.seat == seat }
        }
        return waiters.isEmpty ? [] : admit(now: now)
    }

    /// Gives a waiter its seat whoever is in the way; nothing when it does not wait.
    mutating func admitAnyway(_ seat: UInt64, now: Int64) -> [@Sendable () -> Void] {
        guard let index = waiters.firstIndex(where: { $0.seat == seat }) else { return [] }
        let waiter = waiters.remove(at: index)
        holders.append(
            Holder(seat: seat, kind: waiter.kind, process: waiter.process, since: now))
        return [waiter.go] + admit(now: now)
    }

    var isWaitedFor: Bool { !waiters.isEmpty }

    /// Those that somebody waits for.
    var inTheWay: [Holder] {
        holders.filter { holder in
            !holder.hasLapsed && waiters.contains { $0.kind.conflicts(with: holder.kind) }
        }
    }

    /// Looks whether those in the way still do anything. `trails` say what can be seen of what they
    /// do, by their seats; `isFree` that the file needs no turns after all.
    mutating func look(
        now: Int64, _ limits: TurnLimits, isFree: Bool, trails: [UInt64: [UInt64]]
    ) -> [@Sendable () -> Void] {
        guard let first = waiters.first else { return [] }
        if isFree { self.isFree = true }
        for index in holders.indices {
            let holder = holders[index]
            guard !holder.hasLapsed, let seen = trails[holder.seat] else { continue }
            if holder.active == 0 || seen != holder.trail {
                (holders[index].trail, holders[index].active) = (seen, now)
            }
            let idle = now - holders[index].active
            let waited = now - max(first.since, holder.since)
            let limit = holder.kind == .reader ? limits.reader : limits.writer
            if idle >= limits.idle || waited >= limit { holders[index].hasLapsed = true }
        }
        return admit(now: now)
    }

    /// In the order in which they came; those who are in nobody's way go before others who are.
    private mutating func admit(now: Int64) -> [@Sendable () -> Void] {
        var ready: [@Sendable () -> Void] = []
        var waiting: [Waiter] = []
        var lines: [Int32: [Int32]] = [:]
        for (index, waiter) in waiters.enumerated() {
            // Relatives of those in the way are seldom far behind.
            guard waiting.count < 64 else {
                waiting += waiters[index...]
                break
            }
            let isBehind = waiting.contains {
                $0.kind.conflicts(with: waiter.kind)
                    && !Family.share($0.line, waiter.line)
            }
            let isBlocked =
                isBehind
                || holders.contains { holder in
                    guard !holder.hasLapsed, holder.kind.conflicts(with: waiter.kind) else {
                        return false
                    }
                    let line = lines[holder.process] ?? Family.line(of: holder.process)
                    lines[holder.process] = line
                    return !Family.share(line, waiter.line)
                }
            if isBlocked, !isFree {
                waiting.append(waiter)
            } else {
                holders.append(
                    Holder(
                        seat: waiter.seat, kind: waiter.kind, process: waiter.process, since: now))
                ready.append(waiter.go)
            }
        }
        waiters = waiting
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
