import Model

/// Tells a mass deletion from others (decision table, row 30): many that wait to be told at once,
/// or, where a removal is slow and goes in parts, many within an hour of documents that had been
/// left alone for longer than that. Who builds, unpacks or checks out again and again removes what
/// he made a moment ago: that does not count, however much it is.
package struct DeletionBrake: Sendable {
    private let settings: SyncSettings
    /// When deletions of such documents were told (monotonic nanoseconds), by the items' keys.
    private var told: [Int64: Int64] = [:]

    package init(_ settings: SyncSettings) { self.settings = settings }

    /// Whether a document had been left alone for long when it was deleted. Both in nanoseconds
    /// since 1970.
    package func isLongStanding(saved: Int64, deleted: Int64) -> Bool {
        Timestamp(nanoseconds: deleted).span(since: Timestamp(nanoseconds: saved))
            > Timestamp.span(seconds: settings.brakeWindowSeconds)
    }

    package mutating func told(_ key: Int64, at now: Int64) {
        if told.count > 4 * settings.brakeCount {
            told = told.filter { isRecent($0.value, at: now) }
        }
        told[key] = now
    }

    /// They were meant.
    package mutating func release() { told = [:] }

    /// Which of the deletions that wait are held.
    package enum Verdict: Hashable, Sendable { case none, longStanding, all }

    /// - Parameters:
    ///   - waiting: deletions that are not told yet.
    ///   - longStanding: those of them that are of documents left alone for long.
    ///   - items: what hub and device have agreed on.
    package func judge(waiting: Int, longStanding: Int, of items: Int, at now: Int64) -> Verdict {
        let isMany =
            waiting > settings.brakeCount
            || waiting >= settings.brakeLeast
                && Double(waiting) > settings.brakePart * Double(items)
        if isMany { return .all }
        let recent = told.values.count { isRecent($0, at: now) }
        let isManyInParts = longStanding > 0 && recent + longStanding > settings.brakeCount
        return isManyInParts ? .longStanding : .none
    }

    private func isRecent(_ time: Int64, at now: Int64) -> Bool {
        now - time < Timestamp.span(seconds: settings.brakeWindowSeconds)
    }
}
