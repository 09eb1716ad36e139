import CLinux
import ChunkStore
import Glibc
import Journal
import Model
import SystemCalls

/// The present contents of a document in the tree, cut while no program changed them.
final class LiveFile {
    let descriptor: Descriptor
    let trace: Trace
    let owner: UInt32
    let cut: CutContent
    /// A program has the file open or mapped for writing and may change it at any moment, unseen.
    let isHeld: Bool

    init(
        _ descriptor: consuming Descriptor, _ trace: Trace, owner: UInt32, _ cut: CutContent,
        isHeld: Bool
    ) {
        self.descriptor = descriptor
        self.trace = trace
        self.owner = owner
        self.cut = cut
        self.isHeld = isHeld
    }

    var content: FileContent { FileContent(descriptor: descriptor.raw) }
}

/// A prior content of a document, cut into chunks.
final class CutFormer {
    let former: Former
    let descriptor: Descriptor
    let trace: Trace
    let cut: CutContent
    let source: AnySource
    /// The content through which `source` reads, kept open with it.
    private let base: CutFormer?

    init(
        _ former: Former, _ descriptor: consuming Descriptor, _ trace: Trace, _ source: AnySource,
        over base: CutFormer? = nil, chunks known: [ChunkReference]? = nil,
        like similar: SimilarContent? = nil, mayGoOn: () throws(VolumeError) -> Void
    ) throws(VolumeError) {
        self.base = base
        self.former = former
        self.descriptor = descriptor
        self.trace = trace
        self.source = source
        guard !former.isBase else {
            cut = CutContent(Manifest(chunks: []))
            return
        }
        let chunks: [ChunkReference]
        if let known {
            chunks = known
        } else {
            chunks = try cutContent(of: source, size: UInt64(trace.size), like: similar) {
                (_, _) throws(VolumeError) in try mayGoOn()
            }
        }
        cut = CutContent(
            Manifest(chunks: chunks, mode: trace.permissions, modified: trace.modified))
    }

    var size: Int64 { trace.size }
}

/// A whole file, or pre-images over one.
indirect enum AnySource: ContentSource {
    /// The bytes no longer exist.
    case nothing
    case file(FileContent)
    case overlay(OverlayContent)

    func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) throws(VolumeError)
        -> Int
    {
        switch self {
        case .nothing: 0
        case .file(let file): try file.read(into: buffer, at: offset)
        case .overlay(let overlay): try overlay.read(into: buffer, at: offset)
        }
    }

    func extent(at offset: Int64) -> ContentExtent {
        switch self {
        case .file(let file): file.extent(at: offset)
        case .overlay, .nothing: .data(until: .max)
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
    case absent(AbsentLive)
    /// A file of which a loss of power left the size but none of the contents.
    case destroyed(Trace)
}

/// A placeholder that was found in the tree.
final class AbsentLive {
    let descriptor: Descriptor
    let mark: AbsentMark
    let trace: Trace

    init(_ descriptor: consuming Descriptor, _ mark: AbsentMark, _ trace: Trace) {
        var trace = trace
        // While the file is being filled, its own modification time is wrong.
        trace.modified = AbsentMark.modified(ofFilling: descriptor.raw) ?? trace.modified
        self.descriptor = descriptor
        self.mark = mark
        self.trace = trace
    }

    /// Whether it is still a placeholder; it may have been filled since.
    var isStill: Bool { AbsentMark(of: descriptor.raw, size: trace.size) == mark }
}

extension Recorder {
    func status(_ descriptor: Int32) -> Trace {
        var status = stat()
        _ = cl_fstat(descriptor, &status)
        return Trace(status)
    }

    private func hotLog(of file: Int32, at path: [Name]) -> Name? {
        guard let name = path.last,
            let directory = try? openBeneath(
                Array(path.dropLast()), from: tree, flags: O_PATH | O_DIRECTORY)
        else { return nil }
        return DatabaseLog.hot(beside: name, in: directory.raw, main: file)
    }

    func openLive(_ item: Item, _ work: Work, syncs: Bool) throws(VolumeError) -> Live {
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
        let trace = Trace(status)
        guard trace.isFile, trace.inode == item.inode else { return .gone }
        if let mark = AbsentMark(of: descriptor.raw, size: trace.size) {
            if work.isWriting { return .busy }
            return .absent(AbsentLive(descriptor, mark, trace))
        }
        guard trace.size <= PackStore.Limits.contentBytes else { throw tooLarge(path) }
        // A writable mapping outlives close(2) unseen; a lease on the file shows whether there is
        // one.
        let isProbed = cl_probe_writers(descriptor.raw) == -EAGAIN
        let isHeld = isProbed || work.isWriting
        if isHeld, item.changed != 0 || !isAsOpened(trace, work) { return .busy }
        if powerLoss?.destroyed(descriptor.raw, trace) == true { return .destroyed(trace) }
        if let log = hotLog(of: descriptor.raw, at: path) { return .logged(log) }
        var cut: [ChunkReference]?
        if trace.size > settings.largeBytes {
            if isParting { return .busy }
            // A caller waits for the document, so it does not pause.
            let isUrgent = work.since == 0
            cut = try large.chunks(of: descriptor.raw, trace, isUrgent: isUrgent) {
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
        if let cut { chunks = cut } else { chunks = try cutLinked(descriptor.raw, trace) }
        guard !self.status(descriptor.raw).differs(from: trace) else { return .busy }
        let manifest = Manifest(
            chunks: chunks, mode: trace.permissions, modified: trace.modified)
        return .found(
            LiveFile(
                descriptor, trace, owner: status.st_uid, CutContent(manifest), isHeld: isHeld))
    }

    /// Whether a program has opened the file for writing and has not changed it yet: office
    /// programs reopen a document as soon as they have saved it. Unrecorded contents are a save
    /// then.
    private func isAsOpened(_ trace: Trace, _ work: Work) -> Bool {
        guard trace.size <= settings.largeBytes, let last = work.formers.last,
            let entry = last.entry, entry.kind != .displaced,
            entry.inode == trace.inode, entry.modified == trace.modified
        else { return false }
        return !last.isBase && !last.isToBeConflict && !last.isRecovered
    }

    private func tooLarge(_ path: [Name]) -> VolumeError {
        VolumeError(
            .invalid,
            "\(path.shown) is larger than \(PackStore.Limits.contentBytes) bytes, so its present "
                + "contents become no version and are not sent.")
    }

    /// Cuts a file; one with several names is cut once for all documents that are recorded
    /// together.
    func cutLinked(_ file: Int32, _ trace: Trace) throws(VolumeError) -> [ChunkReference] {
        if let last = lastCut, !last.trace.differs(from: trace) { return last.chunks }
        let chunks = try cutFile(file, size: trace.size) { (_, _) throws(VolumeError) in
            try checkTime()
        }
        lastCut = status(file).differs(from: trace) ? nil : (trace, chunks)
        return chunks
    }
}
