import Model

/// The versions whose contents could not be read or uploaded, and when each is tried again: after
/// two seconds, and then after twice the last pause, at most after five minutes. A version that
/// waits delays no other one.
struct FailedUploads {
    private struct Failure {
        /// Monotonic nanoseconds.
        var until: Int64
        var times: Int
        var path: String
        /// Whether it can be read, and the hub refused it because the quota is used up.
        var isOverQuota: Bool
    }

    private var failures: [Identifier: Failure] = [:]
    var isEmpty: Bool { failures.isEmpty }

    /// The longest pause, in seconds.
    static let longest = 300.0

    /// Whether the version still waited for its next attempt when the drafts were examined.
    func isWaiting(_ revision: Identifier, at examined: Int64) -> Bool {
        failures[revision].map { $0.until > examined } ?? false
    }

    /// All that wait for their next attempt.
    func waiting(at now: Int64) -> Set<Identifier> {
        Set(failures.filter { $0.value.until > now }.keys)
    }

    /// How often it has failed in a row.
    func count(of revision: Identifier) -> Int { failures[revision]?.times ?? 0 }

    /// Those of them that the hub refused because the quota is used up.
    func overQuota(at examined: Int64) -> Set<Identifier> {
        Set(failures.filter { $0.value.isOverQuota && $0.value.until > examined }.keys)
    }

    mutating func insert(
        _ revision: Identifier, path: String, isOverQuota: Bool = false, now: Int64
    ) {
        let times = count(of: revision) + 1
        let pause = min(FailedUploads.longest, Double(1 << min(times, 10)))
        failures[revision] = Failure(
            until: now + Timestamp.span(seconds: pause), times: times, path: path,
            isOverQuota: isOverQuota)
    }

    /// Returns the document's path if the version was one of these.
    @discardableResult
    mutating func remove(_ revision: Identifier) -> String? {
        failures.removeValue(forKey: revision)?.path
    }

    /// Removes the versions of the document at a path, except those that are sent now. Returns
    /// whether there were any.
    mutating func removePast(of path: String, except sent: some Sequence<Identifier>) -> Bool {
        let kept = Set(sent)
        let past = failures.filter { $0.value.path == path && !kept.contains($0.key) }
        for revision in past.keys { failures[revision] = nil }
        return !past.isEmpty
    }

    /// Removes each version that was due for another attempt and is no longer to be sent, or is to
    /// be sent from another path. A version that still waits stays, because a conflict version that
    /// is held back is in no draft while it waits. Returns the paths of the removed versions.
    ///
    /// - Parameters:
    ///   - paths: The path of each version that is to be sent.
    ///   - examined: When the drafts were examined, in monotonic nanoseconds.
    mutating func keep(_ paths: [Identifier: String], examined: Int64) -> [String] {
        let past = failures.filter {
            $0.value.until <= examined && paths[$0.key] != $0.value.path
        }
        for revision in past.keys { failures[revision] = nil }
        return past.values.map(\.path)
    }

    /// When the next one is due of those that waited when the drafts were examined.
    func next(after examined: Int64) -> Int64? {
        failures.values.lazy.map(\.until).filter { $0 > examined }.min()
    }
}
