import Control
import Foundation
import Model
import Synchronization

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
/// No message reports evicted contents or what this process itself writes. For these the query
/// examines all items again, for at most a tenth of the time, so among tens of thousands of items
/// such changes are reported later than others.
public struct MetadataQuery: Sendable {
    /// The directories to search.
    public var searchScopes: [URL]
    /// How long changes are collected before they are reported: half a second.
    public var notificationBatchingInterval = Duration.milliseconds(500)
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
        /// All items that are found now, sorted by path.
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
        let gathering = RunningQuery(self)
        let task = Task.detached {
            await gathering.run { continuation.yield($0) }
            continuation.finish()
        }
        continuation.onTermination = { _ in task.cancel() }
        return stream
    }
}

/// A query that runs.
private final class RunningQuery: Sendable {
    private let query: MetadataQuery
    private let trees: [Tree]
    private let state = Mutex(State())

    private struct State {
        var known: [FilePath: MetadataItem] = [:]
        /// For each volume, by its socket, what it reported last.
        var volumes: [String: TransferState] = [:]
        /// Whether any item may have changed without a message.
        var isUnsettled = false
        /// When all items may be examined again.
        var next = ContinuousClock.now
    }

    /// Counts and paths that show that contents have come or gone, for which there is no message.
    private struct TransferState: Equatable {
        var counts: [Int]
        var paths: Set<FilePath>
    }

    init(_ query: MetadataQuery) {
        self.query = query
        trees = query.searchScopes.map(Tree.init)
    }

    func run(_ tell: (MetadataQuery.Update) -> Void) async {
        // The trees are presented before the first look, so that no change is missed meanwhile.
        for tree in trees { FileCoordinator.addFilePresenter(tree) }
        defer { for tree in trees { FileCoordinator.removeFilePresenter(tree) } }
        _ = movements()
        tell(lookAtAll())
        while !Task.isCancelled {
            try? await Task.sleep(for: query.notificationBatchingInterval)
            let places = movements()
            var changedPaths: Set<FilePath> = []
            for tree in trees { changedPaths.formUnion(tree.takeChangedPaths()) }
            let isEverywhere = isDue || trees.contains { changedPaths.contains($0.path) }
            if places.isEmpty, changedPaths.isEmpty, !isEverywhere { continue }
            let update = isEverywhere ? lookAtAll() : look(at: places, changedPaths)
            if !update.isEmpty { tell(update) }
        }
    }

    /// Whether to examine all items again. While much is being transferred there is always a reason
    /// to, so the pauses take ten times as long as the examination.
    private var isDue: Bool {
        state.withLock { state in state.isUnsettled && ContinuousClock.now >= state.next }
    }

    private func lookAtAll() -> MetadataQuery.Update {
        state.withLock { $0.isUnsettled = false }
        let begin = ContinuousClock.now
        let update = look(at: Set(trees.map(\.path)))
        let end = ContinuousClock.now
        state.withLock { $0.next = end + (end - begin) * 10 }
        return update
    }

    /// Examines these items with all below them. What was reported may be a part of a package,
    /// which is one item.
    private func look(at items: Set<FilePath>, _ changedPaths: Set<FilePath> = [])
        -> MetadataQuery.Update
    {
        let inquiry = ItemStatusReader()
        var places = items
        for place in changedPaths {
            let tree = trees.first { place.isBelow($0.path) }
            places.insert(tree.map { place.package(below: $0.path, inquiry) } ?? place)
        }
        var found: [FilePath: MetadataItem] = [:]
        for place in places where !places.contains(anAncestorOf: place) {
            gather(place, inquiry, &found)
        }
        return state.withLock { state in
            var update = MetadataQuery.Update()
            for path in state.known.keys where found[path] == nil {
                guard places.contains(path) || places.contains(anAncestorOf: path),
                    let item = state.known.removeValue(forKey: path)
                else { continue }
                update.removed.append(item)
            }
            for (path, item) in found {
                let former = state.known.updateValue(item, forKey: path)
                if former == nil { update.added.append(item) }
                if let former, former != item { update.changed.append(item) }
            }
            guard !update.isEmpty else { return update }
            update.results = state.known.sorted {
                $0.key.bytes.lexicographicallyPrecedes($1.key.bytes)
            }.map(\.value)
            return update
        }
    }

    private func gather(
        _ path: FilePath, _ inquiry: ItemStatusReader, _ found: inout [FilePath: MetadataItem]
    ) {
        let isTop = trees.contains { $0.path == path }
        guard isTop || trees.contains(where: { path.isVisible(below: $0.path) }),
            let item = MetadataItem(path, inquiry)
        else { return }
        if !isTop, query.predicate(item) { found[path] = item }
        guard item.isDirectory else { return }
        for name in (try? path.children()) ?? [] { gather(path.appending(name), inquiry, &found) }
    }

    /// The items whose contents may have come or gone: those that are being transferred. When the
    /// volume's number of items without contents changes, it may be any item.
    private func movements() -> Set<FilePath> {
        let known = state.withLock { $0.known }
        var places = Set(UbiquityContainer.downloads.withLock { $0.underWay.keys })
        places.formIntersection(known.keys)
        for tree in trees {
            guard let place = (try? tree.path.place()) ?? nil,
                let client = try? ControlClient(socket: place.socket),
                let report = try? client.ask(Request(.status), as: VolumeReport.self),
                let hub = report.hub
            else { continue }
            let paths = hub.moving.map {
                place.mountPoint.appending(RawText($0.path).path ?? [])
            }
            let now = TransferState(
                counts: [hub.dataless, hub.unsent, hub.sending, hub.problems.count],
                paths: Set(paths))
            let before = state.withLock { $0.volumes.updateValue(now, forKey: place.socket) }
            if let before, before.counts != now.counts {
                state.withLock { $0.isUnsettled = true }
            }
            places.formUnion(now.paths.union(before?.paths ?? []).intersection(known.keys))
        }
        return places.union(known.filter { $0.value.isTransferring }.keys)
    }
}

/// Presents a directory and collects the paths at which something has happened.
private final class Tree: FilePresenter {
    let presentedItemOperationQueue = OperationQueue()
    let presentedItemMessages: FilePresenterMessages = [
        .move, .change, .subitemAppearance, .subitemChange, .subitemMove, .subitemVersions,
    ]
    private let state: Mutex<(path: FilePath, changedPaths: Set<FilePath>)>

    init(_ url: URL) {
        // The path without symbolic links, as the volume reports it.
        let path = FilePath(url).absolute
        state = Mutex(((try? path.resolved()) ?? path, []))
    }

    var path: FilePath { state.withLock { $0.path } }
    var presentedItemURL: URL? { URL(path, isDirectory: true) }

    func takeChangedPaths() -> Set<FilePath> {
        state.withLock { state in
            defer { state.changedPaths = [] }
            return state.changedPaths
        }
    }

    private func receive(_ urls: URL...) {
        state.withLock { $0.changedPaths.formUnion(urls.map { FilePath($0) }) }
    }

    func presentedItemDidMove(to newURL: URL) {
        state.withLock { state in
            state.changedPaths.formUnion([state.path, FilePath(newURL)])
            state.path = FilePath(newURL)
        }
    }
    /// It is also called after the volume was mounted again.
    func presentedItemDidChange() { state.withLock { _ = $0.changedPaths.insert($0.path) } }
    func presentedSubitemDidAppear(at url: URL) { receive(url) }
    func presentedSubitemDidChange(at url: URL) { receive(url) }
    func presentedSubitem(at oldURL: URL, didMoveTo newURL: URL) { receive(oldURL, newURL) }
    func presentedSubitem(at url: URL, didGain version: FileVersion) { receive(url) }
    func presentedSubitem(at url: URL, didLose version: FileVersion) { receive(url) }
    func presentedSubitem(at url: URL, didResolve version: FileVersion) { receive(url) }
}

extension FilePath {
    /// The outermost package that contains the path; the path itself if none does.
    fileprivate func package(below top: FilePath, _ inquiry: ItemStatusReader) -> FilePath {
        guard isBelow(top) else { return self }
        let names = bytes.dropFirst(top.bytes.count).split(separator: 0x2F)
        var path = top
        for name in names {
            path = path.appending(Name(bytes: Array(name)))
            if path != self, MetadataItem(path, inquiry)?.isPackage == true { return path }
        }
        return self
    }

    /// Whether no name between `top` and the path begins with a dot.
    fileprivate func isVisible(below top: FilePath) -> Bool {
        isBelow(top)
            && bytes.dropFirst(top.bytes.count).split(separator: 0x2F).allSatisfy {
                $0.first != 0x2E
            }
    }
}

extension Set<FilePath> {
    fileprivate func contains(anAncestorOf path: FilePath) -> Bool {
        var path = path
        while path.parent != path, path.isAbsolute {
            path = path.parent
            if contains(path) { return true }
        }
        return false
    }
}
