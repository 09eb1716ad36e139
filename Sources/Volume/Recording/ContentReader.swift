import CLinux
import ChunkStore
import Glibc
import Journal
import Model
import SystemCalls

/// Reads and cuts the present and prior contents of documents. Only the recorder's thread uses it.
final class ContentReader {
    let writer: JournalWriter
    let roles: DirectoryRoles
    let stash: Stash
    let tree: Int32
    let powerLoss: PowerLoss?
    let closing: ClosingTime
    let cuts: PackageCuts
    let settings: Settings
    private let large: LargeFileCutter
    let lost: LostContents
    let shortened: ShortenedFiles
    /// Called with the key of a document that can be recorded now.
    private let isReady: CallbackSlot<@Sendable (Int64) -> Void>
    /// The file that was cut last in the current batch of recordings.
    private var lastCut: (snapshot: FileSnapshot, chunks: [ChunkReference])?

    init(
        writer: JournalWriter, roles: DirectoryRoles, stash: Stash, tree: Int32,
        powerLoss: PowerLoss?, closing: ClosingTime, cuts: PackageCuts, settings: Settings,
        chunks: ChunkKeeper, notShown: CallbackSlot<@Sendable (Int64) -> Void>,
        isReady: CallbackSlot<@Sendable (Int64) -> Void>
    ) {
        self.writer = writer
        self.roles = roles
        self.stash = stash
        self.tree = tree
        self.powerLoss = powerLoss
        self.closing = closing
        self.cuts = cuts
        self.settings = settings
        large = LargeFileCutter(restFactor: settings.largeRest)
        lost = LostContents(
            writer: writer, powerLoss: powerLoss, chunks: chunks, notShown: notShown)
        shortened = ShortenedFiles(
            writer: writer, stash: stash, packs: chunks.packs, powerLoss: powerLoss)
        self.isReady = isReady
    }

    /// Whether contents were written that are not durable yet.
    private var hasWritten = false

    /// To be called after each batch of recordings.
    func endBatch() { lastCut = nil }

    /// Writes a file's contents to the disk, where they must be before they are recorded.
    func write(_ file: Int32) throws(Errno) {
        hasWritten = true
        try writer.barrier.write(file)
    }

    /// Makes durable what was written.
    func commitWritten() throws(VolumeError) {
        guard hasWritten else { return }
        try writer.noteOpenFiles()
        try writer.barrier.pass()
        hasWritten = false
    }

    /// Notes at once that a file has changed while it was synced. If a program is writing to it, a
    /// part of what it writes may be on the disk now, and the event of its open comes later. If
    /// only an attribute has changed, no event comes.
    func noteUnfinished(_ inode: UInt64, of item: Int64) throws(VolumeError) {
        try writer.transact { _ in writer.state.unfinished.noteChange(of: inode, of: item) }
    }

    /// Whether a version of the document, or a file in one if it is a package, has the contents of
    /// this file. Contents that end in blocks that were never written may be a program's own.
    func isRecorded(_ file: Int32, _ snapshot: FileSnapshot, of item: Item)
        throws(VolumeError) -> Bool
    {
        let chunks = try cutLinked(file, snapshot)
        if item.kind == .package { return try writer.files(inVersionsOf: item).contains(chunks) }
        let content = CutContent(Manifest(chunks: chunks)).digest
        return try writer.look { try $0.hasVersion(of: item.key, content: content) }
    }

    private func hotLog(of file: Int32, at path: [Name]) throws(VolumeError) -> Name? {
        guard let name = path.last else { return nil }
        let directory: Descriptor
        do throws(Errno) {
            directory = try openBeneath(path.dropLast(), from: tree, flags: O_PATH | O_DIRECTORY)
        } catch {
            if error.isMissing { return nil }
            throw VolumeError(
                .system, "The directory of \(path.shown) cannot be opened: \(error).")
        }
        return DatabaseLog.hot(beside: name, in: directory.raw, main: file)
    }

    func openLive(_ item: Item, _ work: PendingDocument, syncs: Bool) throws(VolumeError) -> Live {
        guard let path = try writer.look({ try $0.path(of: item.key) }) else { return .gone }
        let descriptor: Descriptor
        do throws(Errno) {
            descriptor = try openBeneath(path, from: tree, flags: O_RDONLY | O_NOATIME | O_NONBLOCK)
        } catch {
            if error.isMissing || error.code == ENXIO { return .gone }
            throw VolumeError(
                .system, "\(path.shown) cannot be read, so it has no new version: \(error).")
        }
        var status = stat()
        _ = cl_fstat(descriptor.raw, &status)
        let snapshot = FileSnapshot(status)
        guard snapshot.isFile, snapshot.inode == item.inode else { return .gone }
        if let mark = PlaceholderMark(of: descriptor.raw, size: snapshot.size) {
            if work.isWriting { return .busy }
            return .absent(LivePlaceholder(descriptor, mark, snapshot))
        }
        guard snapshot.size <= PackStore.Limits.contentBytes else { throw tooLarge(path) }
        // A writable mapping outlives close(2) unseen; a lease on the file shows whether there is
        // one.
        let isProbed = cl_probe_writers(descriptor.raw) == -EAGAIN
        let isHeld = (isProbed || work.isWriting) && !settings.has(.recordsWhileWriting)
        if isHeld, item.changed != 0 || !isUnchangedSinceOpen(snapshot, work) { return .busy }
        if powerLoss?.destroyed(descriptor.raw, snapshot) == true { return .destroyed(snapshot) }
        if try lost.wasEmptied(item, snapshot, work) { return .destroyed(snapshot) }
        if try lost.hasLostEnd(item, descriptor.raw, snapshot, work) {
            return .lostEnd(LostEnd(descriptor, snapshot))
        }
        if let log = try hotLog(of: descriptor.raw, at: path) { return .logged(log) }
        var cut: [ChunkReference]?
        if snapshot.size > settings.largeBytes {
            if closing.isLastWork { return .busy }
            // A caller waits for the document, so it does not pause.
            let isUrgent = work.isAwaited
            cut = try large.chunks(of: descriptor.raw, snapshot, isUrgent: isUrgent) {
                [isReady, key = item.key] in isReady.current?(key)
            }
            guard cut != nil else { return .busy }
        }
        // Contents are synced before they are recorded. With clean pages, a later store through a
        // mapping also changes the times.
        if cut == nil {
            do throws(Errno) {
                if syncs, !writer.barrier.mixesContents {
                    try descriptor.sync(dataOnly: false)
                } else {
                    try write(descriptor.raw)
                }
            } catch {
                throw VolumeError(
                    .system, "\(path.shown) cannot be synced to the disk: \(error).")
            }
        }
        let chunks: [ChunkReference]
        if let cut { chunks = cut } else { chunks = try cutLinked(descriptor.raw, snapshot) }
        guard !FileSnapshot(of: descriptor.raw).differs(from: snapshot) else {
            try noteUnfinished(snapshot.inode, of: item.key)
            return .busy
        }
        if isHeld, try !isAsOpened(descriptor.raw, chunks, snapshot, work) { return .busy }
        let manifest = Manifest(
            chunks: chunks, mode: snapshot.permissions, modified: snapshot.modified)
        let content = CutContent(manifest)
        let isUnfinished = try isUnfinished(content, snapshot, item)
        return .found(
            LiveFile(
                descriptor, snapshot, owner: status.st_uid, content, isHeld: isHeld,
                isUnfinished: isUnfinished))
    }

    private func isUnfinished(_ content: CutContent, _ snapshot: FileSnapshot, _ item: Item)
        throws(VolumeError) -> Bool
    {
        guard powerLoss?.mayBeUnfinished(snapshot) == true else {
            return try shortened.contains(snapshot, of: item) { content.manifest.fileChunks }
        }
        return try writer.look { try !$0.hasVersion(of: item.key, content: content.digest) }
    }

    /// Whether a program has opened the file for writing and has not changed it yet: office
    /// programs reopen a document as soon as they have saved it. Unrecorded contents are a save
    /// then.
    private func isUnchangedSinceOpen(_ snapshot: FileSnapshot, _ work: PendingDocument) -> Bool {
        guard snapshot.size <= settings.largeBytes, let last = work.priorContents.last,
            let entry = last.entry, entry.kind != .displaced,
            entry.inode == snapshot.inode, entry.modified == snapshot.modified
        else { return false }
        return !last.isBase && !last.becomesConflict && !last.isRecovered
    }

    /// Whether a file that a program has open had these contents when the program opened it. Its
    /// times do not show what was written within one tick of the file system's clock, so the
    /// contents are compared with those that were put into the stash at that moment.
    private func isAsOpened(
        _ file: Int32, _ chunks: [ChunkReference], _ snapshot: FileSnapshot,
        _ work: PendingDocument
    ) throws(VolumeError) -> Bool {
        guard let entry = work.priorContents.last?.entry, let old = try? stash.open(entry.file),
            FileSnapshot(of: old.raw).size == snapshot.size
        else { return false }
        var source = AnySource.file(FileContent(descriptor: old.raw))
        if entry.kind == .preImages {
            // A log without blocks says that nothing was overwritten. A clone of the file is read
            // like a log that has all blocks.
            guard holdsBlocks(old.raw) else { return true }
            let base = AnySource.file(FileContent(descriptor: file))
            source = .overlay(OverlayContent(preImages: old.raw, name: entry.file, base: base))
        }
        return try cutContent(of: source, size: UInt64(snapshot.size)) {
            (_, _) throws(VolumeError) in try closing.check()
        } == chunks
    }

    private func tooLarge(_ path: [Name]) -> VolumeError {
        VolumeError(
            .invalid,
            "\(path.shown) is larger than \(PackStore.Limits.contentBytes) bytes, so its present "
                + "contents become no version and are not sent.")
    }

    /// Cuts a file; one with several names is cut once for all documents that are recorded
    /// together.
    func cutLinked(_ file: Int32, _ snapshot: FileSnapshot) throws(VolumeError) -> [ChunkReference]
    {
        if let last = lastCut, !last.snapshot.differs(from: snapshot) { return last.chunks }
        let chunks = try cutFile(file, size: snapshot.size) { (_, _) throws(VolumeError) in
            try closing.check()
        }
        lastCut = FileSnapshot(of: file).differs(from: snapshot) ? nil : (snapshot, chunks)
        return chunks
    }
}
