import Model

/// A chunk in a request or answer: `[length u32 BE][id 32][codec u8][bytes]`. The length counts
/// only the bytes.
package struct ChunkFrame: Hashable, Sendable {
    package enum Codec: UInt8, Sendable {
        case plain = 0
        case zstd = 1
        /// The hub does not have the chunk, or its copy is damaged. The frame has no bytes.
        case absent = 255
    }

    package var id: Digest
    package var codec: Codec
    package var bytes: [UInt8]

    package init(id: Digest, codec: Codec, bytes: [UInt8]) {
        self.id = id
        self.codec = codec
        self.bytes = bytes
    }

    package static let headerBytes = 37

    package var encoded: [UInt8] {
        var all: [UInt8] = []
        all.reserveCapacity(ChunkFrame.headerBytes + bytes.count)
        append(to: &all)
        return all
    }

    package func append(to all: inout [UInt8]) {
        withUnsafeBytes(of: UInt32(bytes.count).bigEndian) { all.append(contentsOf: $0) }
        all.append(contentsOf: id.bytes.dropFirst())
        all.append(codec.rawValue)
        all.append(contentsOf: bytes)
    }
}

/// A revision's manifest in an answer: `[length u32 BE][revision 16][bytes]`. The hub sends no
/// frame for an unknown revision.
package struct ManifestFrame: Hashable, Sendable {
    package var revision: Identifier
    package var bytes: [UInt8]

    package init(revision: Identifier, bytes: [UInt8]) {
        self.revision = revision
        self.bytes = bytes
    }

    package static let headerBytes = 20

    package var encoded: [UInt8] {
        var all: [UInt8] = []
        all.reserveCapacity(ManifestFrame.headerBytes + bytes.count)
        append(to: &all)
        return all
    }

    package func append(to all: inout [UInt8]) {
        withUnsafeBytes(of: UInt32(bytes.count).bigEndian) { all.append(contentsOf: $0) }
        all.append(contentsOf: revision.bytes)
        all.append(contentsOf: bytes)
    }
}

/// The received bytes are not a valid frame. The description is a sentence that says why.
package struct FrameFault: Error, Hashable, Sendable, CustomStringConvertible {
    package let description: String
}

/// Parses frames from bytes that arrive piece by piece. It holds at most one frame and one piece in
/// memory.
package struct FrameReader: Sendable {
    private var held: [UInt8] = []
    private var start = 0

    package init() {}

    package mutating func append(_ bytes: some Sequence<UInt8>) {
        if start > 0 {
            held.removeFirst(start)
            start = 0
        }
        held.append(contentsOf: bytes)
    }

    /// The number of bytes that are held in memory.
    package var heldBytes: Int { held.count }

    /// Whether no part of a further frame has arrived.
    package var isEmpty: Bool { start == held.count }

    /// Returns nil until the next chunk has arrived completely.
    package mutating func nextChunk() throws(FrameFault) -> ChunkFrame? {
        guard
            let (header, body) = try next(
                header: ChunkFrame.headerBytes, limit: HubLimits.chunkBytes)
        else { return nil }
        guard let codec = ChunkFrame.Codec(rawValue: header[36]) else {
            throw FrameFault(description: "A chunk has the unknown codec \(header[36]).")
        }
        guard let id = PackedIDs(bytes: header[4..<36])?.ids.first else { return nil }
        let frame = ChunkFrame(id: id, codec: codec, bytes: Array(body))
        release()
        return frame
    }

    /// Returns nil until the next manifest has arrived completely.
    package mutating func nextManifest() throws(FrameFault) -> ManifestFrame? {
        guard
            let (header, body) = try next(
                header: ManifestFrame.headerBytes, limit: HubLimits.manifestBytes),
            let revision = Identifier(bytes: header[4...])
        else { return nil }
        let frame = ManifestFrame(revision: revision, bytes: Array(body))
        release()
        return frame
    }

    /// Frees the memory of frames that were returned, if it is much.
    private mutating func release() {
        guard start >= 1 << 20 else { return }
        held = Array(held[start...])
        start = 0
    }

    private mutating func next(header: Int, limit: Int) throws(FrameFault) -> (
        header: [UInt8], body: ArraySlice<UInt8>
    )? {
        guard held.count - start >= header else { return nil }
        let length = held[start..<start + 4].reduce(0) { $0 << 8 | Int($1) }
        guard length <= limit else {
            throw FrameFault(description: "a frame of \(length) bytes; at most \(limit) are taken")
        }
        let end = start + header + length
        guard held.count >= end else { return nil }
        defer { start = end }
        return (Array(held[start..<start + header]), held[start + header..<end])
    }
}
