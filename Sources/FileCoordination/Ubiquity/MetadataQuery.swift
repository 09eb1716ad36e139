import Control
import Foundation

/// Finds items in directories, at any depth, and reports what becomes of them: changes by other
/// programs and devices, and contents that are downloaded or evicted (Rows.md, B6).
///
///     let query = MetadataQuery(searchScopes: [pictures]) { $0.name.hasSuffix(".png") }
///     for await update in query.updates { show(update.added, update.changed, update.removed) }
///
/// Items whose contents are not on this device are found like all others. A package is one item;
/// items in it are not found. Hidden items, whose names begin with a dot, are not found either. On
/// a file system that is no volume the items are gathered once, and changes are not reported.
///
/// Events of the volume report what to look at again, also what this process itself does. While
/// nothing happens, a query does nothing. Only while contents are being transferred does it look at
/// the progress, as often as ``notificationBatchingInterval`` says.
public struct MetadataQuery: Sendable {
    /// The directories to search.
    public var searchScopes: [URL]
    /// How long changes are collected before they are reported: half a second.
    public var notificationBatchingInterval = Duration.milliseconds(500)
    /// How results are sorted: by the first comparator, items that are equal for it by the next
    /// one, and at last by path. The default is by path alone.
    public var sortComparators: [KeyPathComparator<MetadataItem>] = []
    /// Which items are found.
    public var predicate: @Sendable (MetadataItem) -> Bool

    /// What has changed since the update before. An item that was moved is removed and added.
    public struct Update: Sendable {
        /// Items that are new to the query, because they are new or because the predicate holds
        /// now.
        public var added: [MetadataItem] = []
        /// Items that have changed, as they are now.
        public var changed: [MetadataItem] = []
        /// Items that are no longer found, as they were.
        public var removed: [MetadataItem] = []
        /// All items that are found now, sorted as the query says.
        public var results: [MetadataItem] = []

        var isEmpty: Bool { added.isEmpty && changed.isEmpty && removed.isEmpty }
    }

    /// A query in directories. The default predicate finds all items.
    public init(
        searchScopes: [URL],
        predicate: @escaping @Sendable (MetadataItem) -> Bool = { _ in true }
    ) {
        self.searchScopes = searchScopes
        self.predicate = predicate
    }

    /// An update with all items, even if there are none, and then one for each change, until the
    /// stream is cancelled.
    public var updates: AsyncStream<Update> {
        let (stream, continuation) = AsyncStream.makeStream(of: Update.self)
        let query = RunningQuery(self)
        continuation.onTermination = { _ in query.end() }
        // Looking waits for files and daemons, so it must not use a thread of Swift's pool.
        let thread = ThreadHandle("query") {
            query.run { continuation.yield($0) }
            continuation.finish()
        }
        if let thread { thread.detach() } else { continuation.finish() }
        return stream
    }
}
