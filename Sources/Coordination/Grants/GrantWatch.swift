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
    private var sightings: [Document: Sighting] = [:]
    /// More than these are not watched, so that the memory of a hub is bounded.
    private static let limit = 65_536

    package init(duration: Int64 = LeaseTerms.duration) { self.duration = duration }

    package var count: Int { sightings.count }

    /// Takes the row of a document that another device asks for, as a transaction has read it.
    ///
    /// - Returns: Whether the holder's time is over. The row may be taken over only if it is still
    ///   the same within the transaction that does so.
    package mutating func isOver(_ row: GrantRow, of document: Document, at now: Int64) -> Bool {
        if var known = sightings[document], known.row == row {
            known.last = now
            sightings[document] = known
            return now >= known.since + duration
        }
        if sightings.count >= GrantWatch.limit { forgetOld(at: now) }
        guard sightings.count < GrantWatch.limit else { return false }
        sightings[document] = Sighting(row: row, since: now, last: now)
        return false
    }

    /// To be called from time to time: forgets what nobody has asked for lately.
    package mutating func forgetOld(at now: Int64) {
        sightings = sightings.filter { now < $0.value.last + 2 * duration }
    }
}
