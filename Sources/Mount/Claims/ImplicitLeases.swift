/// The implicit leases of one file: the programs that have it open, and those that wait to open it.
/// Readers wait for programs that write in place, and these wait for all others, but never for
/// long.
struct ImplicitLeases: Sendable {
    enum Kind: Sendable {
        case reader, writer, appender

        /// Appending does not disturb readers.
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
        let lease: UInt64
        let kind: Kind
        /// The id of a thread.
        let process: Int32
        /// Monotonic nanoseconds.
        let since: Int64
        /// The last observed signs of activity, and when they last changed; observed only while a
        /// program waits.
        var trail: [UInt64] = []
        var active: Int64 = 0
        /// The lease has lapsed: no program waits for it any more.
        var hasLapsed = false
    }

    struct Waiter: Sendable {
        let open: WaitingOpen
        /// Monotonic nanoseconds.
        let since: Int64
    }

    private(set) var holders: [Holder] = []
    private(set) var waiters: [Waiter] = []
    private var last: UInt64 = 0
    /// Programs that use the file coordinate themselves (record locks), or it needs no leases.
    private var isFree = false

    private mutating func next() -> UInt64 {
        last += 1
        return last
    }

    /// Takes a lease if no other program is in the way, or with `anyway` in any case.
    mutating func take(_ kind: Kind, process: Int32, now: Int64, anyway: Bool = false) -> UInt64? {
        if !anyway, !isFree {
            // A close that has returned may not have been reported yet, so the same process does
            // not block itself.
            let isBlocked = holders.contains {
                !$0.hasLapsed && $0.process != process && $0.kind.conflicts(with: kind)
            }
            guard waiters.isEmpty, !isBlocked else { return nil }
        }
        let lease = next()
        holders.append(Holder(lease: lease, kind: kind, process: process, since: now))
        return lease
    }

    // These return the opens that have a lease now; `OpenState.changeLeases` tells them.

    mutating func wait(_ open: WaitingOpen, now: Int64) -> [WaitingOpen] {
        waiters.append(Waiter(open: open, since: now))
        return admit(now: now)
    }

    /// Ends a wait, if the open has no lease yet.
    mutating func withdraw(_ open: WaitingOpen, now: Int64) -> [WaitingOpen] {
        remove(open) ? admit(now: now) : []
    }

    mutating func release(_ lease: UInt64, now: Int64) -> [WaitingOpen] {
        if let index = holders.lastIndex(where: { $0.lease == lease }) {
            holders.swapAt(index, holders.count - 1)
            holders.removeLast()
        }
        return admit(now: now)
    }

    /// Grants a waiter's lease although others are in the way. Does nothing if it does not wait.
    mutating func admitAnyway(_ open: WaitingOpen, now: Int64) -> [WaitingOpen] {
        guard remove(open) else { return [] }
        grant(to: open, now: now)
        return [open] + admit(now: now)
    }

    private mutating func remove(_ open: WaitingOpen) -> Bool {
        guard let index = waiters.firstIndex(where: { $0.open === open }) else { return false }
        waiters.remove(at: index)
        return true
    }

    private mutating func grant(to open: WaitingOpen, now: Int64) {
        let (opening, lease) = (open.opening, next())
        opening.lease = lease
        holders.append(
            Holder(
                lease: lease, kind: opening.kind, process: opening.caller.process, since: now))
    }

    var isWaitedFor: Bool { !waiters.isEmpty }

    /// The holders that a waiter waits for.
    var inTheWay: [Holder] {
        holders.filter { holder in
            !holder.hasLapsed
                && waiters.contains { $0.open.opening.kind.conflicts(with: holder.kind) }
        }
    }

    /// Checks whether the holders in the way are still active. `trails` has the observed signs of
    /// activity by lease; `isFree` says that the file needs no leases after all.
    mutating func look(
        now: Int64, _ limits: LeaseLimits, isFree: Bool, trails: [UInt64: [UInt64]]
    ) -> [WaitingOpen] {
        guard let first = waiters.first else { return [] }
        if isFree { self.isFree = true }
        for index in holders.indices {
            let holder = holders[index]
            guard !holder.hasLapsed, let seen = trails[holder.lease] else { continue }
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

    /// Grants leases in the order of arrival. A waiter that conflicts with no other may overtake
    /// waiters that do.
    private mutating func admit(now: Int64) -> [WaitingOpen] {
        guard !waiters.isEmpty else { return [] }
        var ready: [WaitingOpen] = []
        var waiting: [Waiter] = []
        var lines: [Int32: [Int32]] = [:]
        for (index, waiter) in waiters.enumerated() {
            // Related processes are seldom far behind, so only the first 64 waiters are examined.
            guard waiting.count < 64 else {
                waiting += waiters[index...]
                break
            }
            let (kind, ancestry) = (waiter.open.opening.kind, waiter.open.line)
            let isBehind = waiting.contains {
                $0.open.opening.kind.conflicts(with: kind)
                    && !ProcessAncestry.share($0.open.line, ancestry)
            }
            let isBlocked =
                isBehind
                || holders.contains { holder in
                    guard !holder.hasLapsed, holder.kind.conflicts(with: kind) else {
                        return false
                    }
                    let line = lines[holder.process] ?? ProcessAncestry.line(of: holder.process)
                    lines[holder.process] = line
                    return !ProcessAncestry.share(line, ancestry)
                }
            if isBlocked, !isFree {
                waiting.append(waiter)
            } else {
                grant(to: waiter.open, now: now)
                ready.append(waiter.open)
            }
        }
        waiters = waiting
        return ready
    }
}

/// How long plain programs wait for each other, in nanoseconds.
struct LeaseLimits: Sendable {
    /// The lease of a holder that was idle this long lapses.
    var idle: Int64 = 1_000_000_000
    /// The lease of a reader lapses after this time even if it is active; likewise `writer`.
    var reader: Int64 = 5_000_000_000
    var writer: Int64 = 10_000_000_000
}
