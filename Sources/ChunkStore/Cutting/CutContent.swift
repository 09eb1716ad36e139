import Model

/// Cuts content into chunks and hashes them. Each chunk is given to `body` with its bytes, which
/// are valid during the call only. Empty content has no chunks. Equal bytes give equal chunks,
/// whether zeros are written or are a hole. A chunk that is completely inside a hole is not read.
/// Chunks that are known to equal those of `similar` are neither read nor given to `body`.
///
/// Throws `.busy` when the content ends before `size` bytes (another program is changing it), and
/// whatever `source` and `body` throw.
package func cutContent<Source: ContentSource & ~Copyable>(
    of source: consuming Source, size: UInt64, like similar: SimilarContent? = nil,
    _ body: (ChunkReference, UnsafeRawBufferPointer) throws(VolumeError) -> Void
) throws(VolumeError) -> [ChunkReference] {
    guard let size = Int64(exactly: size), size <= PackStore.Limits.contentBytes else {
        throw VolumeError(
            .invalid,
            "Content of \(size) bytes is too long to be stored: at most "
                + "\(PackStore.Limits.contentBytes) bytes are.")
    }
    let cuts = try CutMethod(of: &source, size: size)
    let longest = cuts.longest
    var similar = similar.flatMap { $0.isCutLike(contentOf: UInt64(size)) ? $0 : nil }
    var window = ContentWindow(longest: longest, size: size, readsAhead: similar == nil)
    var zeros = ZeroChunk(longest: longest)
    // A content that is one chunk is read anyway. Asking for its extents would wait until blocks
    // that were just written are on the disk.
    var extent = ContentExtent.data(until: longest >= size ? size : 0)
    var references: [ChunkReference] = []
    var offset: Int64 = 0
    while offset < size {
        if let reference = similar?.chunk(at: offset, of: size) {
            references.append(reference)
            offset += Int64(reference.length)
            continue
        }
        let reach = Int(min(Int64(longest), size - offset))
        if offset >= extent.end { extent = source.extent(at: offset) }
        if case .hole(let end) = extent, end - offset >= Int64(reach) {
            let reference = zeros.reference(length: reach)
            try body(reference, zeros.bytes(length: reach))
            references.append(reference)
            offset += Int64(reach)
            continue
        }
        let bytes = try window.bytes(at: offset, count: reach, from: &source)
        let length = cuts.length(in: bytes)
        let chunk = UnsafeRawBufferPointer(rebasing: bytes[..<length])
        let reference = ChunkReference(id: .sha256(chunk), length: UInt32(length))
        try body(reference, chunk)
        references.append(reference)
        offset += Int64(length)
    }
    return references
}

/// The part of the content that is in memory.
private struct ContentWindow: ~Copyable {
    private let buffer: UnsafeMutableRawBufferPointer
    private let size: Int64
    private let readsAhead: Bool
    /// The range of the content that the buffer holds.
    private var held: Range<Int64> = 0..<0

    /// The buffer holds four of the longest chunks, so that at most a quarter of all bytes has to
    /// be moved inside the buffer. It holds at least 1 MiB, so that many short chunks are read at
    /// once.
    init(longest: Int, size: Int64, readsAhead: Bool) {
        let capacity = Int(min(Int64(max(longest * 4, 1 << 20)), size))
        buffer = .allocate(byteCount: capacity, alignment: 4096)
        self.size = size
        self.readsAhead = readsAhead
    }

    deinit { buffer.deallocate() }

    /// Returns all bytes that are in memory from the offset on: at least `count`.
    mutating func bytes<Source: ContentSource & ~Copyable>(
        at offset: Int64, count: Int, from source: inout Source
    ) throws(VolumeError) -> UnsafeRawBufferPointer {
        if !held.contains(offset) || held.upperBound - offset < Int64(count) {
            try fill(at: offset, count: count, from: &source)
        }
        let first = Int(offset - held.lowerBound)
        return UnsafeRawBufferPointer(
            rebasing: buffer[first..<Int(held.upperBound - held.lowerBound)])
    }

    private mutating func fill<Source: ContentSource & ~Copyable>(
        at offset: Int64, count: Int, from source: inout Source
    ) throws(VolumeError) {
        let kept = held.contains(offset) ? Int(held.upperBound - offset) : 0
        if kept > 0 {
            let first = Int(offset - held.lowerBound)
            buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: buffer[first..<first + kept]))
        }
        let end = Int(min(Int64(readsAhead ? buffer.count : count), size - offset))
        held = offset..<offset
        let got = try source.read(
            into: UnsafeMutableRawBufferPointer(rebasing: buffer[kept..<end]),
            at: offset + Int64(kept))
        guard kept + got >= count else {
            throw VolumeError(
                .busy,
                "The content ended at byte \(offset + Int64(kept + got)) of \(size) while it was "
                    + "read: it is being changed. Record it again when its writer is done.")
        }
        held = offset..<offset + Int64(kept + got)
    }
}

/// The chunk of zeros that a hole gives. It is hashed once for all its repetitions.
private struct ZeroChunk: ~Copyable {
    private let longest: Int
    private var buffer: UnsafeMutableRawBufferPointer?
    private var last: ChunkReference?

    init(longest: Int) { self.longest = longest }

    deinit { buffer?.deallocate() }

    mutating func bytes(length: Int) -> UnsafeRawBufferPointer {
        if buffer == nil {
            let zeros = UnsafeMutableRawBufferPointer.allocate(byteCount: longest, alignment: 16)
            zeros.initializeMemory(as: UInt8.self, repeating: 0)
            buffer = zeros
        }
        return UnsafeRawBufferPointer(rebasing: buffer![..<length])
    }

    mutating func reference(length: Int) -> ChunkReference {
        if let last, last.length == UInt32(length) { return last }
        let reference = ChunkReference(id: .sha256(bytes(length: length)), length: UInt32(length))
        last = reference
        return reference
    }
}
