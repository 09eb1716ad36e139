import CLinux
import Glibc
import Journal
import Model
import SystemCalls

/// Settles items that lost their names while the volume was not mounted: each was moved or deleted,
/// or the tree is not the right one and nothing is concluded.
///
/// Only the recorder's thread uses it.
final class MissingItems {
    private let writer: JournalWriter
    private let index: DocumentIndex
    private let tree: Int32
    let stashRecovery: StashRecovery
    private let settings: Settings
    private let pauses: WorkPauses
    private let reports: RecorderReports
    private var hasRemovedEmptyRows = false
    /// Whether a person has confirmed that the missing documents were deleted.
    private var acceptsMissing = false

    init(
        writer: JournalWriter, index: DocumentIndex, tree: Int32, stash: Stash,
        settings: Settings, pauses: WorkPauses, reports: RecorderReports
    ) {
        self.writer = writer
        self.index = index
        self.tree = tree
        stashRecovery = StashRecovery(
            writer: writer, roles: index.roles, stash: stash, reports: reports)
        self.settings = settings
        self.pauses = pauses
        self.reports = reports
    }

    var hasWork: Bool {
        !writer.state.missing.isEmpty || !writer.state.unresolved.isEmpty || !hasRemovedEmptyRows
    }

    /// Settles missing items after the events of the meantime were processed, and after the names
    /// that were left to them were compared. Returns false if there are none.
    func settle() -> Bool {
        guard hasWork, writer.state.scan == nil, !pauses.isPaused,
            writer.state.namesToRescan.isEmpty || settings.has(.settlesBeforeEvents)
        else { return false }
        writer.eventTime = cl_clock_realtime_ns()
        do {
            try writer.transact { t in
                try stashRecovery.resolveLeftovers(t)
                try removeEmptyRows(t)
                let missing = writer.state.missing
                writer.state.missing = []
                try settle(missing, t)
            }
        } catch {
            reports.tell("scan", "The search for missing documents failed: \(error)")
            pauses.pause(seconds: settings.retrySeconds)
        }
        writer.removeUnneededStashFiles()
        return true
    }

    /// Removes rows of deleted documents that a crash kept from being recorded; their contents have
    /// been assigned to other documents.
    private func removeEmptyRows(_ t: Transaction) throws {
        guard !hasRemovedEmptyRows else { return }
        hasRemovedEmptyRows = true
        for key in try t.deletedItemsWithoutVersions() where writer.state.pending[key] == nil {
            guard let item = try t.item(key), try !t.isParent(item),
                try RemovalCheck(item, [], t).mayRemoveRow
            else { continue }
            try t.removeRow(key)
        }
    }

    private func settle(_ missing: [Int64], _ t: Transaction) throws {
        var gone: [Item] = []
        // Two scans may have reported the same item.
        var seen: Set<Int64> = []
        for key in missing where seen.insert(key).inserted {
            guard let item = try t.item(key), item.deleted == nil, try !isThere(item, t) else {
                continue
            }
            if let place = try newPlace(of: item, t),
                try !index.contains(item.key, place.parent, t)
            {
                try move(item, to: place, t)
            } else {
                gone.append(item)
            }
        }
        guard !gone.isEmpty else { return }
        let count = try gone.reduce(0) { try $0 + countDocuments(in: $1, t) }
        let all = try t.documentCount()
        guard areDeleted(count, of: all) else {
            reports.change { $0.missing = count }
            reports.tell(
                "brake",
                "\(count) of \(all) documents are missing from the working tree. They are not "
                    + "treated as deleted. If you deleted them, say fsctl brake --release; if not, "
                    + "put the tree back and mount again.")
            return
        }
        acceptsMissing = false
        noteNothingMissing()
        for found in gone {
            // It may have been removed together with a directory above it.
            guard let item = try t.item(found.key), item.deleted == nil else { continue }
            try noteUnseenDeletion(item, t)
        }
    }

    /// Whether so many missing documents count as deleted. They do not if nothing at all is left,
    /// however few they were, or if most of many are missing: a disk that fails or is not mounted
    /// looks like this.
    private func areDeleted(_ count: Int, of all: Int) -> Bool {
        if acceptsMissing || count == 0 { return true }
        return count < all && (count <= settings.missingMax || count <= all / 2)
    }

    private func noteNothingMissing() {
        reports.change { $0.missing = 0 }
        reports.untell("brake")
    }

    /// Treats the documents that are missing now as deleted, because a person says so.
    func accept() {
        acceptsMissing = true
        writer.startScan()
    }

    /// Whether an event of the meantime has brought the item back, or its directory cannot be
    /// examined now.
    private func isThere(_ item: Item, _ t: Reader) throws -> Bool {
        guard let path = try t.path(of: item.key), let name = path.last,
            !settings.has(.settlesWithoutLooking)
        else { return false }
        do throws(Errno) {
            let directory = try openBeneath(
                path.dropLast(), from: tree, flags: O_PATH | O_DIRECTORY)
            return try entryIfPresent(name, in: directory.raw) != nil
        } catch {
            return !error.isMissing
        }
    }

    /// The new item that the scan made for a moved one.
    private func newPlace(of item: Item, _ t: Reader) throws -> Item? {
        try t.items(inode: item.inode).first { found in
            try found.key > item.key && found.latest == 0 && found.kind == item.kind
                && !isYounger(found, than: item, t)
        }
    }

    /// Whether the file was created after the item was last recorded. Then it is a different file
    /// that reuses the inode number.
    private func isYounger(_ found: Item, than item: Item, _ t: Reader) throws -> Bool {
        guard item.changed != 0, let path = try t.path(of: found.key),
            let file = try? openBeneath(path, from: tree, flags: O_PATH),
            let birth = Timestamp(birthOf: file.raw)
        else { return false }
        return birth.nanoseconds > item.changed
    }

    private func countDocuments(in item: Item, _ t: Reader) throws -> Int {
        guard item.kind == .directory else { return item.kind == .symlink ? 0 : 1 }
        var count = 0
        try t.forEachChild(of: item.key) { count += try countDocuments(in: $0, t) }
        return count
    }

    /// Moves a document, or a directory with all that the journal has below it.
    private func move(_ item: Item, to place: Item, _ t: Transaction) throws {
        try merge(place, into: item, t)
        // Either may have been moved together with a directory above it.
        guard let place = try t.item(place.key), var moved = try t.item(item.key) else { return }
        try mergeNewItem(place, to: moved, t)
        (moved.parent, moved.name) = (place.parent, place.name)
        try settle(&moved, place, t)
    }

    /// Matches the children of a moved directory by name; new children stay.
    private func merge(_ place: Item, into item: Item, _ t: Transaction) throws {
        let children = item.kind == .directory ? try t.children(of: place.key) : []
        for child in children {
            // A recursive move may have moved this child.
            guard var child = try t.item(child.key), child.deleted == nil,
                child.parent == place.key, child.key != item.key
            else { continue }
            guard var known = try t.item(parent: item.key, name: child.name),
                try keepsName(known, child, t)
            else {
                child.parent = item.key
                try t.update(child)
                continue
            }
            try merge(child, into: known, t)
            guard let child = try t.item(child.key), let left = try t.item(known.key) else {
                continue
            }
            known = left
            try mergeNewItem(child, to: known, t)
            if known.kind == .directory { try settle(&known, child, t) }
        }
        // The moves above may have added children.
        let left = children.isEmpty ? [] : try t.children(of: place.key)
        guard left.allSatisfy({ $0.key == item.key }) else {
            return try merge(place, into: item, t)
        }
        for var child in try t.deletedItems(in: place.key) {
            child.parent = item.key
            try t.update(child)
        }
    }

    /// Whether a name below a moved directory still belongs to the same item. It does not if that
    /// item was moved elsewhere, or if an item of another kind has the name.
    private func keepsName(_ known: Item, _ found: Item, _ t: Transaction) throws -> Bool {
        if known.inode != found.inode, let place = try newPlace(of: known, t),
            try !index.contains(known.key, place.parent, t)
        {
            try move(known, to: place, t)
            return false
        }
        guard known.kind != found.kind else { return true }
        try noteUnseenDeletion(known, t)
        return false
    }

    /// Merges the new item that the scan made into the known item.
    private func mergeNewItem(_ place: Item, to item: Item, _ t: Transaction) throws {
        // It is a document with versions of its own, which are kept.
        guard place.latest == 0 else { return try index.removeItem(place, t) }
        writer.state.pending.transferContent(from: place.key, to: item.key)
        if try t.isKnownToHub(place) { return try index.removeItem(place, t) }
        try t.removeRow(place.key)
    }

    private func settle(_ item: inout Item, _ place: Item, _ t: Transaction) throws {
        item.inode = place.inode
        if item.kind == .file || item.kind == .package { item.changed = 0 }
        try t.update(item)
        switch item.kind {
        case .directory: writer.state.locations[item.inode] = .directory(item.key)
        case .package: writer.state.locations[item.inode] = .package(item.key, [])
        default: break
        }
        if item.kind == .directory || item.kind == .package { writer.rescan(item.key) }
        writer.pendingCursor = 0
    }

    /// Handles an item that was deleted while the volume was not mounted.
    func noteUnseenDeletion(_ item: Item, _ t: Transaction) throws {
        if item.kind == .directory {
            for child in try t.children(of: item.key) { try noteUnseenDeletion(child, t) }
        }
        if item.kind == .file || item.kind == .package, item.latest > 0 {
            // Its bytes may exist under another name; otherwise they are lost.
            if item.kind == .file { index.need(item, FileSnapshot(item)) }
            writer.state.pending.touch(item.key) { $0.isFound = true }
        }
        try index.removeItem(item, t)
    }
}
