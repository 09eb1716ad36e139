import CLinux
import ChunkStore
import Glibc
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
    /// It may be a part of a save that a loss of power has ended.
    let isUnfinished: Bool

    init(
        _ descriptor: consuming Descriptor, _ snapshot: FileSnapshot, owner: UInt32,
        _ cut: CutContent, isHeld: Bool, isUnfinished: Bool
    ) {
        self.descriptor = descriptor
        self.snapshot = snapshot
        self.owner = owner
        self.cut = cut
        self.isHeld = isHeld
        self.isUnfinished = isUnfinished
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

extension FileSnapshot {
    init(of descriptor: Int32) {
        var status = stat()
        _ = cl_fstat(descriptor, &status)
        self.init(status)
    }
}
