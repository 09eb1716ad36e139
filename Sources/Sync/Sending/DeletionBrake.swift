import Model

/// Detects mass deletions (decision table, row 30): either many deletions wait to be sent at once,
/// or, if a slow removal is sent in parts, many documents that had not been saved for an hour are
/// deleted within one hour. A program that builds, unpacks or checks out repeatedly removes files
/// that it made a moment ago; these do not count, however many they are.
package struct DeletionBrake: Sendable {
    private let settings: SyncSettings
    /// When deletions of such documents were sent (monotonic nanoseconds), by the items' keys.
    private var told: [Int64: Int64] = [:]

    package init(_ settings: SyncSettings) { self.settings = settings }

    /// Returns whether a document had not been saved for a long time when it was deleted. Both
    /// times are in nanoseconds since 1970.
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

    /// A person has confirmed the deletions.
    package mutating func release() { told = [:] }

    /// Which of the waiting deletions are held.
    package enum Verdict: Hashable, Sendable { case none, longStanding, all }

    /// - Parameters:
    /// - waiting: The number of deletions that have not been sent.
    /// - longStanding: How many of them are of documents that had not been saved for a long time.
    /// - items: The number of items that hub and device both have.
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
