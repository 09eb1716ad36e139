/// One chunk of a content: its id, and the length of its uncompressed bytes.
package struct ChunkReference: Hashable, Sendable {
    package let id: Digest
    package let length: UInt32

    package init(id: Digest, length: UInt32) {
        self.id = id
        self.length = length
    }
}

/// Where a chunk is stored: the pack, and the place in it.
package struct ChunkLocation: Hashable, Sendable {
    package var pack: UInt32
    /// The offset of the chunk's record in the pack.
    package var offset: UInt64
    /// The number of bytes of the stored payload, which may be compressed.
    package var storedLength: UInt32
    /// The number of uncompressed bytes.
    package var length: UInt32

    package init(pack: UInt32, offset: UInt64, storedLength: UInt32, length: UInt32) {
        self.pack = pack
        self.offset = offset
        self.storedLength = storedLength
        self.length = length
    }
}

/// The whole content of a version, as a list of chunks. A file has one entry with an empty path. A
/// package has one entry for each file, directory and symlink in it, sorted by path, with `/`
/// between components.
package struct Manifest: Hashable, Sendable {
    package enum Kind: UInt8, Sendable {
        case file = 1
        case directory = 2
        case symlink = 3
    }

    package struct Entry: Hashable, Sendable {
        package var path: [UInt8]
        package var kind: Kind
        /// Permission bits, without set-user-ID and set-group-ID, which are never part of a
        /// version.
        package var mode: UInt16 { didSet { mode = SharedMode.bits(of: mode) } }
        /// Whether it belongs to another user than its package, who keeps it from the package's
        /// owner.
        package var isOfAnother: Bool
        /// Nanoseconds since 1970.
        package var modified: Int64
        /// Bytes. For a symlink, the length of its target.
        package var size: UInt64
        package var target: [UInt8]
        package var chunks: [ChunkReference]

        package init(
            path: [UInt8] = [], kind: Kind = .file, mode: UInt16 = 0o644, isOfAnother: Bool = false,
            modified: Int64 = 0, size: UInt64 = 0, target: [UInt8] = [],
            chunks: [ChunkReference] = []
        ) {
            self.path = path
            self.kind = kind
            self.mode = SharedMode.bits(of: mode)
            self.isOfAnother = isOfAnother
            self.modified = modified
            self.size = size
            self.target = target
            self.chunks = chunks
        }
    }

    package var entries: [Entry]

    package init(entries: [Entry]) { self.entries = entries }

    /// Makes the manifest of a plain file.
    package init(chunks: [ChunkReference], mode: UInt16 = 0o644, modified: Int64 = 0) {
        let size = chunks.reduce(UInt64(0)) { $0 + UInt64($1.length) }
        entries = [Entry(mode: mode, modified: modified, size: size, chunks: chunks)]
    }

    /// The chunks of a plain file.
    package var fileChunks: [ChunkReference] { entries.first?.chunks ?? [] }

    package var hasPartsOfOthers: Bool { entries.contains(where: \.isOfAnother) }
    package var isPackage: Bool { entries.count != 1 || !entries[0].path.isEmpty }
    package var size: UInt64 {
        entries.reduce(0) { sum, entry in
            guard entry.kind == .file else { return sum }
            let (total, overflows) = sum.addingReportingOverflow(entry.size)
            return overflows ? .max : total
        }
    }
    /// How often the manifest names chunks, repetitions included.
    package var references: Int { entries.reduce(0) { $0 + $1.chunks.count } }
    package var chunkIDs: Set<Digest> {
        entries.reduce(into: []) { ids, entry in ids.formUnion(entry.chunks.lazy.map(\.id)) }
    }
}
