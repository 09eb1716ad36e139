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
    package let identity: VolumeIdentity
    let store: Store
    let settings: Settings
    let stash: Stash
    let events: EventQueue
    let journal: Journal
    let packs: PackStore
    let kept = KeptContents()
    let recentChunks = RecentChunks()
    let ignoreFile: IgnoreFile
    let recorder: Recorder
    /// What a daemon that was killed had noted.
    private let logged: [NotedEvent]
    let log: Logger

    private init(
        store: Store, identity: VolumeIdentity, settings: Settings, journal: Journal,
        packs: PackStore, leftovers: [Stash.Entry], logged: [NotedEvent], lastEvent: UInt64,
        log: Logger
    ) {
        self.log = log
        self.identity = identity
        self.settings = settings
        self.journal = journal
        self.packs = packs
        root = store.tree.raw
        let names = IgnoreFile(tree: store.tree.raw)
        stash = Stash(
            directory: store.stash.raw, firstSequence: (leftovers.last?.sequence ?? 0) + 1)
        ignoreFile = names
        let wake = WakeUp()
        events = EventQueue(
            directory: store.directory.raw, last: lastEvent, onFirst: { wake.call() })
        self.logged = logged
        recorder = Recorder(
            tree: store.tree.raw, stash: stash, journal: journal, packs: packs, events: events,
            settings: settings,
            device: Recorder.Device(id: identity.device, name: identity.deviceName), kept: kept,
            log: log, ignoreFile: names, leftovers: leftovers)
        self.store = store
        wake.set { [weak recorder] in recorder?.wake() }
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
            opening: path, mayCreate: settings.mayCreate, owner: owner ?? "process \(getpid())")
        let isClean = store.takeCleanMark()
        let (journal, problem) = try openJournal(
            store, mayCreate: settings.mayCreate, checked: !isClean, log: log)
        let packs = try PackStore(directory: store.chunksPath)
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
            lastEvent: try Recorder.lastSequence(journal, logged), log: log)
        if let problem { volume.recorder.tell("healed journal", problem) }
        return volume
    }

    /// Starts the recorder, which first compares the tree with the journal while requests are
    /// served already.
    package func start() { recorder.start(logged) }

    /// Records what can be recorded and closes the journal.
    package func stop() {
        recorder.stop()
        do throws(VolumeError) {
            _ = try journal.checkpoint()
            try journal.close()
            // Where something was wrong, the next opening looks at all of the journal.
            if recorder.signal.look({ recorder.report.problems.isEmpty }) { store.setCleanMark() }
        } catch {
            log.error("The journal could not be closed in order: \(error)")
        }
    }

    /// Calls `body` with each new conflict version, and where its document is; on the recorder's
    /// thread.
    package func onConflict(_ body: @escaping @Sendable ([Name], Identifier) -> Void) {
        recorder.conflictsHeard.withLock { $0 = body }
    }

    /// The recorder must not outlive the descriptors that it works with.
    deinit { recorder.abandon() }

    func isKept(_ trace: Trace) -> Bool { kept.contains(trace) }

    /// Whether that name is a package by its extension.
    package static func isPackage(name: Name) -> Bool {
        packageExtensions.contains(String(decoding: name.fileExtension, as: UTF8.self))
    }

    /// Directories that programs show as one document.
    private static let packageExtensions: Set<String> = [
        "app", "band", "bundle", "concord", "fcpbundle", "framework", "graffle", "key", "logicx",
        "numbers", "oo3", "pages", "photoslibrary", "pkg", "playground", "rtfd", "scriv",
        "sparsebundle", "textbundle", "xcdatamodeld", "xcodeproj",
    ]
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

/// Lets the queue wake a recorder that is made after it.
private final class WakeUp: Sendable {
    private let body = Mutex<(@Sendable () -> Void)?>(nil)
    func set(_ body: @escaping @Sendable () -> Void) { self.body.withLock { $0 = body } }
    func call() { body.withLock { $0 }?() }
}
