import Model

/// Decides when the time of a grant is over, for one hub: when the hub has seen no sign of life of
/// its holder for the duration of a lease, by its own clock. A hub that was restarted, or that sees
/// the grant for the first time, begins to wait then. So no clock is compared with another one, and
/// the ledger has no times.
///
/// It is a value without clock and I/O. Only grants that another device asks for are watched.
package struct GrantWatch: Sendable {
    package struct Document: Hashable, Sendable {
        package var volume: Identifier
        package var item: Identifier

        package init(volume: Identifier, item: Identifier) {
            (self.volume, self.item) = (volume, item)
        }
    }

    private struct Sighting: Hashable, Sendable {
        var row: GrantRow
        var since: Int64
        var last: Int64
    }

    /// How long a grant lasts without a sign of life, in nanoseconds.
    private let duration: Int64
    /// By the account that asks, so that no account can use up what is kept for another one.
    private var sightings: [Identifier: [Document: Sighting]] = [:]
    /// The memory of a hub is bounded: if an account asks for more than these, the ones that it has
    /// not asked for longest are forgotten.
    package static let limit = 1024

    package init(duration: Int64 = LeaseTerms.duration) { self.duration = duration }

    package var count: Int { sightings.values.reduce(0) { $0 + $1.count } }

    /// Takes the row of a document that another device asks for, as a transaction has read it.
    ///
    /// - Parameter account: The account of the device that asks.
    /// - Returns: Whether the holder's time is over. The row may be taken over only if it is still
    ///   the same within the transaction that does so.
    package mutating func isOver(
        _ row: GrantRow, of document: Document, askedBy account: Identifier, at now: Int64
    ) -> Bool {
        let known = sightings[account]?[document]
        if let known, known.row == row {
            sightings[account]?[document]?.last = now
            return now >= known.since + duration
        }
        if known == nil, sightings[account]?.count ?? 0 >= GrantWatch.limit {
            forgetHalf(of: account)
        }
        sightings[account, default: [:]][document] = Sighting(row: row, since: now, last: now)
        return false
    }

    /// Half of them, so that the order is not looked at for each document.
    private mutating func forgetHalf(of account: Identifier) {
        let sorted = sightings[account, default: [:]].sorted { $0.value.last > $1.value.last }
        let newest = sorted.prefix(GrantWatch.limit / 2).map { ($0.key, $0.value) }
        sightings[account] = Dictionary(uniqueKeysWithValues: newest)
    }
}
