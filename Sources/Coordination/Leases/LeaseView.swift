/// Decides when a device asks the hub for the leases of other devices, and how long it shows them.
/// It is a value without clock and I/O, like `LeaseHolder`.
///
/// The feed says only the revision of the leases; 0 means that there are none. Each heartbeat says
/// it again, which confirms what the device shows.
package struct LeaseView<Lease: Hashable & Sendable>: Sendable {
    package enum Event: Hashable, Sendable {
        /// The feed has said the revision of the leases.
        case hinted(UInt64)
        /// The hub's answer to `fetch`.
        case fetched([Lease], revision: UInt64)
        case failed
        /// The time of `wakeTime` has come.
        case woken
    }

    package enum Effect: Hashable, Sendable {
        /// Ask the hub for the leases, and answer with `fetched` or `failed`.
        case fetch
        /// `leases` or their end may be others now.
        case changed
    }

    private struct Fetch: Hashable, Sendable {
        var time: Int64
        /// The revision that the feed had said before.
        var wanted: UInt64
    }

    package private(set) var leases: [Lease] = []
    /// The leases are not shown any more from then on, unless the hub confirms them.
    package private(set) var end = Int64.min
    /// The revision of `leases`; nil if they have ended for want of a confirmation.
    private var revision: UInt64? = 0
    private var wanted: UInt64 = 0
    private var fetch: Fetch?
    private var lastFetch: Int64?
    private var nextFetch: Int64?

    package init() {}

    package var wakeTime: Int64? {
        let end = leases.isEmpty ? nil : self.end
        guard let end, let nextFetch else { return end ?? nextFetch }
        return min(end, nextFetch)
    }

    /// Whether this revision changes nothing, so that nobody needs to be woken because of it.
    package func ignores(_ hinted: UInt64) -> Bool {
        hinted == 0 && wanted == 0 && leases.isEmpty && fetch == nil
    }

    package mutating func step(_ event: Event, at now: Int64) -> [Effect] {
        switch event {
        case .hinted(let said):
            wanted = said
            if said == 0 { return clear(revision: 0) }
            if said == revision {
                end = now + LeaseTerms.duration
                return [.changed]
            }
            return fetchIfNeeded(at: now)
        case .fetched(let found, let revision):
            guard let fetch else { return [] }
            self.fetch = nil
            // The feed has said meanwhile that there are none.
            guard wanted != 0 else { return [] }
            (leases, self.revision) = (found, revision)
            end = fetch.time + LeaseTerms.duration
            // Only what the feed has said since then is a reason to ask again: the answer may be
            // newer than the feed, and it may come from another hub.
            let effects: [Effect] = [.changed]
            return fetch.wanted == wanted ? effects : effects + fetchIfNeeded(at: now)
        case .failed:
            // The next heartbeat leads to another try.
            fetch = nil
            return []
        case .woken:
            let ended = !leases.isEmpty && now >= end ? clear(revision: nil) : []
            guard let nextFetch, now >= nextFetch else { return ended }
            return ended + fetchIfNeeded(at: now)
        }
    }

    private mutating func clear(revision new: UInt64?) -> [Effect] {
        revision = new
        nextFetch = nil
        guard !leases.isEmpty else { return [] }
        leases = []
        return [.changed]
    }

    private mutating func fetchIfNeeded(at now: Int64) -> [Effect] {
        guard fetch == nil, wanted != 0, wanted != revision else { return [] }
        if let lastFetch, now < lastFetch + LeaseTerms.pause {
            nextFetch = lastFetch + LeaseTerms.pause
            return []
        }
        nextFetch = nil
        lastFetch = now
        fetch = Fetch(time: now, wanted: wanted)
        return [.fetch]
    }
}
