import CLinux
import Glibc
import Journal
import Model
import SystemCalls

/// A comparison of the tree with the journal, one directory at a time.
struct Scan {
    /// A name in a directory, which is given by its item's key.
    struct Entry: Hashable {
        var parent: Int64
        var name: Name
    }

    /// Directories that are still to be compared.
    var waiting: [Int64]
    /// Single names that are still to be compared.
    var names: [Entry] = []
    var items = 0
    /// Items whose names were not found.
    var missing: [Int64] = []
    /// Whether it covers the whole tree.
    var isWhole: Bool

    static var whole: Scan { Scan(waiting: [Item.root], isWhole: true) }

    var isDone: Bool { waiting.isEmpty && names.isEmpty }
}

/// The scan finds changes that caused no event: direct edits of the working tree while it was not
/// mounted, and changes of the last moments before the daemon was killed. The tree is always right,
/// and the journal is made to agree with it.
///
/// Only the recorder's thread uses it.
final class Scanner {
    private let writer: JournalWriter
    private let index: DocumentIndex
    private let roles: DirectoryRoles
    private let tree: Int32
    let missing: MissingItems
    private let settings: Settings
    private let pauses: WorkPauses
    private let reports: RecorderReports
    private let adopter: ArrivalAdopter
    private let owners: TreeOwners
    private let events: EventQueue
    private let processor: EventProcessor
    private var changes = UnprocessedChanges()
    /// When the volume was opened, in nanoseconds since 1970.
    private let startTime = cl_clock_realtime_ns()

    init(
        writer: JournalWriter, index: DocumentIndex, processor: EventProcessor, tree: Int32,
        stash: Stash, settings: Settings, pauses: WorkPauses, reports: RecorderReports,
        adopter: ArrivalAdopter, owners: TreeOwners
    ) {
        self.writer = writer
        self.index = index
        roles = index.roles
        self.tree = tree
        missing = MissingItems(
            writer: writer, index: index, tree: tree, stash: stash, settings: settings,
            pauses: pauses, reports: reports)
        self.settings = settings
        self.pauses = pauses
        self.reports = reports
        self.adopter = adopter
        self.owners = owners
        self.processor = processor
        events = processor.events
    }

    /// Compares some directories. Returns false if there is nothing to scan.
    func step() -> Bool {
        guard writer.state.scan != nil, !pauses.isPaused else { return false }
        let started = cl_clock_monotonic_ns()
        let longest = Timestamp.span(seconds: settings.scanSeconds)
        writer.eventTime = cl_clock_realtime_ns()
        do {
            try writer.transact { t in
                writer.describesNames = true
                while try compareNext(t) {
                    if cl_clock_monotonic_ns() - started >= longest { break }
                }
            }
            reports.untell("scan")
        } catch {
            reports.tell("scan", "The tree cannot be compared with the journal: \(error)")
            pauses.pause(seconds: settings.retrySeconds)
            return false
        }
        writer.removeUnneededStashFiles()
        if writer.state.scan?.isDone == true { endScan() }
        return true
    }

    private func compareNext(_ t: Transaction) throws -> Bool {
        if let entry = writer.state.scan?.names.popLast() {
            try compare(entry, t)
        } else if let key = writer.state.scan?.waiting.popLast() {
            try compare(key, t)
        } else {
            return false
        }
        return true
    }

    /// Ends the scan. Events of the meantime are processed before missing items count as deleted.
    private func endScan() {
        guard let finished = writer.state.scan else { return }
        writer.state.scan = nil
        changes = UnprocessedChanges()
        if finished.isWhole, index.firstLookEnd == nil { index.firstLookEnd = events.lastSequence }
        writer.state.missing += finished.missing
        writer.pendingCursor = 0
        if !finished.isWhole { reports.untell("scan") }
    }

    private func compare(_ key: Int64, _ t: Transaction) throws {
        guard var item = try t.item(key), item.deleted == nil, let path = try t.path(of: key) else {
            return
        }
        guard let directory = open(directory: path) else {
            // Events that are not processed yet may have moved it.
            if !events.isProcessed { writer.state.directoriesToRescan.append(key) }
            return
        }
        if path.isEmpty { try noteRules(t) }
        let snapshot = FileSnapshot(of: directory.raw)
        if try isLeftToEvents(item.name, in: item.parent, item, snapshot, t) {
            // The events may move it elsewhere, and then nothing else compares what is in it.
            writer.state.directoriesToRescan.append(key)
            return
        }
        try reclassify(&item, path, directory.raw, t)
        let before = item
        item.inode = snapshot.inode
        if before.inode != snapshot.inode, writer.state.locations[before.inode] == .directory(key) {
            writer.state.locations[before.inode] = nil
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
            writer.state.locations[snapshot.inode] = .package(key, [])
            do throws(Errno) {
                try registerPackage(key, directory.raw, [], t)
            } catch {
                notExamined(nil, in: path, error)
            }
            index.touchPackage(key)
            return
        }
        if !path.isEmpty, roles.ignoreFile.current.matches(path: path, isDirectory: true) {
            writer.state.locations[snapshot.inode] = .ignored(key, [])
            return
        }
        writer.state.locations[snapshot.inode] = .directory(key)
        try compareEntries(of: key, at: path, directory.raw, t)
    }

    /// Nil if it is not there any more, or cannot be examined, which is reported.
    private func open(directory path: [Name]) -> Descriptor? {
        do throws(Errno) {
            return try openBeneath(path, from: tree, flags: O_RDONLY | O_DIRECTORY | O_NOATIME)
        } catch {
            if !error.isMissing { notExamined(nil, in: path, error) }
            return nil
        }
    }

    private func compare(_ entry: Scan.Entry, _ t: Transaction) throws {
        guard let parent = try t.item(entry.parent), let path = try t.path(of: entry.parent),
            let directory = open(directory: path)
        else { return }
        guard FileSnapshot(of: directory.raw).inode == parent.inode else {
            // The path has another directory now, which is compared first.
            return writer.rescan(parent.key)
        }
        let found: stat?
        do throws(Errno) {
            found = try entryIfPresent(entry.name, in: directory.raw)
        } catch {
            return notExamined(entry.name, in: path, error)
        }
        let item = try t.item(parent: entry.parent, name: entry.name)
        switch (item, found) {
        case (let item?, let found?): try compare(item, found, in: directory.raw, t)
        case (nil, let found?): try add(entry.name, found, to: entry.parent, in: directory.raw, t)
        case (let item?, nil): writer.state.scan?.missing.append(item.key)
        case (nil, nil): break
        }
    }

    /// Whether a name has a file or directory that the journal knows by another name, or another
    /// one than the journal says, and an event that is not processed yet is about it. That event
    /// says how it got there, and which contents belong to which document meanwhile, so the scan
    /// leaves the name to it, and compares it again afterwards (invariant 9). A name that no event
    /// explains is compared at once: it was changed while the volume was not mounted, or a loss of
    /// power has destroyed the event.
    private func isLeftToEvents(
        _ name: Name, in parent: Int64, _ known: Item?, _ snapshot: FileSnapshot, _ t: Reader
    ) throws -> Bool {
        guard !events.isProcessed, !settings.has(.scanIgnoresEvents),
            try contradictsJournal(known, snapshot, t),
            try isExplained(name, in: parent, known, snapshot, t)
                || settings.has(.settlesBeforeEvents)
        else { return false }
        writer.state.namesToRescan.append(Scan.Entry(parent: parent, name: name))
        return true
    }

    private func contradictsJournal(_ known: Item?, _ snapshot: FileSnapshot, _ t: Reader) throws
        -> Bool
    {
        guard snapshot.isFile || snapshot.isDirectory else { return false }
        guard let known else { return try t.hasItem(inode: snapshot.inode) }
        return known.inode != 0 && known.inode != snapshot.inode
    }

    /// Whether an event that is not processed yet is about the name or one of the two inodes.
    private func isExplained(
        _ name: Name, in parent: Int64, _ known: Item?, _ snapshot: FileSnapshot, _ t: Reader
    ) throws -> Bool {
        changes.add(processor.backlog)
        changes.add(events.waiting(after: changes.last))
        if changes.contains(snapshot.inode) { return true }
        if let known, changes.contains(known.inode) { return true }
        guard let directory = try t.item(parent)?.inode else { return false }
        return changes.contains(DirectoryEntry(directory: directory, name: name))
    }

    /// Notes that the attribute that makes a directory a package was set or removed.
    private func reclassify(
        _ item: inout Item, _ path: [Name], _ directory: Int32, _ t: Transaction
    ) throws {
        guard let name = path.last else { return }
        let kind = roles.packageKind(of: name, directory)
        guard kind != item.kind else { return }
        item.kind = kind
        try t.update(item)
        try index.convert(item, t)
        item = try t.item(item.key) ?? item
    }

    /// Registers the contents of a package, which must be known before a program moves them.
    private func registerPackage(
        _ key: Int64, _ directory: Int32, _ path: [Name], _ t: Reader
    ) throws(Errno) {
        try forEachName(in: directory) { (name) throws(Errno) in
            guard let found = try? entryStatus(name, in: directory) else { return }
            let snapshot = FileSnapshot(found)
            writer.state.scan?.items += 1
            if snapshot.isFile {
                writer.state.packaged[snapshot.inode] = key
                let spot = DirectoryEntry(directory: FileSnapshot(of: directory).inode, name: name)
                try? index.rememberUntrackedFile(snapshot, to: spot, t)
            }
            guard snapshot.isDirectory else { return }
            writer.state.locations[snapshot.inode] = .package(key, path + [name])
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
            writer.state.scan?.items += 1
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
                writer.state.scan?.missing.append(item.key)
                return
            }
            writer.state.scan?.items += 1
            try compare(item, found, in: directory, t)
        }
        while next < names.endIndex { try addNext() }
    }

    /// If the ignore file has changed since the last scan, all items that no hub has become unsent,
    /// because it may not name some of them any more.
    private func noteRules(_ t: Transaction) throws {
        let rules = roles.ignoreFile.text
        guard try t.value(Scanner.rules) ?? "" != rules else { return }
        try t.markUnknownUnsent()
        try t.set(Scanner.rules, to: rules)
    }

    /// The journal keeps the text that the ignore file had at the last scan under this key.
    private static let rules = "ignore rules"

    /// Reports an item that cannot be examined. It does not count as deleted.
    private func notExamined(_ name: Name?, in directory: [Name], _ error: Errno) {
        let path = (directory + (name.map { [$0] } ?? [])).shown
        reports.tell("scan of \(path)", "\(path) cannot be examined: \(error). It is not compared.")
    }

    private func compare(_ item: Item, _ status: stat, in directory: Int32, _ t: Transaction)
        throws
    {
        let snapshot = FileSnapshot(status)
        let kind = Item.Kind(of: snapshot, name: item.name)
        let isContainer = item.kind == .directory || item.kind == .package
        guard isContainer == snapshot.isDirectory, isContainer || kind == item.kind else {
            // The name has something of another kind now, which is another item.
            try missing.noteUnseenDeletion(item, t)
            try add(item.name, status, to: item.parent, in: directory, t)
            return
        }
        if isContainer {
            writer.state.scan?.waiting.append(item.key)
            return
        }
        if item.kind == .symlink { return try compare(link: item, status, in: directory, t) }
        guard item.kind == .file else { return }
        if try isLeftToEvents(item.name, in: item.parent, item, snapshot, t) { return }
        if item.inode != snapshot.inode || item.changed != snapshot.changed,
            let file = try? openBeneath([item.name], from: directory, flags: O_PATH),
            try adopter.arrived(snapshot, named: item.name, in: item.parent, at: file.raw, t)
        {
            return
        }
        if item.inode != snapshot.inode {
            return try index.noteUnseenReplacement(of: item, by: snapshot, t)
        }
        if item.changed == snapshot.changed, item.size == UInt64(snapshot.size) {
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
            try missing.noteUnseenDeletion(item, t)
            return try add(item.name, status, to: item.parent, in: directory, t)
        }
        now.inode = snapshot.inode
        if now != item { try t.update(now) }
    }

    private func add(
        _ name: Name, _ status: stat, to parent: Int64, in directory: Int32, _ t: Transaction
    ) throws {
        let snapshot = FileSnapshot(status)
        if !snapshot.isDirectory, try roles.isLocal(name, in: parent, t) {
            if try removeLeftPart(name, snapshot, in: directory, t) { return }
            // A document may have been moved to that name, and its prior contents may exist only
            // there.
            try index.rememberUntrackedFile(
                snapshot,
                to: DirectoryEntry(directory: FileSnapshot(of: directory).inode, name: name),
                t)
            return
        }
        if try isLeftToEvents(name, in: parent, nil, snapshot, t) { return }
        var item = Item(
            parent: parent, name: name, kind: Item.Kind(of: snapshot, name: name),
            inode: snapshot.inode)
        item.show(link: snapshot)
        if item.hasAttributes, let file = try? openBeneath([name], from: directory, flags: O_PATH) {
            if try adopter.arrived(snapshot, named: name, in: parent, at: file.raw, t) {
                if snapshot.isDirectory, let found = try t.item(parent: parent, name: name) {
                    writer.state.scan?.waiting.append(found.key)
                }
                return
            }
            if snapshot.isDirectory { item.kind = roles.packageKind(of: name, file.raw) }
            item.note(AttributeList(of: file.raw), snapshot)
            owners.note(status, in: directory, on: &item)
        }
        item.key = try t.insert(item)
        if item.kind == .file, !events.isProcessed { writer.state.foundEarly.insert(item.key) }
        if snapshot.isDirectory { writer.state.scan?.waiting.append(item.key) }
    }

    /// Removes the part file of an `fsctl restore` that was killed, or whose daemon was. It is from
    /// before this start, no process has it open, and no document needs it. Its contents are those
    /// of a version.
    private func removeLeftPart(
        _ name: Name, _ snapshot: FileSnapshot, in directory: Int32, _ t: Reader
    ) throws -> Bool {
        guard index.firstLookEnd == nil, snapshot.isFile, LocalNames.isRestorePart(name),
            snapshot.changed < startTime, writer.state.pending.dependents[snapshot.inode] == nil,
            try t.items(inode: snapshot.inode).isEmpty,
            let file = try? openBeneath(
                [name], from: directory, flags: O_RDONLY | O_NOATIME | O_NONBLOCK),
            FileSnapshot(of: file.raw).inode == snapshot.inode, cl_probe_users(file.raw) == 0
        else { return false }
        return name.withCString { cl_unlinkat(directory, $0, 0) } == 0
    }
}
