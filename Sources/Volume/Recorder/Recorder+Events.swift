import CLinux
import Journal
import Logging
import Model
import SystemCalls

// Event processing: decides to which document a name, an inode and a moved-aside content belong.
extension Recorder {
    /// How many events one transaction processes; its changes are kept in memory until it ends.
    private static let eventsMax = 10_000

    /// Processes events in their order, in one transaction, until one of them requires a scan or
    /// the time for the last work is over. The remaining events stay in the log.
    func applyBacklog() {
        guard !backlog.isEmpty, state.scan == nil, !isOverdue else { return }
        var done = 0
        do {
            try transact { t in
                for noted in backlog.prefix(Recorder.eventsMax) where !isOverdue {
                    try apply(noted, t)
                    done += 1
                    if state.scan != nil { break }
                }
                try noteEvents(upTo: done > 0 ? backlog[done - 1].sequence : nil, t)
            }
        } catch {
            failed(error)
            return
        }
        backlog.removeFirst(done)
        if backlog.isEmpty {
            isReplaying = false
            events.forgetTaken()
            for key in state.directoriesToRescan { rescan(key) }
            state.directoriesToRescan = []
        }
        removeUnneededStashFiles()
        untell("journal")
        forgetOldTombstones()
    }

    /// Handles a failed transaction. A full disk is waited for. Any other failure must not block
    /// all later events: the event at fault is skipped, and the whole tree is compared with the
    /// journal again.
    private func failed(_ error: VolumeError) {
        tell("journal", "Changes cannot be written to the journal: \(error)")
        guard error.code != .full, error.code != .busy else {
            pause(seconds: settings.retrySeconds)
            return
        }
        while let noted = backlog.first, state.scan == nil {
            do {
                try transact { t in
                    try apply(noted, t)
                    try noteEvents(upTo: noted.sequence, t)
                }
            } catch {
                guard error.code != .full, error.code != .busy else { return }
                log.error(
                    "An event cannot be processed and is skipped: \(error) \(noted.event)")
                state.locations.removeAll()
                state.scan = wholeScan()
            }
            backlog.removeFirst()
        }
        removeUnneededStashFiles()
    }

    func removeUnneededStashFiles() {
        for name in state.filesToRemove { stash.remove(name) }
        state.filesToRemove = []
    }

    private func forgetOldTombstones() {
        guard state.tombstones.count > 1_000 else { return }
        let horizon = cl_clock_realtime_ns() - nanoseconds(settings.tombstoneSeconds)
        state.tombstones.removeAll { $1.time <= horizon }
    }

    private func apply(_ noted: NotedEvent, _ t: Transaction) throws {
        eventTime = noted.time
        if noted.event.changesNames { describesNames = true }
        isBeforeFirstLook = firstLookEnd.map { noted.sequence <= $0 } ?? true
        switch noted.event {
        case .created(let spot, let snapshot, let actor):
            try made(spot, snapshot, isLink: false, by: actor, t)
        case .linked(let spot, let snapshot, let actor):
            try made(spot, snapshot, isLink: true, by: actor, t)
        case .removed(let spot, let snapshot, let stash, let actor):
            try removed(spot, snapshot, stash: stash, by: actor, t)
        case .renamed(
            let from, let to, let snapshot, let replaced, let stash, let unseen, let actor):
            try renamed(
                Move(
                    from: from, to: to, snapshot: snapshot, replaced: replaced, stash: stash,
                    unseen: unseen, actor: actor), t)
        case .exchanged(let a, let traceA, let b, let traceB, let actor):
            try exchanged(a, traceA, b, traceB, by: actor, t)
        case .secured(let inode, let stash, _):
            try secured(inode, stash: stash, t)
        case .saved(let inode, let isLate, let actor):
            try saved(inode, isLate: isLate, by: actor, t)
        case .untouched(let inode):
            for item in try t.items(inode: inode) where state.pending[item.key] != nil {
                untouched(item, inode)
            }
            if let package = state.packaged[inode] { touchPackage(package) }
        case .gone(let inode):
            state.untrackedFiles[inode] = nil
            for dependent in state.pending.dependents[inode] ?? [] {
                touch(dependent) {
                    $0.priorContents.removeAll { $0.entry == nil && $0.inode == inode }
                }
            }
        case .packaged(let inode):
            try reclassify(inode, t)
        case .attributes(let inode, let protection):
            try attributesChanged(inode, protection, t)
        case .swapped(let a, let b):
            try swapped(a, b, t)
        case .unseen(let inode, let base):
            for item in try t.items(inode: inode) where item.kind == .file {
                try replaceUnseen(item, madeFrom: base, t)
            }
        }
    }

    /// The role of a directory.
    func location(of inode: UInt64, _ t: Reader) throws -> Location {
        if let known = state.locations[inode] { return known }
        for item in try t.items(inode: inode) {
            let found: Location
            switch item.kind {
            case .directory:
                found = try isIgnored(item, t) ? .ignored(item.key, []) : .directory(item.key)
            case .package: found = .package(item.key, [])
            default: continue
            }
            state.locations[inode] = found
            return found
        }
        return .unknown
    }

    func isIgnored(_ item: Item, _ t: Reader) throws -> Bool {
        guard let path = try t.path(of: item.key), !path.isEmpty else { return false }
        return ignoreFile.current.matches(path: path, isDirectory: true)
    }

    /// Whether a file with this name in this directory is local and no document.
    func isLocal(_ name: Name, in parent: Int64, _ t: Reader) throws -> Bool {
        let names = ignoreFile.current
        if names.matches(name) { return true }
        guard names.looksAtPaths, let path = try t.path(of: parent) else { return false }
        return names.matches(path: path + [name], isDirectory: false)
    }

    private func made(
        _ spot: DirectoryEntry, _ snapshot: FileSnapshot, isLink: Bool, by actor: Actor,
        _ t: Transaction
    ) throws {
        switch try location(of: spot.directory, t) {
        case .unknown: break
        case .ignored(let key, let path):
            if snapshot.isDirectory {
                state.locations[snapshot.inode] = .ignored(key, path + [spot.name])
            }
        case .package(let key, let path):
            enter(package: key, path + [spot.name], snapshot)
        case .directory(let parent):
            if !snapshot.isDirectory, try isLocal(spot.name, in: parent, t) {
                break
            }
            let save = PendingDocument.Save(actor: actor, time: eventTime)
            if let tombstone = takeTombstone(spot, actor), snapshot.isFile,
                let item = try t.item(tombstone.item), item.kind == .file
            {
                try continueDocument(
                    item, to: parent, spot.name, snapshot, tombstone: tombstone,
                    save: isLink ? save : nil, t)
                break
            }
            let key = try insert(parent, spot.name, snapshot, t)
            if isLink, snapshot.isFile { touch(key) { $0.save = save } }
        }
        if isLink { try rememberUntrackedFile(snapshot, to: spot, t) }
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
            if twin.latest == 0 { transferContent(from: twin.key, to: item.key) }
            try removeItem(twin, t)
        }
        var home = item
        if item.deleted == nil {
            // The old file still exists under the name to which it was moved. It is a document of
            // its own from now on.
            if item.inode != snapshot.inode {
                need(item, FileSnapshot(item))
            }
            let backup = Item(parent: item.parent, name: item.name, kind: .file, inode: item.inode)
            home.parent = parent
            home.name = name
            try assignInode(&home, snapshot, save, t)
            // If the scan has seen this before the event, the document never was anywhere else.
            guard item.parent != parent || item.name != name else { return }
            let key = try t.insert(backup)
            touch(key) {
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
        if item.inode != snapshot.inode { follow(item) }
        item.inode = snapshot.inode
        item.size = UInt64(max(0, snapshot.size))
        item.modified = snapshot.modified
        item.changed = 0
        try t.update(item)
        touch(item.key) { work in
            work.save = save
            work.isWriting = false
        }
        reloadIgnoreFile(item)
    }

    /// Adds the contents of `snapshot` to the document's prior contents, because the document is
    /// about to get another inode.
    func need(_ item: Item, _ snapshot: FileSnapshot) {
        guard item.inode != 0, snapshot.isFile else { return }
        guard item.latest > 0 || item.changed == 0, snapshot.size != 0 else { return }
        let aside = state.pending.entry(ofDisplaced: snapshot.inode)
        let place = aside.map { PriorContent.Place.stash($0) } ?? .elsewhere(snapshot)
        touch(item.key) { work in
            work.priorContents.append(PriorContent(place: place, save: work.save))
            work.save = nil
        }
    }

    @discardableResult
    func insert(_ parent: Int64, _ name: Name, _ snapshot: FileSnapshot, _ t: Transaction) throws
        -> Int64
    {
        if var old = try t.item(parent: parent, name: name) {
            // The scan has seen this before the event: it saw the result of events still to come.
            if old.inode == snapshot.inode { return old.key }
            if old.kind == .file, snapshot.isFile {
                try assignInode(&old, snapshot, nil, t)
                return old.key
            }
            try removeItem(old, t)
        }
        var item = Item(
            parent: parent, name: name, kind: kind(of: snapshot, name: name), inode: snapshot.inode)
        if item.hasAttributes { item.mode = snapshot.permissions }
        try owners.note(&item, t)
        item.show(link: snapshot)
        item.key = try t.insert(item)
        switch item.kind {
        case .directory:
            try noteProtection(of: item, mode: snapshot.permissions, since: eventTime, t)
            state.locations[snapshot.inode] =
                try isIgnored(item, t) ? .ignored(item.key, []) : .directory(item.key)
        case .package:
            state.locations[snapshot.inode] = .package(item.key, [])
            touchPackage(item.key)
        case .file: touch(item.key)
        case .symlink, .special: break
        }
        reloadIgnoreFile(item)
        return item.key
    }

    func kind(of snapshot: FileSnapshot, name: Name) -> Item.Kind {
        if snapshot.isFile { return .file }
        if snapshot.isSymlink { return .symlink }
        guard snapshot.isDirectory else { return .special }
        return Volume.isPackage(name: name) ? .package : .directory
    }

    private func removed(
        _ spot: DirectoryEntry, _ snapshot: FileSnapshot, stash: String?, by actor: Actor,
        _ t: Transaction
    ) throws {
        let place = try location(of: spot.directory, t)
        if snapshot.isDirectory { state.locations[snapshot.inode] = nil }
        switch place {
        case .ignored: try transferContent(stash, inode: snapshot.inode, to: [])
        case .unknown: try transferUnknownContent(stash, inode: snapshot.inode)
        case .package(let key, _):
            state.packaged[snapshot.inode] = nil
            try transferContent(stash, inode: snapshot.inode, to: [], package: key)
            touchPackage(key, by: actor)
        case .directory(let parent):
            guard let item = try t.item(parent: parent, name: spot.name) else {
                try removedUntracked(spot, snapshot, stash: stash, in: parent, t)
                return
            }
            if item.kind == .file {
                state.tombstones[spot] = Tombstone(
                    item: item.key, actor: actor, time: eventTime, snapshot: snapshot)
            }
            if let stash {
                try transferContent(stash, inode: snapshot.inode, to: [item])
            } else if item.latest > 0 || state.pending[item.key]?.save != nil {
                // Its bytes are still in the tree, under another hard link.
                need(item, snapshot)
            }
            try removeItem(item, t)
            try noteRemoved(item, by: actor, t)
        }
    }

    /// Handles a removed file that is no item. Before the first scan it may be in the directory
    /// that a package had until a program replaced it: then the package's files are not known yet,
    /// and this one may hold the only bytes of its version.
    private func removedUntracked(
        _ spot: DirectoryEntry, _ snapshot: FileSnapshot, stash: String?, in parent: Int64,
        _ t: Transaction
    ) throws {
        guard isBeforeFirstLook, let entry = stash.flatMap(Stash.parse),
            try !isLocal(spot.name, in: parent, t)
        else { return try transferContent(stash, inode: snapshot.inode, to: []) }
        let package = state.movedParts.values.first { _, parts in
            parts.contains { $0.place == .directory(parent) }
        }?.key
        guard let package else {
            return try transferUnknownContent(stash, inode: snapshot.inode)
        }
        try transferContent(stash, inode: snapshot.inode, to: [])
        attach(entry, to: package, isRecovered: true)
    }

    /// Handles an item that has lost its name. It is marked as deleted if it has versions or will
    /// have some; otherwise its row is removed.
    func removeItem(_ item: Item, _ t: Transaction) throws {
        reloadIgnoreFile(item)
        follow(item)
        if item.kind == .directory {
            if state.locations[item.inode] == .directory(item.key) {
                state.locations[item.inode] = nil
            }
            // Programs can remove only empty directories, so the scan has seen this before the
            // event.
            for child in try t.children(of: item.key) { try removeItem(child, t) }
        }
        let priorContents = state.pending[item.key]?.priorContents ?? []
        let isEmpty = try priorContents.allSatisfy { prior in
            // The file was a temporary one, and its bytes now belong to another document.
            guard prior.entry == nil else { return false }
            return try t.hasItem(inode: prior.inode, otherThan: item.key)
        }
        if item.latest == 0, isEmpty, try !isParent(item, t), try !t.isKnownToHub(item) {
            state.pending[item.key] = nil
            try t.removeRow(item.key)
            return
        }
        var item = item
        item.deleted = deletionTime(eventTime)
        item.inode = 0
        try t.update(item)
        if state.pending[item.key] != nil { touch(item.key) { $0.isWriting = false } }
    }

    func isParent(_ item: Item, _ t: Reader) throws -> Bool {
        guard item.kind == .directory || item.kind == .package else { return false }
        if try !t.deletedItems(in: item.key).isEmpty { return true }
        return try !t.children(of: item.key).isEmpty
    }

    private func secured(_ inode: UInt64, stash: String, _ t: Transaction) throws {
        let items = try t.items(inode: inode).filter { $0.kind == .file }
        securedAside(inode, stash)
        if items.isEmpty, state.packaged[inode] == nil {
            try transferUnknownContent(stash, inode: inode)
        } else {
            try transferContent(stash, inode: inode, to: items, package: state.packaged[inode])
        }
        for item in items { touch(item.key) { $0.isWriting = true } }
    }

    /// The file was opened for writing and closed without a change, so the copy made at open equals
    /// it.
    private func untouched(_ item: Item, _ inode: UInt64) {
        touch(item.key) { work in
            work.isWriting = false
            guard let last = work.priorContents.last, last.entry?.kind == .copied,
                last.inode == inode,
                !last.isBase, !last.becomesConflict, !last.isRecovered
            else { return }
            work.priorContents.removeLast()
            work.save = last.save ?? work.save
        }
    }

    /// A program writes to a file that was just moved to the stash. The copy of its contents until
    /// now comes before it.
    private func securedAside(_ inode: UInt64, _ stash: String) {
        guard let entry = Stash.parse(stash) else { return }
        for owner in state.pending.displaced[inode] ?? [] {
            touch(owner) { work in
                guard
                    let index = work.priorContents.firstIndex(where: {
                        $0.entry?.kind == .displaced && $0.inode == inode
                    })
                else { return }
                var before = work.priorContents[index]
                before.place = .stash(entry)
                work.priorContents[index].save = nil
                work.priorContents.insert(before, at: index)
            }
        }
    }

    private func saved(
        _ inode: UInt64, isLate: Bool, by actor: Actor, _ t: Transaction
    ) throws {
        let items = try t.items(inode: inode).filter { $0.kind == .file }
        for item in items { try noteSave(item, by: actor, t) }
        if let package = state.packaged[inode] { touchPackage(package, by: actor) }
        guard items.isEmpty, let owners = state.pending.displaced[inode] else { return }
        let save = PendingDocument.Save(actor: actor, time: eventTime)
        for owner in owners {
            touch(owner) { work in
                for index in work.priorContents.indices
                where work.priorContents[index].entry?.kind == .displaced
                    && work.priorContents[index].inode == inode
                {
                    if isLate { work.priorContents[index].isSuperseded = true }
                    work.priorContents[index].save = save
                }
            }
        }
    }

    func noteSave(_ item: Item, by actor: Actor, _ t: Transaction) throws {
        reloadIgnoreFile(item)
        touch(item.key) { work in
            work.save = PendingDocument.Save(actor: actor, time: eventTime)
            work.isWriting = false
        }
        guard item.changed != 0 else { return }
        var item = item
        item.changed = 0
        try t.update(item)
    }

    /// Reads the ignore file again, and scans the tree, if the item is that file.
    func reloadIgnoreFile(_ item: Item) {
        guard item.parent == Item.root, item.name == Name(LocalNames.fileName), ignoreFile.read()
        else { return }
        state.locations.removeAll()
        // A scan that is under way has compared some directories by the old rules.
        let missing = state.scan?.missing ?? []
        state.scan = wholeScan()
        state.scan?.missing = missing
    }

    /// The tombstone of this name, if the same process removed it recently.
    func takeTombstone(_ spot: DirectoryEntry, _ actor: Actor) -> Tombstone? {
        guard let tombstone = state.tombstones.removeValue(forKey: spot),
            tombstone.actor.process == actor.process, tombstone.actor.uid == actor.uid,
            eventTime - tombstone.time < nanoseconds(settings.tombstoneSeconds)
        else { return nil }
        return tombstone
    }
}

extension FileSnapshot {
    /// The attributes of an item as the journal has them. The size is -1 if the item has changed
    /// since.
    package init(_ item: Item) {
        let type: UInt32 =
            switch item.kind {
            case .directory, .package: 0o040000
            case .symlink: 0o120000
            case .file, .special: 0o100000
            }
        self.init(
            inode: item.inode, mode: type | 0o644, size: item.changed == 0 ? -1 : Int64(item.size),
            modified: item.modified, changed: item.changed)
    }
}
