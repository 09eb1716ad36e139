import ChunkStore
import HubProtocol
import Model
import Reconcile

/// The stored contents of one version: a file, or one file of a package.
package struct Content: Sendable {
    package let hub: Hub
    let volume: VolumeRow
    private let caller: Caller
    let chunks: [ChunkReference]
    package let size: UInt64
    /// Counts the list of chunks and the longest one for as long as the contents are read. A short
    /// manifest can stand for a long list.
    private let budget: BodyBudget

    /// - Throws: `.busy` if the account reads too much at once.
    package init(
        _ entry: Manifest.Entry, in volume: VolumeRow, of hub: Hub, for caller: Caller
    ) throws(Failure) {
        self.hub = hub
        self.volume = volume
        self.caller = caller
        chunks = entry.chunks
        size = entry.size
        budget = BodyBudget(of: hub, for: caller.account)
        let longest = Int(chunks.lazy.map(\.length).max() ?? 0)
        guard budget.isHeld(chunks.count * Content.referenceBytes + longest) else {
            throw Failure(
                .busy,
                "Too much is sent to your account at once, or this document is too large for the "
                    + "hub's pages and WebDAV. Try again when other downloads have ended, or use a "
                    + "device.")
        }
    }

    private static let referenceBytes = MemoryLayout<ChunkReference>.stride

    /// Returns up to `limit` bytes from the beginning.
    ///
    /// - Throws: `.missing` if the hub does not have these bytes.
    package func beginning(_ limit: Int) async throws -> [UInt8] {
        var reader = reader(of: 0..<min(size, UInt64(limit)))
        var all: [UInt8] = []
        while let bytes = try await reader.next() { all += bytes }
        return all
    }

    package func reader(of range: Range<UInt64>) -> Reader { Reader(content: self, range: range) }

    /// Reads a range of the contents piece by piece.
    package struct Reader {
        let content: Content
        let range: Range<UInt64>
        private var offset: UInt64 = 0
        private var index = 0
        /// The locations of the chunks from `first`.
        private var rows: [ChunkRow?] = []
        private var first = 0

        /// The chunks that one transaction looks up.
        private static let together = 16

        init(content: Content, range: Range<UInt64>) {
            self.content = content
            self.range = range
        }

        /// Returns the next bytes; nil at the end.
        ///
        /// - Throws: `.missing` if the hub does not have them.
        package mutating func next() async throws -> ArraySlice<UInt8>? {
            let chunks = content.chunks
            while index < chunks.count, offset < range.upperBound {
                let chunk = chunks[index]
                let place = offset..<offset + UInt64(chunk.length)
                defer { (offset, index) = (place.upperBound, index + 1) }
                let wanted = range.clamped(to: place)
                guard !wanted.isEmpty else { continue }
                if !rows.indices.contains(index - first) {
                    let group = chunks[index..<min(index + Reader.together, chunks.count)]
                    rows = try await content.rows(group)
                    first = index
                }
                let bytes = try await content.bytes(of: chunk, rows[index - first])
                let lower = Int(wanted.lowerBound - place.lowerBound)
                return bytes[lower..<lower + wanted.count]
            }
            return nil
        }
    }

    private func rows(_ chunks: ArraySlice<ChunkReference>) async throws -> [ChunkRow?] {
        try await hub.rows(of: chunks.map { keyed($0.id) }[...], in: volume.id, for: caller)
    }

    private func keyed(_ id: Digest) -> Digest { .keyed(by: volume.chunkKey, id.bytes) }

    private func bytes(of chunk: ChunkReference, _ row: ChunkRow?) async throws -> [UInt8] {
        let frame = try await hub.frame(of: keyed(chunk.id), row, in: volume.id)
        let bytes: [UInt8]? =
            switch frame.codec {
            case .plain: frame.bytes
            case .zstd: Compression.decompress(frame.bytes, limit: HubLimits.chunkBytes)
            case .absent: nil
            }
        guard let bytes, bytes.count == Int(chunk.length) else {
            throw Failure(
                .missing,
                "The hub does not have all of these contents, or its copy is damaged. A device "
                    + "that has them will send them again.")
        }
        return bytes
    }
}

extension Content {
    /// The files and directories that a version consists of. A plain file has one, without a path.
    ///
    /// - Parameter budget: Counts the lists of chunks, if the caller holds them for long or often.
    /// - Throws: `.notFound`, `.tooLarge`; `.busy` if they do not fit the budget.
    package static func entries(
        of revision: Identifier, in volume: Identifier, _ transaction: any LedgerTransaction,
        holding budget: BodyBudget? = nil
    ) throws -> [Manifest.Entry] {
        guard let bytes = try transaction.manifest(of: revision, in: volume),
            let outline = ManifestOutline(encoded: bytes)
        else { throw Failure(.notFound, "The hub does not have this version.") }
        let count = outline.entries.reduce(0) { $0 + $1.chunks.count }
        try budget?.hold(count * referenceBytes)
        guard count <= HubLimits.references, let manifest = Manifest(encoded: bytes) else {
            throw Failure(
                .tooLarge, "This version is too large for the hub's pages and WebDAV.")
        }
        return manifest.entries
    }
}
