import Model

/// What a person asks to remove for good.
package struct Purge: Sendable {
    /// Only versions that were replaced before that time (nanoseconds since 1970).
    package var before: Int64?
    /// How many bytes to free; the oldest versions are removed first.
    package var bytes: Int64?
    /// Only counts, and removes nothing.
    package var isRehearsal = false

    package init() {}

    func isMeant(_ time: Int64) -> Bool { before.map { time < $0 } ?? true }
}

/// What the user who asks for a purge may remove.
struct PurgeSubject: Sendable {
    /// The keys of the documents.
    var documents: Set<Int64> = []
    /// The documents whose unrecorded contents may be removed as well, because the user may see all
    /// versions and read the document itself.
    var open: Set<Int64> = []
    /// Versions that the user may not see, which therefore stay.
    var hidden: Set<Identifier> = []
}

/// What was removed, and what was kept although it was asked for.
package struct PurgeReport: Equatable, Sendable {
    package internal(set) var versions = 0
    /// Replaced or deleted contents that had not been recorded as versions yet.
    package internal(set) var contents = 0
    package internal(set) var bytes: Int64 = 0
    /// How many versions were kept, by reason.
    package internal(set) var kept: [Reason: Int] = [:]

    package enum Reason: Hashable, Sendable {
        case obstacle(RemovalObstacle)
        case unrecorded
        /// The caller may not write the document.
        case denied

        /// The end of a sentence that begins with "2 versions stay: ".
        package var words: String {
            switch self {
            case .obstacle(let obstacle): obstacle.reason
            case .unrecorded:
                "being recorded; try again when `fsctl wait` has returned or the disk has space"
            case .denied: "of documents that you may not write"
            }
        }

        /// Counts all labels as one reason.
        fileprivate var kind: Reason {
            if case .obstacle(.named) = self { .obstacle(.named("")) } else { self }
        }
    }

    mutating func keep(_ reason: Reason, _ count: Int = 1) {
        if count > 0 { kept[reason.kind, default: 0] += count }
    }
}
