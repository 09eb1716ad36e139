import CLinux
import Glibc
import Journal
import Model
import SystemCalls

/// A comparison of the tree with the journal, one directory at a time.
struct Scan {
    /// Directories that are still to be compared.
    var waiting: [Int64]
    var items = 0
    /// Items whose names were not found.
    var missing: [Int64] = []
    /// Whether it covers the whole tree.
    var isWhole: Bool
}

// The scan finds changes that caused no event: direct edits of the working tree while it was not
// mounted, and changes of the last moments before the daemon was killed. The tree is always right,
// and the journal is made to agree with it.
extension Recorder {
    func wholeScan() -> Scan { Scan(waiting: [Item.root], isWhole: true) }

    func startScan() {
        state.scan = wholeScan()
        pendingCursor = 0
    }

    /// Scans one subtree again, before further events are processed.
    func rescan(_ key: Int64) {
        if state.scan == nil { state.scan = Scan(waiting: [], isWhole: false) }
        state.scan?.waiting.append(key)
        pendingCursor = 0
    }

    /// Compares some directories. Returns false if there is nothing to scan.
    func scanStep() -> Bool {
        guard state.scan != nil, !isPaused else { return false }
        let started = cl_clock_monotonic_ns()
        eventTime = cl_clock_realtime_ns()
        do {
            try transact { t in
                describesNames = true
                while let key = state.scan?.waiting.popLast() {
                    try compare(key, t)
                    if cl_clock_monotonic_ns() - started > 100_000_000 { break }
                }
            }
            untell("scan")
        } catch {
            tell("scan", "The tree cannot be compared with the journal: \(error)")
            pause(seconds: settings.retrySeconds)
            return false
        }
        removeUnneededStashFiles()
        if state.scan?.waiting.isEmpty == true { endScan() }
        return true
    }

    /// Ends the scan. Events of the meantime are processed before missing items count as deleted.
    private func endScan() {
        guard let finished = state.scan else { return }
        state.scan = nil
        if finished.isWhole, firstLookEnd == nil { firstLookEnd = events.lastSequence }
        state.missing += finished.missing
        pendingCursor = 0
        if !finished.isWhole { untell("scan") }
    }

    private func compare(_ key: Int64, _ t: Transaction) throws {
        guard var item = try t.item(key), item.deleted == nil, let path = try t.path(of: key) else {
            return
        }
        let directory: Descriptor
        do throws(Errno) {
            directory = try openBeneath(
                path, from: tree, flags: O_RDONLY | O_DIRECTORY | O_NOATIME)
        } catch {
            if !error.isMissing { notExamined(nil, in: path, error) }
            return
        }
        if path.isEmpty { try noteRules(t) }
        let snapshot = status(directory.raw)
        try reclassify(&item, path, directory.raw, t)
        let before = item
        item.inode = snapshot.inode
        if before.inode != snapshot.inode, state.locations[before.inode] == .directory(key) {
            state.locations[before.inode] = nil
        }
        item.note(AttributeList(of: directory.raw), snapshot)
        owners.note(directory.raw, at: path, on: &item)
        if item != before { try t.update(item) }
        if item.kind == .directory {
            try t.setProtection(
                ofDirectory: key, Protection(of: directory.raw), since: snapshot.changed,
                former: before.mode)
        }
        if item.kind == .package {
            state.locations[snapshot.inode] = .package(key, [])
            do throws(Errno) {
                try registerPackage(key, directory.raw, [], t)
            } catch {
                notExamined(nil, in: path, error)
            }
            touchPackage(key)
            return
        }
        if !path.isEmpty, ignoreFile.current.matches(path: path, isDirectory: true) {
            state.locations[snapshot.inode] = .ignored(key, [])
            return
        }
        state.locations[snapshot.inode] = .directory(key)
        try compareEntries(of: key, at: path, directory.raw, t)
    }

    /// Notes that the attribute that makes a directory a package was set or removed.
    private func reclassify(
        _ item: inout Item, _ path: [Name], _ directory: Int32, _ t: Transaction
    ) throws {
        guard let name = path.last else { return }
        let kind = packageKind(of: name, directory)
        guard kind != item.kind else { return }
        item.kind = kind
        try t.update(item)
        try convert(item, t)
        item = try t.item(item.key) ?? item
    }

    /// Registers the contents of a package, which must be known before a program moves them.
    private func registerPackage(
        _ key: Int64, _ directory: Int32, _ path: [Name], _ t: Reader
    ) throws(Errno) {
        try forEachName(in: directory) { (name) throws(Errno) in
            guard let found = try? entryStatus(name, in: directory) else { return }
            let snapshot = FileSnapshot(found)
            state.scan?.items += 1
            if snapshot.isFile {
                state.packaged[snapshot.inode] = key
                let spot = DirectoryEntry(directory: status(directory).inode, name: name)
                try? rememberUntrackedFile(snapshot, to: spot, t)
            }
            guard snapshot.isDirectory else { return }
            state.locations[snapshot.inode] = .package(key, path + [name])
            guard let inner = try? openBeneath([name], from: directory, flags: O_PATH | O_DIRECTORY)
            else { return }
            try? registerPackage(key, inner.raw, path + [name], t)
        }
    }

    /// Compares both sides in the order of their names' bytes, reading the journal page by page,
    /// because directories can be huge.
    private func compareEntries(
        of key: Int64, at path: [Name], _ directory: Int32, _ t: Transaction
    ) throws {
        var names: [Name] = []
        do throws(Errno) {
            try forEachName(in: directory) { names.append($0) }
        } catch {
            return notExamined(nil, in: path, error)
        }
        names.sort()
        var next = names.startIndex
        func addNext() throws {
            let name = names[next]
            next += 1
            let status: stat
            do throws(Errno) {
                guard let found = try entryIfPresent(name, in: directory) else { return }
                status = found
            } catch {
                return notExamined(name, in: path, error)
            }
            state.scan?.items += 1
            try add(name, status, to: key, in: directory, t)
        }
        try t.forEachChild(of: key) { item in
            while next < names.endIndex, names[next] < item.name { try addNext() }
            var found: stat?
            if next < names.endIndex, names[next] == item.name {
                next += 1
                do throws(Errno) {
                    found = try entryIfPresent(item.name, in: directory)
                } catch {
                    return notExamined(item.name, in: path, error)
                }
            }
            guard let found else {
                state.scan?.missing.append(item.key)
                return
            }
            state.scan?.items += 1
            try compare(item, found, in: directory, t)
        }
        while next < names.endIndex { try addNext() }
    }

    /// If the ignore file has changed since the last scan, all items that no hub has become unsent,
    /// because it may not name some of them any more.
    private func noteRules(_ t: Transaction) throws {
        let rules = ignoreFile.text
        guard try t.value(Recorder.rules) ?? "" != rules else { return }
        try t.markUnknownUnsent()
        try t.set(Recorder.rules, to: rules)
    }

    /// The journal keeps the text that the ignore file had at the last scan under this key.
    private static let rules = "ignore rules"

    /// Reports an item that cannot be examined. It does not count as deleted.
    private func notExamined(_ name: Name?, in directory: [Name], _ error: Errno) {
        let path = (directory + (name.map { [$0] } ?? [])).shown
        tell("scan of \(path)", "\(path) cannot be examined: \(error). It is not compared.")
    }

    private func compare(_ item: Item, _ status: stat, in directory: Int32, _ t: Transaction)
        throws
    {
        let snapshot = FileSnapshot(status)
        let kind = kind(of: snapshot, name: item.name)
        let isContainer = item.kind == .directory || item.kind == .package
        guard isContainer == snapshot.isDirectory, isContainer || kind == item.kind else {
            // The name has something of another kind now, which is another item.
            try noteUnseenDeletion(item, t)
            try add(item.name, status, to: item.parent, in: directory, t)
            return
        }
        if isContainer {
            state.scan?.waiting.append(item.key)
            return
        }
        if item.kind == .symlink { return try compare(link: item, status, in: directory, t) }
        guard item.kind == .file else { return }
        if item.inode != snapshot.inode || item.changed != snapshot.changed,
            let file = try? openBeneath([item.name], from: directory, flags: O_PATH),
            try arrived(snapshot, named: item.name, in: item.parent, at: file.raw, t)
        {
            return
        }
        if item.inode != snapshot.inode {
            // It was replaced while the volume was not mounted; the name keeps its document.
            if item.inode != 0 {
                need(item, FileSnapshot(item))
                state.pending[item.key]?.isFound = true
            }
        } else if item.changed == snapshot.changed, item.size == UInt64(snapshot.size) {
            var now = item
            if item.mode != snapshot.permissions,
                let file = try? openBeneath([item.name], from: directory, flags: O_PATH)
            {
                now.note(AttributeList(of: file.raw), snapshot)
            }
            owners.note(status, in: directory, on: &now)
            if now != item { try t.update(now) }
            return
        }
        var item = item
        item.inode = snapshot.inode
        item.changed = 0
        try t.update(item)
    }

    /// A symlink with another target is another item. Nothing changes a symlink in place, but its
    /// inode number may be reused, or differ in a copied store, so its length and modification time
    /// are compared.
    private func compare(
        link item: Item, _ status: stat, in directory: Int32, _ t: Transaction
    ) throws {
        let snapshot = FileSnapshot(status)
        var now = item
        now.show(link: snapshot)
        guard item.modified == 0 || (now.size, now.modified) == (item.size, item.modified) else {
            try noteUnseenDeletion(item, t)
            return try add(item.name, status, to: item.parent, in: directory, t)
        }
        now.inode = snapshot.inode
        if now != item { try t.update(now) }
    }

    private func add(
        _ name: Name, _ status: stat, to parent: Int64, in directory: Int32, _ t: Transaction
    ) throws {
        let snapshot = FileSnapshot(status)
        if !snapshot.isDirectory, try isLocal(name, in: parent, t) {
            if try removeLeftPart(name, snapshot, in: directory, t) { return }
            // A document may have been moved to that name, and its prior contents may exist only
            // there.
            try rememberUntrackedFile(
                snapshot, to: DirectoryEntry(directory: self.status(directory).inode, name: name),
                t)
            return
        }
        var item = Item(
            parent: parent, name: name, kind: kind(of: snapshot, name: name), inode: snapshot.inode)
        item.show(link: snapshot)
        if item.hasAttributes, let file = try? openBeneath([name], from: directory, flags: O_PATH) {
            if try arrived(snapshot, named: name, in: parent, at: file.raw, t) {
                if snapshot.isDirectory, let found = try t.item(parent: parent, name: name) {
                    state.scan?.waiting.append(found.key)
                }
                return
            }
            if snapshot.isDirectory { item.kind = packageKind(of: name, file.raw) }
            item.note(AttributeList(of: file.raw), snapshot)
            owners.note(status, in: directory, on: &item)
        }
        item.key = try t.insert(item)
        if snapshot.isDirectory { state.scan?.waiting.append(item.key) }
    }

    /// Removes the part file of an `fsctl restore` that was killed, or whose daemon was. It is from
    /// before this start, no process has it open, and no document needs it. Its contents are those
    /// of a version.
    private func removeLeftPart(
        _ name: Name, _ snapshot: FileSnapshot, in directory: Int32, _ t: Reader
    ) throws -> Bool {
        guard firstLookEnd == nil, snapshot.isFile, LocalNames.isRestorePart(name),
            snapshot.changed < startTime, state.pending.dependents[snapshot.inode] == nil,
            try t.items(inode: snapshot.inode).isEmpty,
            let file = try? openBeneath(
                [name], from: directory, flags: O_RDONLY | O_NOATIME | O_NONBLOCK),
            status(file.raw).inode == snapshot.inode, cl_probe_users(file.raw) == 0
        else { return false }
        return name.withCString { cl_unlinkat(directory, $0, 0) } == 0
    }
}
