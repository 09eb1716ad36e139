import CLinux
import Journal
import Logging
import Model
import SystemCalls

/// Processes the events of programs, in the order in which they happened. Only the recorder's
/// thread uses it.
final class EventProcessor {
    let writer: JournalWriter
    private let index: DocumentIndex
    let roles: DirectoryRoles
    let copiedStore: CopiedStore
    private let renames: RenameProcessor
    private let attributes: ItemAttributes
    private let nameChanges: NameChangeLog
    let events: EventQueue
    let settings: Settings
    private let debounce: Debounce
    private let pauses: WorkPauses
    private let closing: ClosingTime
    let reports: RecorderReports
    private let log: Logger
    private let lostSaves: LostSaves?
    /// Events that are not processed yet, in their order.
    var backlog: [NotedEvent] = []

    init(
        writer: JournalWriter, index: DocumentIndex, adopter: ArrivalAdopter,
        attributes: ItemAttributes, versionMaker: VersionMaker, owners: TreeOwners,
        events: EventQueue, settings: Settings, debounce: Debounce, pauses: WorkPauses,
        closing: ClosingTime, reports: RecorderReports, log: Logger,
        lostSaves: LostSaves?
    ) {
        self.writer = writer
        self.index = index
        roles = index.roles
        copiedStore = CopiedStore(writer: writer, roles: index.roles)
        self.attributes = attributes
        nameChanges = NameChangeLog(writer: writer, versionMaker: versionMaker)
        renames = RenameProcessor(
            writer: writer, index: index, roles: index.roles, adopter: adopter,
            attributes: attributes, nameChanges: nameChanges, owners: owners,
            incoming: adopter.incoming)
        self.events = events
        self.settings = settings
        self.debounce = debounce
        self.pauses = pauses
        self.closing = closing
        self.reports = reports
        self.log = log
        self.lostSaves = lostSaves
    }

    /// How many events one transaction processes; its changes are kept in memory until it ends.
    private static let eventsMax = 10_000

    /// Takes the events when the volume has been quiet for a moment, or when they have waited for
    /// long, and processes them. During a scan they wait, because directories may not be known yet.
    func processEvents(now isUrgent: Bool) {
        guard writer.state.scan == nil, !pauses.isPaused else { return }
        let waiting = events.waiting
        let now = cl_clock_monotonic_ns()
        if waiting.count > 0,
            isUrgent || waiting.count > 50_000
                || now - waiting.newest >= Timestamp.span(seconds: debounce.settleSeconds)
                || now - waiting.oldest >= Timestamp.span(seconds: debounce.patienceSeconds)
        {
            backlog += events.takeAll()
        }
        applyBacklog()
    }

    /// Processes all events. Returns whether none is left.
    func processAll() -> Bool {
        processEvents(now: true)
        return backlog.isEmpty
    }

    /// Processes events that came while contents were read. Returns false if recording must wait,
    /// because not all of them are processed: what was read may be newer than they are.
    func processNews() -> Bool {
        if events.waiting.count > 0 { backlog += events.takeAll() }
        guard !backlog.isEmpty else { return true }
        while !backlog.isEmpty, !pauses.isPaused, writer.state.scan == nil, !closing.isOverdue {
            applyBacklog()
        }
        return backlog.isEmpty && !pauses.isPaused && writer.state.scan == nil
    }

    /// Processes events in their order, in one transaction, until one of them requires a scan or
    /// the time for the last work is over. The remaining events stay in the log.
    func applyBacklog() {
        guard !backlog.isEmpty, writer.state.scan == nil, !closing.isOverdue else { return }
        var done = 0
        do {
            try writer.transact { t in
                for noted in backlog.prefix(EventProcessor.eventsMax) where !closing.isOverdue {
                    try apply(noted, t)
                    done += 1
                    if writer.state.scan != nil { break }
                }
                try noteEvents(upTo: done > 0 ? backlog[done - 1].sequence : nil, t)
            }
        } catch {
            failed(error)
            return
        }
        backlog.removeFirst(done)
        writer.removeUnneededStashFiles()
        if backlog.isEmpty { rescanWhatWasLeftToEvents() }
        reports.untell("journal")
        forgetOldTombstones()
    }

    /// All events are processed: what a scan has left to them is compared again.
    private func rescanWhatWasLeftToEvents() {
        index.isReplaying = false
        events.forgetTaken()
        for key in writer.state.directoriesToRescan { writer.rescan(key) }
        writer.state.directoriesToRescan = []
        writer.rescan(writer.state.namesToRescan)
        writer.state.namesToRescan = []
        writer.state.foundEarly = []
    }

    /// Handles a failed transaction. A full disk is waited for. Any other failure must not block
    /// all later events: the event at fault is skipped, and the whole tree is compared with the
    /// journal again.
    private func failed(_ error: VolumeError) {
        reports.tell("journal", "Changes cannot be written to the journal: \(error)")
        guard error.code != .full, error.code != .busy else {
            pauses.pause(seconds: settings.retrySeconds)
            return
        }
        while let noted = backlog.first, writer.state.scan == nil {
            do {
                try writer.transact { t in
                    try apply(noted, t)
                    try noteEvents(upTo: noted.sequence, t)
                }
            } catch {
                guard error.code != .full, error.code != .busy else { return }
                log.error(
                    "An event cannot be processed and is skipped: \(error) \(noted.event)")
                writer.state.locations.removeAll()
                writer.state.scan = .whole
            }
            backlog.removeFirst()
        }
        writer.removeUnneededStashFiles()
        if backlog.isEmpty { rescanWhatWasLeftToEvents() }
    }

    private func forgetOldTombstones() {
        guard writer.state.tombstones.count > 1_000 else { return }
        let horizon = cl_clock_realtime_ns() - Timestamp.span(seconds: settings.tombstoneSeconds)
        writer.state.tombstones.removeAll { $1.time <= horizon }
    }

    private func apply(_ noted: NotedEvent, _ t: Transaction) throws {
        writer.eventTime = noted.time
        if noted.event.changesNames { writer.describesNames = true }
        index.isBeforeFirstLook = index.firstLookEnd.map { noted.sequence <= $0 } ?? true
        switch noted.event {
        case .created(let spot, let snapshot, let isWriting, let actor):
            if !index.isReplaying { try lostSaves?.remove(snapshot.inode, t) }
            try made(spot, snapshot, isLink: false, by: actor, t)
            if isWriting { try noteWriter(actor, of: snapshot.inode, t) }
            // After a crash the creator has no handle any more.
            guard isWriting, !index.isReplaying else { break }
            for item in try documents(of: snapshot.inode, t) {
                writer.state.pending.touch(item.key) { $0.isWriting = true }
            }
            try opened(snapshot.inode, t)
        case .linked(let spot, let snapshot, let actor):
            try made(spot, snapshot, isLink: true, by: actor, t)
        case .removed(let spot, let snapshot, let stash, let isUnsaved, let actor):
            // After a crash its release does not come any more, so it counts as saved.
            try removed(
                spot, snapshot, stash: stash, isUnsaved: isUnsaved && !index.isReplaying,
                by: actor, t)
        case .renamed(
            let from, let to, let snapshot, let replaced, let stash, let unseen, let actor):
            try renames.renamed(
                Move(
                    from: from, to: to, snapshot: snapshot, replaced: replaced, stash: stash,
                    unseen: unseen, actor: actor), t)
        case .exchanged(let a, let traceA, let b, let traceB, let actor):
            try renames.exchanged(a, traceA, b, traceB, by: actor, t)
        case .opened(let inode): try opened(inode, t)
        case .closed(let inode): writer.state.unfinished.end(inode)
        case .secured(let inode, let stash, let actor):
            try secured(inode, stash: stash, t)
            try noteWriter(actor, of: inode, t)
            try opened(inode, t)
        case .saved(let inode, let isLate, let actor):
            try saved(inode, isLate: isLate, by: actor, t)
        case .untouched(let inode):
            writer.state.unfinished.end(inode)
            for item in try t.items(inode: inode) where writer.state.pending[item.key] != nil {
                untouched(item, inode)
            }
            if let package = writer.state.packaged[inode] { index.touchPackage(package) }
        case .gone(let inode):
            writer.state.unfinished.end(inode)
            writer.state.untrackedFiles[inode] = nil
            for dependent in writer.state.pending.dependents[inode] ?? [] {
                writer.state.pending.touch(dependent) {
                    $0.priorContents.removeAll { $0.entry == nil && $0.inode == inode }
                }
            }
        case .packaged(let inode):
            try index.reclassify(inode, t)
        case .attributes(let inode, let protection):
            try attributes.changed(inode, protection, t)
        case .swapped(let a, let b):
            try renames.swapped(a, b, t)
        case .unseen(let inode, let base):
            for item in try documents(of: inode, t) {
                try index.replaceUnseen(item, madeFrom: base, t)
            }
        }
    }

    private func made(
        _ spot: DirectoryEntry, _ snapshot: FileSnapshot, isLink: Bool, by actor: Actor,
        _ t: Transaction
    ) throws {
        switch try roles.location(of: spot.directory, t) {
        case .unknown: break
        case .ignored(let key, let path):
            if snapshot.isDirectory {
                writer.state.locations[snapshot.inode] = .ignored(key, path + [spot.name])
            }
        case .package(let key, let path):
            index.enter(package: key, path + [spot.name], snapshot)
        case .directory(let parent):
            if !snapshot.isDirectory, try roles.isLocal(spot.name, in: parent, t) {
                break
            }
            let save = PendingDocument.Save(actor: actor, time: writer.eventTime)
            if let tombstone = index.takeTombstone(spot, actor), snapshot.isFile,
                let item = try t.item(tombstone.item), item.kind == .file
            {
                try index.continueDocument(
                    item, to: parent, spot.name, snapshot, tombstone: tombstone,
                    save: isLink ? save : nil, t)
                break
            }
            let key = try index.insert(parent, spot.name, snapshot, t)
            if isLink, snapshot.isFile { writer.state.pending.touch(key) { $0.save = save } }
        }
        if isLink { try index.rememberUntrackedFile(snapshot, to: spot, t) }
    }

    private func removed(
        _ spot: DirectoryEntry, _ snapshot: FileSnapshot, stash: String?, isUnsaved: Bool,
        by actor: Actor, _ t: Transaction
    ) throws {
        let place = try roles.location(of: spot.directory, t)
        if snapshot.isDirectory { writer.state.locations[snapshot.inode] = nil }
        switch place {
        case .ignored: try index.transferContentOfNonDocument(stash, inode: snapshot.inode, t)
        case .unknown: try index.transferUnknownContent(stash, inode: snapshot.inode)
        case .package(let key, _):
            writer.state.packaged[snapshot.inode] = nil
            try index.transferContent(
                stash, inode: snapshot.inode, to: [], package: isUnsaved ? nil : key)
            index.touchPackage(key, by: actor)
        case .directory(let parent):
            guard let item = try t.item(parent: parent, name: spot.name) else {
                try removedUntracked(spot, snapshot, stash: stash, in: parent, t)
                return
            }
            if item.kind == .file {
                writer.state.tombstones[spot] = Tombstone(
                    item: item.key, actor: actor, time: writer.eventTime, snapshot: snapshot)
            }
            if let stash, !settings.has(.losesRemovedContent) {
                try index.transferContent(
                    stash, inode: snapshot.inode, to: [item], isUnsaved: isUnsaved)
            } else if index.isSaved(item), !settings.has(.forgetsOtherLinks) {
                // Its bytes are still in the tree, under another hard link.
                index.need(item, snapshot)
            }
            try index.removeItem(item, t)
            try nameChanges.noteRemoved(item, by: actor, t)
        }
    }

    /// Handles a removed file that is no item. Before the first scan it may be in the directory
    /// that a package had until a program replaced it: then the package's files are not known yet,
    /// and this one may hold the only bytes of its version.
    private func removedUntracked(
        _ spot: DirectoryEntry, _ snapshot: FileSnapshot, stash: String?, in parent: Int64,
        _ t: Transaction
    ) throws {
        guard index.isBeforeFirstLook, let entry = stash.flatMap(Stash.parse),
            try !roles.isLocal(spot.name, in: parent, t)
        else { return try index.transferContentOfNonDocument(stash, inode: snapshot.inode, t) }
        let package = writer.state.movedParts.values.first { _, parts in
            parts.contains { $0.place == .directory(parent) }
        }?.key
        guard let package else {
            return try index.transferUnknownContent(stash, inode: snapshot.inode)
        }
        try index.transferContent(stash, inode: snapshot.inode, to: [])
        writer.state.pending.attach(entry, to: package, isRecovered: true)
    }

    /// The documents with this inode, as far as the events until now say.
    private func documents(of inode: UInt64, _ t: Reader) throws -> [Item] {
        let all = try t.items(inode: inode).filter { $0.kind == .file }
        guard all.count > 1, !writer.state.foundEarly.isEmpty else { return all }
        let known = all.filter { !writer.state.foundEarly.contains($0.key) }
        return known.isEmpty ? all : known
    }

    private func secured(_ inode: UInt64, stash: String, _ t: Transaction) throws {
        let items = try documents(of: inode, t)
        securedAside(inode, stash)
        if settings.has(.losesCopyMadeAtOpen) {
            try index.transferContent(stash, inode: inode, to: [])
        } else if items.isEmpty, writer.state.packaged[inode] == nil {
            try index.transferUnknownContent(stash, inode: inode)
        } else {
            try index.transferContent(
                stash, inode: inode, to: items, package: writer.state.packaged[inode])
        }
        for item in items { writer.state.pending.touch(item.key) { $0.isWriting = true } }
    }

    /// A program had a file open for writing when the daemon was killed. Its save is not in the
    /// log: the daemon may have been killed between the program's close and the kernel's release of
    /// the file. What the file holds is this program's work.
    private func noteWriter(_ actor: Actor, of inode: UInt64, _ t: Reader) throws {
        guard index.isReplaying else { return }
        for item in try documents(of: inode, t) {
            writer.state.pending.touch(item.key) {
                $0.author = PendingDocument.Save(actor: actor, time: writer.eventTime)
            }
        }
    }

    /// A program has opened a file for writing. After a crash no program has it open any more, so
    /// events of before the crash are ignored.
    private func opened(_ inode: UInt64, _ t: Reader) throws {
        guard !index.isReplaying else { return }
        let item = try t.items(inode: inode).first { $0.kind == .file }?.key
        guard let item = item ?? writer.state.packaged[inode] else { return }
        writer.state.unfinished.begin(inode, of: item)
    }

    /// The file was opened for writing and closed without a change, so the copy made at open equals
    /// it.
    private func untouched(_ item: Item, _ inode: UInt64) {
        guard !settings.has(.ignoresUntouched) else { return }
        writer.state.pending.touch(item.key) { $0.takeBackCopy(of: inode) }
    }

    /// A program writes to a file that was just moved to the stash. The copy of its contents until
    /// now comes before it.
    private func securedAside(_ inode: UInt64, _ stash: String) {
        guard let entry = Stash.parse(stash) else { return }
        for owner in writer.state.pending.displaced[inode] ?? [] {
            writer.state.pending.touch(owner) { $0.insert(copy: entry, ofDisplaced: inode) }
        }
    }

    private func saved(
        _ inode: UInt64, isLate: Bool, by actor: Actor, _ t: Transaction
    ) throws {
        writer.state.unfinished.end(inode)
        // An event of before the stop says nothing about what has reached the disk.
        if !index.isReplaying { try lostSaves?.remove(inode, t) }
        let items = try documents(of: inode, t)
        for item in items { try index.noteSave(item, by: actor, t) }
        if let package = writer.state.packaged[inode] { index.touchPackage(package, by: actor) }
        guard items.isEmpty, let owners = writer.state.pending.displaced[inode] else { return }
        let save = PendingDocument.Save(actor: actor, time: writer.eventTime)
        for owner in owners {
            let isLate = isLate && !settings.has(.ignoresLateSaves)
            writer.state.pending.touch(owner) { $0.note(save, ofDisplaced: inode, isLate: isLate) }
        }
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
