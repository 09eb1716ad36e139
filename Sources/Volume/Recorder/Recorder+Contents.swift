import CLinux
import ChunkStore
import Glibc
import Journal
import Model
import SystemCalls

/// The present contents of a document in the tree, cut while no program changed them.
final class LiveFile {
    let descriptor: Descriptor
    let snapshot: FileSnapshot
    let owner: UInt32
    let cut: CutContent
    /// A program has the file open or mapped for writing and may change it at any moment, unseen.
    let isHeld: Bool

    init(
        _ descriptor: consuming Descriptor, _ snapshot: FileSnapshot, owner: UInt32,
        _ cut: CutContent,
        isHeld: Bool
    ) {
        self.descriptor = descriptor
        self.snapshot = snapshot
        self.owner = owner
        self.cut = cut
        self.isHeld = isHeld
    }

    var content: FileContent { FileContent(descriptor: descriptor.raw) }
}

/// A prior content of a document, cut into chunks.
final class CutPriorContent {
    private(set) var prior: PriorContent
    let descriptor: Descriptor
    let snapshot: FileSnapshot
    let cut: CutContent
    let source: AnySource
    /// The content through which `source` reads, kept open with it.
    private let base: CutPriorContent?

    init(
        _ prior: PriorContent, _ descriptor: consuming Descriptor, _ snapshot: FileSnapshot,
        _ source: AnySource,
        over base: CutPriorContent? = nil, chunks known: [ChunkReference]? = nil,
        like similar: SimilarContent? = nil, mayGoOn: () throws(VolumeError) -> Void
    ) throws(VolumeError) {
        self.base = base
        self.prior = prior
        self.descriptor = descriptor
        self.snapshot = snapshot
        self.source = source
        guard !prior.isBase else {
            cut = CutContent(Manifest(chunks: []))
            return
        }
        let chunks: [ChunkReference]
        if let known {
            chunks = known
        } else {
            chunks = try cutContent(of: source, size: UInt64(snapshot.size), like: similar) {
                (_, _) throws(VolumeError) in try mayGoOn()
            }
        }
        cut = CutContent(
            Manifest(chunks: chunks, mode: snapshot.permissions, modified: snapshot.modified))
    }

    var size: Int64 { snapshot.size }

    /// From now on it is no content of the document.
    func becomeBase() { prior.isBase = true }
}

/// A whole file, or pre-images over one.
indirect enum AnySource: ContentSource {
    /// The bytes no longer exist.
    case nothing
    case file(FileContent)
    case overlay(OverlayContent)
    case database(LoggedDatabase)

    func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) throws(VolumeError)
        -> Int
    {
        switch self {
        case .nothing: 0
        case .file(let file): try file.read(into: buffer, at: offset)
        case .overlay(let overlay): try overlay.read(into: buffer, at: offset)
        case .database(let database): try database.read(into: buffer, at: offset)
        }
    }

    func extent(at offset: Int64) -> ContentExtent {
        switch self {
        case .file(let file): file.extent(at: offset)
        case .overlay, .database, .nothing: .data(until: .max)
        }
    }
}

enum Live {
    case found(LiveFile)
    /// A program has it open or mapped for writing, or changed it while it was read.
    case busy
    /// A database whose log, with this name, holds changes that the database does not have.
    case logged(Name)
    /// The name shows something else; an event about that is still to come.
    case gone
    /// A placeholder, whose bytes are at the hub.
    case absent(LivePlaceholder)
    /// A file of which a loss of power left none of the contents.
    case destroyed(FileSnapshot)
    /// A file that was appended to, and of which a loss of power left the size but not the new
    /// contents.
    case lostEnd(LostEnd)
}

/// A file of which a loss of power destroyed the end.
final class LostEnd {
    let descriptor: Descriptor
    let snapshot: FileSnapshot

    init(_ descriptor: consuming Descriptor, _ snapshot: FileSnapshot) {
        self.descriptor = descriptor
        self.snapshot = snapshot
    }
}

/// A placeholder that was found in the tree.
final class LivePlaceholder {
    let descriptor: Descriptor
    let mark: PlaceholderMark
    let snapshot: FileSnapshot

    init(_ descriptor: consuming Descriptor, _ mark: PlaceholderMark, _ snapshot: FileSnapshot) {
        var snapshot = snapshot
        // While the file is being filled, its own modification time is wrong.
        snapshot.modified = PlaceholderMark.modified(ofFilling: descriptor.raw) ?? snapshot.modified
        self.descriptor = descriptor
        self.mark = mark
        self.snapshot = snapshot
    }

    /// Whether it is still a placeholder; it may have been filled since.
    var isStill: Bool { PlaceholderMark(of: descriptor.raw, size: snapshot.size) == mark }
}

extension Recorder {
    func status(_ descriptor: Int32) -> FileSnapshot {
        var status = stat()
        _ = cl_fstat(descriptor, &status)
        return FileSnapshot(status)
    }

    private func hotLog(of file: Int32, at path: [Name]) -> Name? {
        guard let name = path.last,
            let directory = try? openBeneath(
                Array(path.dropLast()), from: tree, flags: O_PATH | O_DIRECTORY)
        else { return nil }
        return DatabaseLog.hot(beside: name, in: directory.raw, main: file)
    }

    func openLive(_ item: Item, _ work: PendingDocument, syncs: Bool) throws(VolumeError) -> Live {
        guard let path = try look({ try $0.path(of: item.key) }) else { return .gone }
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
        let isHeld = isProbed || work.isWriting
        if isHeld, item.changed != 0 || !isUnchangedSinceOpen(snapshot, work) { return .busy }
        if powerLoss?.destroyed(descriptor.raw, snapshot) == true { return .destroyed(snapshot) }
        let lost = LostContents(recorder: self)
        if try lost.wasEmptied(item, snapshot, work) { return .destroyed(snapshot) }
        if try lost.hasLostEnd(item, descriptor.raw, snapshot, work) {
            return .lostEnd(LostEnd(descriptor, snapshot))
        }
        if let log = hotLog(of: descriptor.raw, at: path) { return .logged(log) }
        var cut: [ChunkReference]?
        if snapshot.size > settings.largeBytes {
            if isClosing { return .busy }
            // A caller waits for the document, so it does not pause.
            let isUrgent = work.since == 0
            cut = try large.chunks(of: descriptor.raw, snapshot, isUrgent: isUrgent) {
                [weak self, key = item.key] in self?.isReady(key)
            }
            guard cut != nil else { return .busy }
        }
        // Contents are synced before they are recorded. With clean pages, a later store through a
        // mapping also changes the times.
        if syncs || isHeld, cut == nil, cl_fsync(descriptor.raw, 0) < 0 {
            throw VolumeError(.system, "\(path.shown) cannot be synced to the disk.")
        }
        let chunks: [ChunkReference]
        if let cut { chunks = cut } else { chunks = try cutLinked(descriptor.raw, snapshot) }
        guard !self.status(descriptor.raw).differs(from: snapshot) else { return .busy }
        let manifest = Manifest(
            chunks: chunks, mode: snapshot.permissions, modified: snapshot.modified)
        return .found(
            LiveFile(
                descriptor, snapshot, owner: status.st_uid, CutContent(manifest), isHeld: isHeld))
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
            try checkTime()
        }
        lastCut = status(file).differs(from: snapshot) ? nil : (snapshot, chunks)
        return chunks
    }
}
