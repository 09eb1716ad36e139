/// How a document's directory, and all directories above it, were protected in the course of time.
package struct DirectoryProtections: Hashable, Sendable {
    /// A protection, and when a directory got it.
    package struct Period: Hashable, Sendable {
        /// Nanoseconds since 1970.
        package var since: Int64
        package var protection: Protection

        package init(since: Int64, protection: Protection) {
            self.since = since
            self.protection = protection
        }
    }

    /// For each directory, from the innermost to the root, its known periods in their order. The
    /// first one stands for all time before it, too. A directory whose list is empty is judged by
    /// its present protection alone.
    private var directories: [[Period]]

    package init(_ directories: [[Period]]) { self.directories = directories }

    /// Nothing is known of former protections.
    package static let unknown = DirectoryProtections([])

    /// Whether that user could reach what is in the innermost directory at some moment of a span.
    package func admitted(_ user: Requester, during span: ClosedRange<Int64>) -> Bool {
        if user.isRoot { return true }
        // Nothing changes between the beginnings of periods.
        let changes = directories.joined().map(\.since).filter { span.contains($0) }
        return ([span.lowerBound] + changes).contains { time in
            directories.allSatisfy {
                DirectoryProtections.protection($0, at: time)?.allowsSearching(by: user) ?? true
            }
        }
    }

    /// Whether that user could list the innermost directory at a moment.
    package func allowedListing(by user: Requester, at time: Int64) -> Bool {
        guard admitted(user, during: time...time), let own = directories.first else {
            return user.isRoot || directories.isEmpty
        }
        return DirectoryProtections.protection(own, at: time)?.allowsReading(by: user) ?? true
    }

    private static func protection(_ periods: [Period], at time: Int64) -> Protection? {
        (periods.last { $0.since <= time } ?? periods.first)?.protection
    }
}

/// Who may see a document, and who could reach it formerly.
package struct DocumentProtection: Hashable, Sendable {
    /// The document's present protection. For a deleted document it is that of its directory, for
    /// the directory's owner alone.
    package var now: Protection
    package var directories: DirectoryProtections

    package init(now: Protection, directories: DirectoryProtections) {
        self.now = now
        self.directories = directories
    }

    package static let unknown = DocumentProtection(now: .unknown, directories: .unknown)
}
