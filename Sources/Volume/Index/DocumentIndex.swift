import CLinux
import Journal
import Model

/// Decides which document a name, an inode and a moved-aside content belong to. Only the recorder's
/// thread uses it.
final class DocumentIndex {
    let writer: JournalWriter
    let roles: DirectoryRoles
    let cuts: PackageCuts
    private let owners: TreeOwners
    private let retentionTime: RetentionTime
    let settings: Settings
    /// Whether the events being processed are from the log of a killed daemon.
    var isReplaying = false
    /// Whether the event being processed happened before the first scan of the tree had ended.
    var isBeforeFirstLook = true
    /// The number of the last event before the first scan of the tree ended.
    var firstLookEnd: UInt64?

    init(
        writer: JournalWriter, roles: DirectoryRoles, cuts: PackageCuts, owners: TreeOwners,
        retentionTime: RetentionTime, settings: Settings
    ) {
        self.writer = writer
        self.roles = roles
        self.cuts = cuts
        self.owners = owners
        self.retentionTime = retentionTime
        self.settings = settings
    }

    /// A document's name exists again, with another inode, and stays that document. `save` is given
    /// if that inode holds a saved content already.
    func continueDocument(
        _ item: Item, to parent: Int64, _ name: Name, _ snapshot: FileSnapshot,
        tombstone: Tombstone,
        save: PendingDocument.Save?, _ t: Transaction
    ) throws {
        if let twin = try t.item(parent: parent, name: name), twin.key != item.key {
            // The scan has seen this before the event.
            if twin.latest == 0 {
                writer.state.pending.transferContent(from: twin.key, to: item.key)
            }
            try removeItem(twin, t)
        }
        var home = item
        if item.deleted == nil {
            // The old file still exists under the name to which it was moved. It is a document of
            // its own from now on.
            if item.inode != snapshot.inode, !settings.has(.forgetsOldContentOfContinued) {
                // The times may have been set since the item was recorded.
                let moved = tombstone.snapshot
                need(item, moved.inode == item.inode ? moved : FileSnapshot(item))
            }
            let backup = Item(parent: item.parent, name: item.name, kind: .file, inode: item.inode)
            home.parent = parent
            home.name = name
            try assignInode(&home, snapshot, save, t)
            // If the scan has seen this before the event, the document never was anywhere else.
            guard item.parent != parent || item.name != name, !settings.has(.losesOldFile) else {
                return
            }
            let key = try t.insert(backup)
            writer.state.pending.touch(key) {
                $0.author = PendingDocument.Save(actor: tombstone.actor, time: tombstone.time)
            }
            return
        }
        home.parent = parent
        home.name = name
        home.deleted = nil
        try assignInode(&home, snapshot, save, t)
    }

    /// Assigns another inode to the document.
    func assignInode(
        _ item: inout Item, _ snapshot: FileSnapshot, _ save: PendingDocument.Save?,
        _ t: Transaction
    ) throws {
        if item.inode != snapshot.inode { writer.state.pending.follow(item.key, inode: item.inode) }
        item.inode = snapshot.inode
        item.size = UInt64(max(0, snapshot.size))
        item.modified = snapshot.modified
        item.changed = 0
        try t.update(item)
        writer.state.pending.touch(item.key) { work in
            work.save = save
            work.isWriting = false
        }
        reloadIgnoreFile(item)
    }

    /// Whether the document has contents that must be kept. Of those that a killed daemon has not
    /// recorded it is not known which a program had saved, so all of them are kept (invariant 3).
    func isSaved(_ item: Item) -> Bool {
        if item.latest > 0 { return true }
        guard let work = writer.state.pending[item.key] else { return item.changed == 0 }
        return work.save != nil || (isReplaying || work.isFound) && item.changed == 0
    }

    /// Adds the contents of `snapshot` to the document's prior contents, because the document is
    /// about to get another inode.
    func need(_ item: Item, _ snapshot: FileSnapshot) {
        guard item.inode != 0, snapshot.isFile else { return }
        guard item.latest > 0 || item.changed == 0, snapshot.size != 0 else { return }
        let aside = writer.state.pending.entry(ofDisplaced: snapshot.inode)
        let place = aside.map { PriorContent.Place.stash($0) } ?? .elsewhere(snapshot)
        writer.state.pending.touch(item.key) { $0.replace(by: place) }
    }

    /// The name of a document has another file than the journal says, and no event tells why: the
    /// name keeps its document.
    func noteUnseenReplacement(of item: Item, by snapshot: FileSnapshot, _ t: Transaction) throws {
        if item.inode != 0 {
            need(item, FileSnapshot(item))
            writer.state.pending[item.key]?.isFound = true
        }
        var item = item
        item.inode = snapshot.inode
        item.changed = 0
        try t.update(item)
    }

    @discardableResult
    func insert(_ parent: Int64, _ name: Name, _ snapshot: FileSnapshot, _ t: Transaction) throws
        -> Int64
    {
        if var old = try t.item(parent: parent, name: name) {
            // The scan has seen this before the event: it saw the result of events still to come.
            writer.state.foundEarly.remove(old.key)
            if old.inode == snapshot.inode || settings.has(.keepsOtherInode) { return old.key }
            if old.kind == .file, snapshot.isFile {
                try assignInode(&old, snapshot, nil, t)
                return old.key
            }
            try removeItem(old, t)
        }
        var item = Item(
            parent: parent, name: name, kind: Item.Kind(of: snapshot, name: name),
            inode: snapshot.inode)
        if item.hasAttributes { item.mode = snapshot.permissions }
        try owners.note(&item, t)
        item.show(link: snapshot)
        item.key = try t.insert(item)
        switch item.kind {
        case .directory:
            try roles.noteProtection(
                of: item, mode: snapshot.permissions, since: writer.eventTime, t)
            writer.state.locations[snapshot.inode] =
                try roles.isIgnored(item, t) ? .ignored(item.key, []) : .directory(item.key)
        case .package:
            writer.state.locations[snapshot.inode] = .package(item.key, [])
            touchPackage(item.key)
        case .file: writer.state.pending.touch(item.key)
        case .symlink, .special: break
        }
        reloadIgnoreFile(item)
        return item.key
    }

    /// Handles an item that has lost its name. It is marked as deleted if it has versions or will
    /// have some; otherwise its row is removed.
    func removeItem(_ item: Item, _ t: Transaction) throws {
        reloadIgnoreFile(item)
        writer.state.pending.follow(item.key, inode: item.inode)
        if item.kind == .directory {
            if writer.state.locations[item.inode] == .directory(item.key) {
                writer.state.locations[item.inode] = nil
            }
            // Programs can remove only empty directories, so the scan has seen this before the
            // event.
            for child in try t.children(of: item.key) { try removeItem(child, t) }
        }
        let priorContents = writer.state.pending[item.key]?.priorContents ?? []
        let isEmpty = try priorContents.allSatisfy { prior in
            // The file was a temporary one, and its bytes now belong to another document.
            if settings.has(.removesUnrecorded) { return true }
            guard prior.entry == nil else { return false }
            return try t.hasItem(inode: prior.inode, otherThan: item.key)
        }
        if item.latest == 0, isEmpty, !settings.has(.keepsEmptyRows), try !t.isParent(item),
            try !t.isKnownToHub(item)
        {
            writer.state.pending[item.key] = nil
            writer.state.unfinished.endRecording(of: item.key)
            try t.removeRow(item.key)
            return
        }
        var item = item
        item.deleted = retentionTime.ofDeletion(at: writer.eventTime)
        item.inode = 0
        try t.update(item)
        if writer.state.pending[item.key] != nil {
            writer.state.pending.touch(item.key) { $0.isWriting = false }
        }
    }

    func noteSave(_ item: Item, by actor: Actor, _ t: Transaction) throws {
        reloadIgnoreFile(item)
        writer.state.pending.touch(item.key) { work in
            work.save = PendingDocument.Save(actor: actor, time: writer.eventTime)
            work.isWriting = false
        }
        guard item.changed != 0 else { return }
        var item = item
        item.changed = 0
        try t.update(item)
    }

    /// Reads the ignore file again, and scans the tree, if the item is that file.
    func reloadIgnoreFile(_ item: Item) {
        guard item.parent == Item.root, item.name == Name(LocalNames.fileName),
            roles.ignoreFile.read()
        else { return }
        writer.state.locations.removeAll()
        // A scan that is under way has compared some directories by the old rules.
        let missing = writer.state.scan?.missing ?? []
        writer.state.scan = .whole
        writer.state.scan?.missing = missing
    }

    /// The tombstone of this name, if the same process removed it recently.
    func takeTombstone(_ spot: DirectoryEntry, _ actor: Actor) -> Tombstone? {
        guard !settings.has(.forgetsTombstones),
            let tombstone = writer.state.tombstones.removeValue(forKey: spot),
            tombstone.actor.process == actor.process
                || settings.has(.takesTombstonesOfOthers),
            tombstone.actor.uid == actor.uid,
            writer.eventTime - tombstone.time < Timestamp.span(seconds: settings.tombstoneSeconds)
        else { return nil }
        return tombstone
    }

    /// Remembers where a file is that holds prior contents of documents, or is another hard link of
    /// one, if it has no item of its own.
    func rememberUntrackedFile(_ snapshot: FileSnapshot, to spot: DirectoryEntry, _ t: Reader)
        throws
    {
        guard snapshot.isFile else { return }
        // An item with this entry shows where the file is.
        if case .directory(let parent) = try roles.location(of: spot.directory, t),
            try t.item(parent: parent, name: spot.name)?.inode == snapshot.inode
        {
            return
        }
        let hasDependents = writer.state.pending.dependents[snapshot.inode] != nil
        guard
            try hasDependents
                || writer.state.untrackedFiles.count < 10_000 && t.hasItem(inode: snapshot.inode)
        else { return }
        writer.state.untrackedFiles[snapshot.inode] = spot
    }

    /// Whether `key` is `other` or a directory that contains it.
    func contains(_ key: Int64, _ other: Int64, _ t: Reader) throws -> Bool {
        var next: Int64? = other
        // A path of at most 4,096 bytes has no more names. The bound also ends a cycle.
        for _ in 0..<2048 {
            guard let at = next, at != Item.root else { return false }
            if at == key { return true }
            next = try t.item(at)?.parent
        }
        return true
    }

    /// Notes that the newest prior content of a document was not seen by the program that replaced
    /// it.
    func replaceUnseen(_ item: Item, madeFrom base: NamedBase, _ t: Reader) throws {
        let known = try t.versions(of: item.key).last { base.isThat(of: $0) }
        writer.state.pending.touch(item.key) {
            $0.noteUnseen(base: known?.id, mergesOnlyManually: base.mergesOnlyManually)
        }
    }

    // MARK: Contents that were moved aside

    /// Adds a content that was moved aside to the documents it belongs to: the one that had the
    /// name (unless the file was only a backup), those with a prior content in that inode, and the
    /// package it was in.
    func transferContent(
        _ stash: String?, inode: UInt64, to items: [Item], package: Int64? = nil,
        isUnsaved: Bool = false
    ) throws {
        guard let stash, let entry = Stash.parse(stash) else { return }
        writer.state.pending.leave(entry)
        let isContent =
            settings.has(.forgetsDependents) ? false : writer.state.pending.transferContent(entry)
        if entry.kind == .displaced { writer.state.untrackedFiles[inode] = nil }
        for item in items
        where !isContent || isSaved(item) {
            writer.state.pending.attach(entry, to: item.key, isUnsaved: isUnsaved)
        }
        // After a crash it is unknown whether its replacement in the package is complete.
        if let package { writer.state.pending.attach(entry, to: package, isRecovered: isReplaying) }
    }

    /// As `transferContent`, for a directory or file that is not known. Before the first scan, it
    /// may be in a package, or may have been put into the tree while the volume was not mounted and
    /// replaced before the scan. Its document is then looked for after the scan.
    func transferUnknownContent(_ stash: String?, inode: UInt64) throws {
        try transferContent(stash, inode: inode, to: [])
        guard isBeforeFirstLook, let entry = stash.flatMap(Stash.parse),
            !writer.state.pending.needs(entry)
        else { return }
        writer.state.unresolved.append(entry)
    }

    /// As `transferContent`, for a file that is no document. Before the first scan, the journal may
    /// know it as one: it was moved while the volume was not mounted, or a loss of power has
    /// destroyed the event that says so. Then its document is looked for after the scan.
    func transferContentOfNonDocument(_ stash: String?, inode: UInt64, _ t: Reader) throws {
        guard isBeforeFirstLook, try t.hasItem(inode: inode) else {
            return try transferContent(stash, inode: inode, to: [])
        }
        try transferUnknownContent(stash, inode: inode)
    }
}
