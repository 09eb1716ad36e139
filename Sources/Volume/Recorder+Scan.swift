import CLinux
import Glibc
import Journal
import Model
import SystemCalls

/// A comparison of the tree with the journal, a directory at a time.
struct Scan {
    /// Directories still to be looked at.
    var waiting: [Int64]
    var items = 0
    /// Items whose name is gone, and the files among them that had versions.
    var missing: [Int64] = []
    /// Whether it goes through the whole tree: only then "not found" means something.
    var isWhole: Bool
    /// Events seen when the scan of a directory began.
    var lastEvents: UInt64 = 0
}

// The scan finds what was changed while nobody watched: by direct edits of the working tree while it was not mounted, or in
// the last moments before the daemon was killed. The tree is always right; the journal follows.
extension Recorder {
    func startScan() {
        scan = Scan(waiting: [Item.root], isWhole: true)
        pendingCursor = 0
    }

    /// Looks at one subtree again, once events have been understood.
    func rescan(_ key: Int64) {
        if scan == nil { scan = Scan(waiting: [key], isWhole: false) } else { scan?.waiting.append(key) }
        pendingCursor = 0
    }

    /// Some directories of the scan; false when there is none to do.
    func scanStep() -> Bool {
        guard scan != nil else { return false }
        let started = cl_clock_monotonic_ns()
        do {
            try journal.write { t in
                while let key = scan?.waiting.popLast() {
                    try compare(key, t)
                    if cl_clock_monotonic_ns() - started > 100_000_000 { break }
                }
            }
        } catch {
            tell("scan", "The tree could not be compared with the journal: \(error)")
            pausedUntil = cl_clock_monotonic_ns() + nanoseconds(10)
            scan = nil
            return false
        }
        if scan?.waiting.isEmpty == true { endScan() }
        return true
    }

    private func compare(_ key: Int64, _ t: Transaction) throws {
        guard var item = try t.item(key), item.deleted == nil, let path = try t.path(of: key) else {
            return
        }
        let directory: Descriptor
        do throws(Errno) {
            directory = try openBeneath(path, from: tree, flags: O_RDONLY | O_DIRECTORY)
        } catch {
            // Not readable is not deleted.
            if error != .notFound {
                tell("scan of \(text(path))", "\(text(path)) cannot be read: \(error).")
            }
            return
        }
        let trace = status(directory.raw)
        if item.inode != trace.inode {
            item.inode = trace.inode
            try t.update(item)
        }
        if item.kind == .package {
            touchPackage(key)
            locations[trace.inode] = .package(key, [])
            return
        }
        if !path.isEmpty, localNames().matches(path: path, isDirectory: true) {
            locations[trace.inode] = .ignored
            return
        }
        locations[trace.inode] = .directory(key)
        try compareEntries(of: key, directory.raw, t)
    }

    private func compareEntries(of key: Int64, _ directory: Int32, _ t: Transaction) throws {
        var known: [Name: Item] = [:]
        for child in try t.children(of: key) { known[child.name] = child }
        var names: [Name] = []
        try forEachName(in: directory) { names.append($0) }
        for name in names {
            guard let found = try? entryStatus(name, in: directory) else { continue }
            scan?.items += 1
            let trace = Trace(found)
            if let item = known.removeValue(forKey: name) {
                try compare(item, trace, in: directory, t)
            } else {
                try add(name, trace, to: key, in: directory, t)
            }
        }
        for item in known.values { scan?.missing.append(item.key) }
    }

    private func compare(_ item: Item, _ trace: Trace, in directory: Int32, _ t: Transaction) throws {
        let kind = kind(of: trace, name: item.name)
        let isContainer = item.kind == .directory || item.kind == .package
        guard isContainer == trace.isDirectory, isContainer || kind == item.kind else {
            // Another kind of thing has this name now: it is another item.
            try vanish(item, t)
            try add(item.name, trace, to: item.parent, in: directory, t)
            return
        }
        if isContainer {
            scan?.waiting.append(item.key)
            return
        }
        guard item.kind == .file else { return }
        if item.inode != trace.inode {
            // Replaced while nobody watched: the name keeps its document.
            if item.inode != 0 { need(item.inode, for: item) }
        } else if item.changed == trace.changed, item.size == UInt64(trace.size) {
            return
        }
        var item = item
        item.inode = trace.inode
        item.changed = 0
        try t.update(item)
    }

    private func add(
        _ name: Name, _ trace: Trace, to parent: Int64, in directory: Int32, _ t: Transaction
    ) throws {
        if !trace.isDirectory, localNames().matches(name) { return }
        var item = Item(
            parent: parent, name: name, kind: kind(of: trace, name: name), inode: trace.inode)
        if trace.isDirectory, let inner = try? openBeneath([name], from: directory, flags: O_PATH) {
            item.kind = packageKind(of: name, inner.raw)
        }
        item.key = try t.insert(item)
        if trace.isDirectory { scan?.waiting.append(item.key) }
    }

    private func endScan() {
        guard let finished = scan else { return }
        scan = nil
        do {
            if finished.isWhole { try settleMissing(finished) }
            let later = deferred
            deferred = []
            apply(later)
        } catch {
            tell("scan", "The tree could not be compared with the journal: \(error)")
        }
        pendingCursor = 0
        untell("scan")
    }

    /// What has lost its name was moved, or deleted; or the tree is not what it was, and nothing follows from that.
    private func settleMissing(_ scan: Scan) throws(VolumeError) {
        try journal.write { t in
            let brake = try t.itemCount() / 2
            if scan.missing.count > 20, scan.missing.count > brake {
                tell(
                    "brake",
                    "\(scan.missing.count) of \(try t.itemCount()) items are missing from the "
                        + "working tree. Nothing is taken for deleted. If that is right, delete "
                        + "them again through the mount; if not, put the tree back.")
                return
            }
            untell("brake")
            for key in scan.missing {
                guard let item = try t.item(key), item.deleted == nil else { continue }
                try settle(item, t)
            }
        }
    }

    private func settle(_ item: Item, _ t: Transaction) throws {
        // An event of the meantime may have brought it back.
        if let path = try t.path(of: item.key), (try? openBeneath(path, from: tree, flags: O_PATH)) != nil {
            return
        }
        let elsewhere = try t.items(inode: item.inode).first {
            $0.key != item.key && $0.latest == 0 && $0.kind == item.kind && item.inode != 0
        }
        if let place = elsewhere {
            var moved = item
            moved.parent = place.parent
            moved.name = place.name
            try replace(place, with: moved, t)
            return
        }
        if item.kind == .directory {
            for child in try t.children(of: item.key) { try settle(child, t) }
        }
        try vanish(item, t)
    }

    /// The scan took a moved item for a new one; what it found below a moved directory goes with it.
    private func replace(_ place: Item, with moved: Item, _ t: Transaction) throws {
        if moved.kind == .directory {
            let known = Set(try t.children(of: moved.key).map(\.name))
            for var child in try t.children(of: place.key) where !known.contains(child.name) {
                child.parent = moved.key
                try t.update(child)
            }
            for child in try t.children(of: place.key) { try swallow(child, t) }
            locations[moved.inode] = .directory(moved.key)
        }
        works[place.key] = nil
        try t.removeRow(place.key)
        var moved = moved
        moved.changed = 0
        try t.update(moved)
        if moved.kind == .directory { rescan(moved.key) }
    }
}
