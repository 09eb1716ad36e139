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
/// Programs' requests arrive as verbs (`Volume+Names`, `Volume+Writing`) on the threads that serve
/// them: each does its system calls in the tree, moves aside what would be lost, notes an event and
/// returns. The recorder, one thread in the background, turns events into documents and versions.
/// Readers (`Volume+History`) wait until it has caught up.
package final class Volume: Sendable {
    /// The working tree's root, opened with O_PATH.
    package let root: Int32
    private let ownIdentity: Mutex<VolumeIdentity>
    package var identity: VolumeIdentity { ownIdentity.withLock { $0 } }
    let store: Store
    package let settings: Settings
    let stash: Stash
    let events: EventQueue
    package let journal: Journal
    let packs: PackStore
    let hydration: Hydration
    /// On how many devices a version is, as the hub said last.
    let holders = Hook<@Sendable (Identifier) -> Int?>()
    /// Whether programs have an inode open, as the mount knows.
    let openFiles = Hook<@Sendable (UInt64) -> Bool>()
    private let evictor = Evictor()
    let pinned = PinnedDownloads()
    let kept = KeptContents()
    let unrecorded = UnrecordedContents()
    let recentChunks = RecentChunks()
    let ignoreFile: IgnoreFile
    let incoming: Incoming
    let recorder: Recorder
    let room: Room
    /// What a daemon that was killed had noted.
    private let logged: [NotedEvent]
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
        hydration = Hydration(journal: journal, packs: packs, log: log)
        root = store.tree.raw
        let names = IgnoreFile(tree: store.tree.raw)
        stash = Stash(
            directory: store.stash.raw, firstSequence: (leftovers.last?.sequence ?? 0) + 1)
        ignoreFile = names
        incoming = Incoming(directory: store.incoming.raw)
        // Before anything new is prepared.
        let displaced = incoming.clear()
        room = Room(directory: store.directory.raw, settings: settings)
        // The recorder is made after the queue that wakes it.
        let wake = Hook<@Sendable () -> Void>()
        events = EventQueue(
            directory: store.directory.raw, last: lastEvent, onFirst: { wake.current?() })
        self.logged = logged
        recorder = Recorder(
            tree: store.tree.raw, stash: stash, journal: journal, packs: packs,
            hydration: hydration, events: events, settings: settings,
            device: Recorder.Device(id: identity.device, name: identity.deviceName), kept: kept,
            unrecorded: unrecorded, powerLoss: powerLoss, log: log, ignoreFile: names,
            leftovers: leftovers, incoming: incoming, displaced: displaced,
            reserve: store.reserve, room: room)
        self.store = store
        journal.full.set { [reserve = store.reserve] in reserve.giveUp() }
        wake.set { [weak recorder, room] in
            recorder?.wake()
            room.poke()
        }
        room.wake.set { [weak recorder] in recorder?.wake() }
    }

    /// Opens a store, or makes one. `owner` says who holds it: what a second process is told.
    ///
    /// - Throws: `.busy`, `.damaged`, `.newer`, `.denied`, `.full`, `.notFound`: nothing was
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
        let (journal, problem) = try openJournal(
            store, mayCreate: settings.mayCreate, checked: !isClean, log: log)
        store.reserve.fillLog()
        let packs = try PackStore(
            directory: store.chunksPath, packBytesMax: Volume.packBytesMax(on: store))
        var parts = Parts(
            store: store, journal: journal, packs: packs, isJournalNew: isJournalNew,
            rebuilds: settings.rebuilds)
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
        let logged = EventLog.leftovers(in: store.directory.raw)
        let volume = Volume(
            store: store, identity: identity, settings: settings, journal: journal, packs: packs,
            leftovers: leftovers, logged: logged,
            lastEvent: try Recorder.lastSequence(journal, logged),
            powerLoss: try PowerLoss.last(journal, wasClosed: isClean, settings.clocks), log: log)
        if let problem { volume.recorder.tell("healed journal", problem) }
        if !rebuilt.isEmpty { volume.recorder.tell("parts", rebuilt.joined(separator: " ")) }
        return volume
    }

    /// On a small disk packs are small, so that there is room to rewrite one.
    private static func packBytesMax(on store: Store) -> UInt64 {
        guard let space = DiskSpace(of: store.directory.raw) else {
            return PackStore.Limits.packBytes
        }
        return min(PackStore.Limits.packBytes, max(4 << 20, UInt64(space.total / 64)))
    }

    /// Does what takes so many bytes of the disk. When it is refused for want of space it is tried
    /// again once old contents have given way, unless nothing can. Blocks then: for a moment where
    /// the caller serves all requests, else (`mayBlock`) for as long as freeing space may take.
    package func withRoom<Result>(
        for bytes: Int64 = 0, mayBlock: Bool, _ body: () throws(Errno) -> Result
    ) throws(Errno) -> Result {
        let patience = mayBlock ? settings.roomSecondsParked : settings.roomSeconds
        let deadline = cl_clock_monotonic_ns() + Timestamp.span(seconds: patience)
        // What was freed for it others may have taken.
        for _ in 0..<Volume.roomTriesMax {
            do throws(Errno) { return try body() } catch {
                guard error == .noSpace, room.make(bytes, until: deadline) else { throw error }
            }
        }
        return try body()
    }

    private static let roomTriesMax = 8

    /// Bytes that would give way to a program that needs space, as they were counted last: somewhat
    /// late, for counting takes reading the journal.
    package var freeableBytes: Int64 {
        // A label or the hub may have changed it.
        if !recorder.freeable.isCurrent(at: journal.transactionCount) { recorder.wake() }
        return recorder.freeable.bytes
    }

    /// Whether the disk is so full that writes had better pass through the process.
    package var isTight: Bool { room.isTight }

    /// Starts the recorder, which first compares the tree with the journal while requests are
    /// served already.
    package func start() {
        recorder.destroyed.set { [weak self] key in
            self?.hydration.pool.run { [weak self] in self?.showLastVersion(ofDestroyed: key) }
        }
        recorder.start(logged)
        evictor.start(self)
        pinned.start(self)
        room.start()
    }

    /// From now on no question waits for the recorder, and nothing long goes on: `stop` follows
    /// when those who serve programs have ended.
    package func prepareToStop() { recorder.prepareToStop() }

    /// Records what can be recorded quickly and closes the journal.
    package func stop() {
        evictor.stop()
        pinned.stop()
        room.stop()
        hydration.close()
        recorder.stop()
        store.reserve.giveUpIfFull()
        do throws(VolumeError) {
            _ = try journal.checkpoint()
            try journal.close()
            store.reserve.keepRest()
            // Where something was wrong, the next opening looks at all of the journal. What is not
            // recorded may not be on the disk either.
            let isRecorded = recorder.signal.look {
                recorder.report.problems.isEmpty && recorder.report.works == 0
            }
            let isInOrder = isRecorded && events.waiting.count == 0
            if isInOrder { store.setCleanMark() }
        } catch {
            log.error("The journal could not be closed in order: \(error)")
        }
    }

    /// The recorder must not outlive the descriptors that it works with.
    deinit {
        evictor.stop()
        pinned.stop()
        room.stop()
        recorder.abandon()
    }

    func isKept(_ trace: Trace) -> Bool { kept.contains(trace) }

    /// Whether that name is a package by its extension.
    package static func isPackage(name: Name) -> Bool {
        packageExtensions.contains(String(decoding: name.fileExtension, as: UTF8.self))
    }

    /// A directory whose files are documents of their own, with versions of their own, while what
    /// changes in one turn travels together: it is never seen in halves (Rows.md, A12.8).
    package static func isWeakPackage(name: Name) -> Bool {
        name.fileExtension.elementsEqual("weakpkg".utf8)
    }

    /// The outermost one that something lies in.
    package static func weakPackage(of path: [Name]) -> [Name]? {
        path.dropLast().firstIndex(where: isWeakPackage).map { Array(path[...$0]) }
    }

    /// Directories that programs show as one document.
    private static let packageExtensions: Set<String> = [
        "app", "band", "bundle", "concord", "fcpbundle", "framework", "graffle", "key", "logicx",
        "notepkg", "numbers", "oo3", "pages", "photoslibrary", "pkg", "playground", "rtfd",
        "scriv", "sparsebundle", "textbundle", "xcdatamodeld", "xcodeproj",
    ]
}

extension Volume {
    /// This store is another device from now on.
    package func become(_ device: Identifier) throws(VolumeError) {
        try perform { t in try t.set("device", to: device.description) }
        ownIdentity.withLock { $0.device = device }
    }
}

/// Who a volume and this device are.
package struct VolumeIdentity: Hashable, Sendable {
    package var volume: Identifier
    package var device: Identifier
    package var deviceName: String
    package var name: String
    /// The store's path.
    package var store: String

    /// Reads it from the journal, or makes it up for a new one.
    init(_ journal: Journal, store: String, name: String?) throws(VolumeError) {
        self.store = store
        let host = Volume.hostName
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
}

extension Volume {
    /// This machine's name without its domain.
    static var hostName: String {
        var buffer = [CChar](repeating: 0, count: 256)
        guard gethostname(&buffer, buffer.count - 1) == 0 else { return "device" }
        let text = buffer.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
        return text.split(separator: ".").first.map(String.init) ?? "device"
    }
}
