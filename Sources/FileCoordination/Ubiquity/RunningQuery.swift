import Control
import Foundation
import Model
import Synchronization

/// A ``MetadataQuery`` that runs, on a thread of its own.
final class RunningQuery: Sendable {
    private let query: MetadataQuery
    private let trees: [QueryTree]
    private let bell: QueryBell
    private let state = Mutex(State())

    private struct State {
        var known: [FilePath: MetadataItem] = [:]
        /// All known items, sorted as the query says.
        var results: [MetadataItem] = []
        /// For each volume, by its socket, the paths that it transferred or could not transfer when
        /// it was asked last.
        var transfers: [String: Set<FilePath>] = [:]
        var isEnded = false
    }

    init(_ query: MetadataQuery) {
        self.query = query
        let bell = QueryBell()
        self.bell = bell
        trees = query.searchScopes.map { QueryTree($0, bell) }
    }

    /// Ends ``run``.
    func end() {
        state.withLock { $0.isEnded = true }
        bell.ring()
    }

    private var isEnded: Bool { state.withLock(\.isEnded) }

    func run(_ tell: (MetadataQuery.Update) -> Void) {
        let number = MountConnection.nextNumber()
        // The trees are watched before the first look, so that no change is missed meanwhile.
        for tree in trees {
            FileCoordinator.addFilePresenter(tree)
            tree.watch()
        }
        let bell = bell
        UbiquityContainer.downloads.withLock { $0.listeners[number] = { bell.ring() } }
        defer {
            UbiquityContainer.downloads.withLock { $0.listeners[number] = nil }
            for tree in trees {
                FileCoordinator.removeFilePresenter(tree)
                tree.endWatching()
            }
        }
        for tree in trees { _ = tree.takeChangedPaths() }
        bell.hush()
        var (places, isMoving) = transfers()
        tell(look(at: Set(trees.map(\.path))))
        // Asked after the bell was hushed, because that may have been the ring of `end`.
        while !isEnded {
            if isMoving { pause() } else { bell.wait() }
            if isEnded { return }
            if !isMoving { pause() }
            bell.hush()
            for tree in trees { tree.watch() }
            var changedPaths: Set<FilePath> = []
            for tree in trees { changedPaths.formUnion(tree.takeChangedPaths()) }
            (places, isMoving) = transfers()
            let tops = Set(trees.map(\.path)).intersection(changedPaths)
            let update = look(at: places.union(tops), changedPaths)
            if !update.isEmpty { tell(update) }
        }
    }

    /// Changes are collected for a while before they are reported.
    private func pause() {
        let (seconds, rest) = query.notificationBatchingInterval.components
        usleep(UInt32(clamping: seconds * 1_000_000 + rest / 1_000_000_000_000))
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
        var found: [MetadataItem] = []
        for place in places where !places.contains(anAncestorOf: place) {
            gather(place, inquiry, &found)
        }
        return compare(found, in: places)
    }

    /// What has changed if this is what there is now at or below these places.
    private func compare(_ found: [MetadataItem], in places: Set<FilePath>)
        -> MetadataQuery.Update
    {
        state.withLock { state in
            var update = MetadataQuery.Update()
            let paths = state.known.isEmpty ? [] : Set(found.map(\.path))
            for path in state.known.keys where !paths.contains(path) {
                guard places.contains(path) || places.contains(anAncestorOf: path),
                    let item = state.known.removeValue(forKey: path)
                else { continue }
                update.removed.append(item)
            }
            for item in found {
                let former = state.known.updateValue(item, forKey: item.path)
                if former == nil { update.added.append(item) }
                if let former, former != item { update.changed.append(item) }
            }
            guard !update.isEmpty else { return update }
            state.results.take(update, by: precedes)
            update.results = state.results
            return update
        }
    }

    private func precedes(_ item: MetadataItem, _ other: MetadataItem) -> Bool {
        for comparator in query.sortComparators {
            switch comparator.compare(item, other) {
            case .orderedAscending: return true
            case .orderedDescending: return false
            case .orderedSame: break
            }
        }
        return item.path < other.path
    }

    private func gather(
        _ path: FilePath, _ inquiry: ItemStatusReader, _ found: inout [MetadataItem]
    ) {
        let isTop = trees.contains { $0.path == path }
        guard isTop || trees.contains(where: { path.isVisible(below: $0.path) }),
            let item = MetadataItem(path, inquiry)
        else { return }
        if !isTop, query.predicate(item) { found.append(item) }
        if item.isDirectory { gather(in: inquiry.directory(path), inquiry, &found) }
    }

    private func gather(
        in directory: ItemStatusReader.Directory, _ inquiry: ItemStatusReader,
        _ found: inout [MetadataItem]
    ) {
        let names = (try? directory.path.children()) ?? []
        for name in names.sorted() where name.bytes.first != 0x2E {
            guard let item = MetadataItem(name, in: directory, inquiry) else { continue }
            if query.predicate(item) { found.append(item) }
            guard item.isDirectory else { continue }
            gather(in: inquiry.directory(item.path, in: directory), inquiry, &found)
        }
    }

    /// The items whose transfers may have advanced, and whether anything is being transferred now.
    private func transfers() -> (places: Set<FilePath>, isMoving: Bool) {
        let known = state.withLock { $0.known }
        var moving = Set(UbiquityContainer.downloads.withLock { $0.underWay.keys })
        moving.formIntersection(known.keys)
        var places = moving
        for tree in trees {
            guard let place = (try? tree.path.place()) ?? nil,
                let client = try? ControlClient(socket: place.socket),
                let report = try? client.ask(Request(.status), as: VolumeReport.self),
                let hub = report.hub
            else { continue }
            func path(_ text: String) -> FilePath {
                place.mountPoint.appending(RawText(text).path ?? [])
            }
            let here = Set(hub.moving.map { path($0.path) })
            moving.formUnion(here.intersection(known.keys))
            let now = here.union(hub.problems.keys.map(path))
            let before = state.withLock { $0.transfers.updateValue(now, forKey: place.socket) }
            places.formUnion(now.union(before ?? []).intersection(known.keys))
        }
        places.formUnion(known.filter { $0.value.isTransferring }.keys)
        return (places, !moving.isEmpty)
    }
}

/// Wakes the thread of a query.
final class QueryBell: Sendable {
    private let rings = DispatchSemaphore(value: 0)

    func ring() { rings.signal() }

    /// Waits for the next ring.
    func wait() { rings.wait() }

    /// Forgets the rings until now.
    func hush() { while rings.wait(timeout: .now()) == .success {} }
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

extension [MetadataItem] {
    /// Adds, replaces and removes what has changed. The items are sorted before and after.
    fileprivate mutating func take(
        _ update: MetadataQuery.Update, by precedes: (MetadataItem, MetadataItem) -> Bool
    ) {
        let outdated = Set((update.removed + update.changed).map(\.path))
        var rest = self[...]
        if !outdated.isEmpty { rest = filter { !outdated.contains($0.path) }[...] }
        var added = (update.added + update.changed).sorted(by: precedes)[...]
        var merged: [MetadataItem] = []
        merged.reserveCapacity(rest.count + added.count)
        while let new = added.first, let old = rest.first {
            merged.append(precedes(new, old) ? added.removeFirst() : rest.removeFirst())
        }
        self = merged + rest + added
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
