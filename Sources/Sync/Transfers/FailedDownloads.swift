import Model

/// The large downloads that failed, and when each is tried again: after five seconds, and if the
/// connection was not the reason, after twice the last pause, at most after five minutes.
struct FailedDownloads {
    private struct Failure {
        var revision: Identifier
        var path: String
        /// Monotonic nanoseconds; nil when the pause is over.
        var until: Int64?
        /// How often it failed for a reason that may last.
        var times: Int
    }

    private var failures: [Identifier: Failure] = [:]

    /// The pauses in seconds.
    private static let (shortest, longest) = (5.0, 300.0)

    mutating func insert(
        _ item: Identifier, _ revision: Identifier, path: String, isPassing: Bool, now: Int64
    ) {
        let known = failures[item].map { $0.revision == revision ? $0.times : 0 } ?? 0
        let times = isPassing ? 0 : known + 1
        let pause = min(
            FailedDownloads.longest,
            FailedDownloads.shortest * Double(1 << min(max(times - 1, 0), 10)))
        failures[item] = Failure(
            revision: revision, path: path, until: now + Timestamp.span(seconds: pause),
            times: times)
    }

    mutating func remove(_ item: Identifier) { failures[item] = nil }

    /// Where the item was when its download failed.
    func path(of item: Identifier) -> String? { failures[item]?.path }

    /// Whether this download waits for its next attempt. Another version of the item does not wait.
    func isWaiting(_ item: Identifier, _ revision: Identifier) -> Bool {
        guard let failure = failures[item], failure.revision == revision else { return false }
        return failure.until != nil
    }

    /// Ends the pauses that are over, and returns the versions that still wait, by item.
    mutating func waiting(at now: Int64) -> [Identifier: Identifier] {
        for (item, failure) in failures {
            if let until = failure.until, until <= now { failures[item]?.until = nil }
        }
        return failures.filter { $0.value.until != nil }.mapValues(\.revision)
    }

    /// When the next pause ends.
    var next: Int64? { failures.values.lazy.compactMap(\.until).min() }
}
