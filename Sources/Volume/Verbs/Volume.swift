import CLinux
import ChunkStore
import Glibc
import Journal
import Logging
import Model
import Synchronization
import SystemCalls

/// One device's volume: a working tree of plain files, and the history of every document in it.
///
/// Programs' requests arrive as verbs of `names` and `writing` on the threads that serve them. Each
/// verb moves aside what would be lost, does its system calls in the tree, appends an event and
/// returns. The recorder, one background thread, turns events into documents and versions. Readers,
/// such as `history`, wait until it has caught up.
package final class Volume: Sendable {
    /// The working tree's root, opened with O_PATH.
    package let root: Int32
    private let ownIdentity: Mutex<VolumeIdentity>
    package var identity: VolumeIdentity { ownIdentity.withLock { $0 } }
    let store: Store
    package let settings: Settings
    package let journal: Journal
    package let readOnly = ReadOnlyFlag()
    package let recorder: Recorder

    // What serves the requests of programs.
    package let names: TreeNames
    package let writing: FileWriting
    package let events: EventQueue
    package let hydration: Hydration
    package let oldContents: OldContents
    package let openContents: OpenContents
    package let openDocuments: OpenDocuments
    package let ignoreFile: IgnoreFile
    package let room: Room
    /// Tells whether programs have an inode open; set by the mount.
    package let openFiles = CallbackSlot<@Sendable (UInt64) -> Bool>()
    /// Called with the inode of a file whose contents the volume itself has changed; set by the
    /// mount, which drops what the kernel has cached of it.
    package let changedFiles = CallbackSlot<@Sendable (UInt64) -> Void>()

    // Documents and their versions.
    package let items: ItemLookup
    package let states: DocumentStates
    package let safety: DocumentSafety
    package let history: VersionHistory
    package let versions: VersionReader
    package let conflicts: ConflictVersions
    package let settlements: Settlements
    package let replacer: ContentReplacer
    package let importer: VersionImporter
    package let retention: VersionRetention
    package let sessions: SessionHistory
    package let past: PastTree

    // Changes from the hub, and contents on demand.
    package let scan: TreeScan
    package let arrivals: Arrivals
    package let downloads: Downloads
    package let eviction: Eviction

    let stash: Stash
    let packs: PackStore
    let incoming: Incoming
    let pinned = PinnedDownloads()
    private let evictor = Evictor()
    /// The events that a killed daemon has left.
    let logged: [NotedEvent]
    let log: Logger

    private init(
        store: Store, identity: VolumeIdentity, settings: Settings, journal: Journal,
        packs: PackStore, leftovers: [Stash.Entry], logged: [NotedEvent], lastEvent: UInt64,
        powerLoss: PowerLoss?, log: Logger
    ) {
        self.log = log
        ownIdentity = Mutex(identity)
        self.settings = settings
        self.journal = journal
        self.packs = packs
        self.store = store
        self.logged = logged
        let tree = store.tree.raw
        root = tree
        hydration = Hydration(tree: tree, journal: journal, packs: packs, log: log)
        stash = Stash(
            directory: store.stash.raw, firstSequence: (leftovers.last?.sequence ?? 0) + 1)
        ignoreFile = IgnoreFile(tree: tree)
        incoming = Incoming(directory: store.incoming.raw)
        // The directory must be cleared before anything new is prepared.
        let displaced = incoming.clear()
        room = Room(directory: store.directory.raw, settings: settings)
        events = EventQueue(directory: store.directory.raw, last: lastEvent)
        let (kept, unrecorded) = (KeptContents(), UnrecordedContents())
        recorder = Recorder(
            tree: tree, stash: stash, journal: journal, packs: packs,
            hydration: hydration, events: events, settings: settings,
            device: RecordingDevice(
                id: identity.device, name: identity.deviceName, account: nil), kept: kept,
            unrecorded: unrecorded, powerLoss: powerLoss, log: log, ignoreFile: ignoreFile,
            leftovers: leftovers, incoming: incoming, displaced: displaced,
            reserve: store.reserve, room: room)
        openContents = recorder.writer.state.unfinished.contents
        names = TreeNames(stash: stash, events: events, reserve: store.reserve, room: room)
        oldContents = OldContents(
            stash: stash, events: events, unrecorded: unrecorded, reserve: store.reserve,
            room: room, recorder: recorder)
        writing = FileWriting(
            stash: stash, events: events, kept: kept, unrecorded: unrecorded,
            openContents: openContents, oldContents: oldContents,
            copiedSizeMax: settings.copiedSizeMax)
        items = ItemLookup(tree: tree, journal: journal, recorder: recorder, ignoreFile: ignoreFile)
        openDocuments = OpenDocuments(items: items, contents: openContents)
        safety = DocumentSafety(items: items)
        states = DocumentStates(items: items, safety: safety, hydration: hydration)
        history = VersionHistory(items: items, states: states)
        versions = VersionReader(items: items, stash: stash, packs: packs, hydration: hydration)
        conflicts = ConflictVersions(history: history, versions: versions)
        arrivals = Arrivals(items: items, incoming: incoming)
        replacer = ContentReplacer(
            history: history, versions: versions, conflicts: conflicts, arrivals: arrivals)
        settlements = Settlements(
            history: history, versions: versions, conflicts: conflicts, replacer: replacer)
        importer = VersionImporter(items: items)
        retention = VersionRetention(items: items)
        sessions = SessionHistory(items: items)
        past = PastTree(items: items)
        scan = TreeScan(recorder: recorder)
        downloads = Downloads(items: items, hydration: hydration, room: room, pinned: pinned)
        eviction = Eviction(items: items, hydration: hydration, openFiles: openFiles)
        connect()
    }

    private func connect() {
        journal.full.set { [reserve = store.reserve] in reserve.giveUp() }
        events.onFirst.set { [weak recorder, room] in
            recorder?.wake()
            room.poke()
        }
        room.wake.set { [weak recorder] in recorder?.wake() }
    }

    /// Opens a store, or creates one. `owner` describes this process to a second one that tries to
    /// open it.
    ///
    /// - Throws: `.busy`, `.damaged`, `.newer`, `.denied`, `.full`, `.notFound`; nothing was
    ///   changed then.
    package static func open(
        store path: String, name: String? = nil, owner: String? = nil, settings: Settings,
        log: Logger
    ) throws(VolumeError) -> Volume {
        _ = cl_ignore_signals()
        let store = try Store(
            opening: path, mayCreate: settings.mayCreate, owner: owner ?? "process \(getpid())",
            rebuilds: settings.rebuilds)
        let isJournalNew = try store.needsJournal(rebuilds: settings.rebuilds)
        let isClean = store.takeCleanMark()
        let (journal, problem) = try JournalRepair(store: store, log: log).open(
            mayCreate: settings.mayCreate, checked: !isClean)
        store.reserve.fillLog()
        let packs = try PackStore(
            directory: store.chunksPath, packBytesMax: Volume.packBytesMax(on: store))
        let logged = EventLog.leftovers(in: store.directory.raw)
        var parts = Parts(
            store: store, journal: journal, packs: packs, logged: logged,
            isJournalNew: isJournalNew, rebuilds: settings.rebuilds)
        let rebuilt = settings.mayCreate ? try parts.join() : []
        let identity = try VolumeIdentity(journal, store: path, name: name)
        let stash = Stash(directory: store.stash.raw, firstSequence: 0)
        let leftovers: [Stash.Entry]
        do throws(Errno) {
            try stash.removeUnfinished()
            leftovers = try stash.entries()
        } catch {
            throw VolumeError(.system, "The stash of \(path) cannot be read: \(error).")
        }
        let volume = Volume(
            store: store, identity: identity, settings: settings, journal: journal, packs: packs,
            leftovers: leftovers, logged: logged,
            lastEvent: try EventProcessor.lastSequence(journal, logged),
            powerLoss: try PowerLoss.last(
                journal, wasClosed: isClean, opened: settings.clocks.files(store.opened),
                settings.clocks, OpenMarks(directory: store.stash.raw)),
            log: log)
        if let problem { volume.recorder.reports.tell("healed journal", problem) }
        if !rebuilt.isEmpty {
            volume.recorder.reports.tell("parts", rebuilt.joined(separator: " "))
        }
        return volume
    }

    /// The size of packs. It is small on a small disk, so that there is room to rewrite a pack.
    private static func packBytesMax(on store: Store) -> UInt64 {
        guard let space = DiskSpace(of: store.directory.raw) else {
            return PackStore.Limits.packBytes
        }
        return min(PackStore.Limits.packBytes, max(4 << 20, UInt64(space.total / 64)))
    }

    /// The bytes that can be removed for programs that need space, as last measured. The number may
    /// be somewhat old, because measuring requires reading the journal.
    package var freeableBytes: Int64 {
        // A label or a confirmation by the hub may have changed it.
        if !recorder.freeable.isCurrent(at: journal.transactionCount) { recorder.wake() }
        return recorder.freeable.bytes
    }

    /// Counters that only grow, for tests of costs.
    package var statistics: [String: Int] {
        [
            "transactions": journal.transactionCount, "chunkReads": packs.readCount,
            "events": Int(events.total),
        ]
    }

    /// Starts the recorder. It compares the tree with the journal first, while requests are served
    /// already.
    package func start() {
        recorder.notShown.set { [weak self] key in
            self?.hydration.pool.run { [weak self] in
                if let self { LastVersionDisplay(volume: self).show(key) }
            }
        }
        recorder.start(logged)
        evictor.start(self)
        pinned.start(self)
        room.start()
    }

    /// From now on no caller waits for the recorder, and long work ends. Call `stop` when the
    /// threads that serve programs have ended.
    package func prepareToStop() {
        // Before the room refuses space without a search: a program must not give up its old
        // contents because of such a refusal.
        recorder.prepareToStop()
        room.endWaiting()
        stash.endCopying()
    }

    /// Records what can be recorded quickly and closes the journal.
    package func stop() {
        evictor.stop()
        pinned.stop()
        room.stop()
        hydration.close()
        recorder.stop()
        store.reserve.giveUpIfFull()
        if settings.mayCreate { markParts() }
        do throws(VolumeError) {
            _ = try journal.checkpoint()
            try journal.close()
            store.reserve.keepRest()
            // After problems, the next opening checks the whole journal. Contents that are not
            // recorded may not be on the disk either.
            let report = recorder.reports.report
            let isRecorded = report.problems.isEmpty && report.pending == 0
            let isInOrder = isRecorded && events.waiting.count == 0
            if isInOrder { store.setCleanMark() }
        } catch {
            log.error("The journal cannot be closed properly: \(error)")
        }
    }

    private func markParts() {
        do throws(VolumeError) {
            try PartMarks(tree: root, journal: journal, packs: packs).advance()
        } catch {
            log.error("The parts of the store cannot be marked: \(error)")
        }
    }

    /// The recorder must not outlive the descriptors that it works with.
    deinit {
        evictor.stop()
        pinned.stop()
        room.stop()
        recorder.abandon()
    }

    /// Whether a directory with this name is a package by its extension.
    package static func isPackage(name: Name) -> Bool {
        packageExtensions.contains(String(decoding: name.fileExtension, as: UTF8.self))
    }

    /// Whether a directory with this name is a weak package: its files are documents with versions
    /// of their own, but changes under one claim are transferred together, so other devices never
    /// see half of them (Rows.md, A12.8).
    package static func isWeakPackage(name: Name) -> Bool {
        name.fileExtension.elementsEqual("weakpkg".utf8)
    }

    /// The outermost weak package that contains the path.
    package static func weakPackage(of path: [Name]) -> [Name]? {
        path.dropLast().firstIndex(where: isWeakPackage).map { Array(path[...$0]) }
    }

    /// Extensions of directories that programs show as one document.
    private static let packageExtensions: Set<String> = [
        "app", "band", "bundle", "concord", "fcpbundle", "framework", "graffle", "key", "logicx",
        "notepkg", "numbers", "oo3", "pages", "photoslibrary", "pkg", "playground", "rtfd",
        "scriv", "sparsebundle", "textbundle", "xcdatamodeld", "xcodeproj",
    ]
}

extension Volume {
    /// Gives this store another device id.
    package func become(_ device: Identifier) throws(VolumeError) {
        try recorder.perform { _, t in try t.set("device", to: device.description) }
        ownIdentity.withLock { $0.device = device }
    }
}

/// The identities of a volume and of this device.
package struct VolumeIdentity: Hashable, Sendable {
    package var volume: Identifier
    package var device: Identifier
    package var deviceName: String
    package var name: String
    /// The store's path.
    package var store: String

    /// Reads the identities from the journal, or creates them for a new one.
    init(_ journal: Journal, store: String, name: String?) throws(VolumeError) {
        self.store = store
        let host = VolumeIdentity.hostName
        let known = try journal.read { reader in
            (try reader.value("volume"), try reader.value("device"), try reader.value("name"))
        }
        let last = store.split(separator: "/").last.map(String.init) ?? "volume"
        volume = known.0.flatMap { Identifier($0) } ?? .random()
        device = known.1.flatMap { Identifier($0) } ?? .random()
        self.name = name ?? known.2 ?? last
        deviceName = host
        if known == (volume.description, device.description, self.name) { return }
        let (volume, device, named) = (volume, device, self.name)
        try journal.write { t in
            try t.set("volume", to: volume.description)
            try t.set("device", to: device.description)
            try t.set("name", to: named)
        }
    }

    /// This machine's name without its domain.
    static var hostName: String {
        var buffer = [CChar](repeating: 0, count: 256)
        guard gethostname(&buffer, buffer.count - 1) == 0 else { return "device" }
        let text = buffer.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
        return text.split(separator: ".").first.map(String.init) ?? "device"
    }
}
