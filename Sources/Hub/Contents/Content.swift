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

    /// - Parameter budget: That of the request. The contents may be read for longer, so they have
    ///   one of their own for the same account, or for the same visitors.
    /// - Throws: `.busy` if the account reads too much at once.
    package init(
        _ entry: Manifest.Entry, in volume: VolumeRow, of hub: Hub, for caller: Caller,
        _ budget: BodyBudget
    ) throws(Failure) {
        self.hub = hub
        self.volume = volume
        self.caller = caller
        chunks = entry.chunks
        size = entry.size
        self.budget = BodyBudget(like: budget)
        let longest = Int(chunks.lazy.map(\.length).max() ?? 0)
        try Content.hold(chunks.count * Content.referenceBytes + longest, in: self.budget)
    }

    private static func hold(_ bytes: Int, in budget: BodyBudget) throws(Failure) {
        guard budget.isHeld(bytes) else {
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
    /// The wanted ones of the files and directories of which a version consists. A plain file has
    /// one, without a path.
    ///
    /// - Parameters:
    ///   - budget: Counts all of them, with their lists of chunks.
    ///   - isWanted: Gets the number of each, from 0, without the list of chunks.
    /// - Throws: `.notFound`, `.tooLarge`; `.busy` if they do not fit the budget.
    package static func entries(
        of revision: Identifier, in volume: Identifier, _ transaction: any LedgerTransaction,
        holding budget: BodyBudget, where isWanted: (Int, Manifest.Entry) -> Bool
    ) throws -> [Manifest.Entry] {
        let (bytes, outline) = try outline(
            of: revision, in: volume, transaction, holding: budget, where: isWanted)
        let count = outline.entries.reduce(0) { $0 + $1.chunks.count }
        try hold(outline.entries.count * entryBytes + count * referenceBytes, in: budget)
        guard count <= HubLimits.references,
            let manifest = Manifest(encoded: bytes, where: isWanted)
        else {
            throw Failure(
                .tooLarge, "This version is too large for the hub's pages and WebDAV.")
        }
        return manifest.entries
    }

    /// The same without lists of chunks.
    package static func rows(
        of revision: Identifier, in volume: Identifier, _ transaction: any LedgerTransaction,
        holding budget: BodyBudget, where isWanted: (Int, Manifest.Entry) -> Bool
    ) throws -> [Manifest.Entry] {
        let (_, outline) = try outline(
            of: revision, in: volume, transaction, holding: budget, where: isWanted)
        try hold(outline.entries.count * entryBytes, in: budget)
        return outline.entries.map(\.entry)
    }

    /// What an entry takes without its list of chunks, with a path of usual length.
    private static let entryBytes = MemoryLayout<Manifest.Entry>.stride + 128

    private static func outline(
        of revision: Identifier, in volume: Identifier, _ transaction: any LedgerTransaction,
        holding budget: BodyBudget, where isWanted: (Int, Manifest.Entry) -> Bool
    ) throws -> ([UInt8], ManifestOutline) {
        let unknown = Failure(.notFound, "The hub does not have this version.")
        guard let bytes = try transaction.manifest(of: revision, in: volume) else { throw unknown }
        var held = bytes.count
        try hold(held, in: budget)
        let outline = try ManifestOutline(encoded: bytes) { number, entry throws(Failure) in
            guard isWanted(number, entry) else { return false }
            held += entryBytes
            try hold(held, in: budget)
            return true
        }
        guard let outline else { throw unknown }
        return (bytes, outline)
    }
}
