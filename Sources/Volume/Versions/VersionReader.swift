import CLinux
import ChunkStore
import Glibc
import Journal
import Model
import SystemCalls

/// Reads the contents of versions from any place that has them: the chunk store, the tree, the
/// stash, or the hub.
package struct VersionReader: Sendable {
    let items: ItemLookup
    let stash: Stash
    let packs: PackStore
    let hydration: Hydration
    let recentChunks = RecentChunks()
    private var journal: Journal { items.journal }
    private var recorder: Recorder { items.recorder }

    /// Thrown to a caller that must not wait for the network. It asks again on a thread that may.
    private static let notOnDevice = VolumeError(.offline, "The contents are not on this device.")

    /// The contents of a version. A list of chunks that is not on this device comes from the hub,
    /// unless `locally` is set.
    ///
    /// - Throws: `.notFound`; `.damaged`; `.offline`, `.timeout`.
    package func content(of version: Identifier, locally: Bool = false) throws(VolumeError)
        -> VersionContent
    {
        let found = try journal.read { reader in
            (try reader.item(ofVersion: version), try reader.manifest(of: version))
        }
        guard let item = found.0, let bytes = found.1 else {
            throw VolumeError(.notFound, "Version \(version) does not exist any more.")
        }
        if bytes.isEmpty {
            if locally { throw VersionReader.notOnDevice }
            return VersionContent(
                manifest: try hydration.manifest(of: version), item: item, reader: self)
        }
        guard let manifest = Manifest(encoded: bytes) else {
            throw VolumeError(.damaged, "The list of chunks of version \(version) is damaged.")
        }
        return VersionContent(manifest: manifest, item: item, reader: self)
    }

    // MARK: Chunks

    /// Reads a chunk of a version of the item from any place that has it.
    package func bytes(of chunk: ChunkReference, item key: Int64, locally: Bool = false)
        throws(VolumeError) -> [UInt8]
    {
        var damage: VolumeError?
        if let place = try journal.read({ try $0.place(of: chunk.id) }) {
            do throws(VolumeError) {
                return try packs.read(chunk.id, at: place)
            } catch {
                // The tree or the hub may have the chunk too.
                damage = error
            }
        }
        let found = try journal.read { try $0.currentContents(of: key) }
        if let found, let bytes = read(chunk, of: found) { return bytes }
        if let bytes = try remoteBytes(of: chunk, item: key, locally: locally) { return bytes }
        if let damage { throw damage }
        // It may just have been displaced; the recorder then puts it into the chunk store now.
        if recorder.catchUp(with: .item(key), timeoutSeconds: 5),
            let place = try journal.read({ try $0.place(of: chunk.id) })
        {
            return try packs.read(chunk.id, at: place)
        }
        throw VolumeError(
            .damaged,
            "Chunk \(chunk.id) of \(found?.path.last?.text ?? "item \(key)") is lost or damaged; "
                + "run `fsctl doctor`.")
    }

    /// Where chunks of the items' versions are on this device, as the journal says now. Looking for
    /// many at once takes one transaction.
    package func sources(of chunks: [(chunk: ChunkReference, item: Int64)])
        throws(VolumeError) -> [ChunkSource]
    {
        try journal.read { reader in
            var contents: [Int64: CurrentContents?] = [:]
            return try chunks.map { chunk, item in
                if let place = try reader.place(of: chunk.id) { return .pack(place) }
                let known =
                    if let known = contents[item] { known } else {
                        try reader.currentContents(of: item)
                    }
                contents.updateValue(known, forKey: item)
                return known.map { .tree($0) } ?? .unknown
            }
        }
    }

    /// Returns nil if the chunk is not there, or not any more.
    package func bytes(of chunk: ChunkReference, from source: ChunkSource) -> [UInt8]? {
        switch source {
        case .pack(let place): try? packs.read(chunk.id, at: place)
        case .tree(let contents): read(chunk, of: contents)
        case .unknown: nil
        }
    }

    /// Reads a chunk that the current version has too from the tree's file or from a copy of it in
    /// the stash.
    private func read(_ chunk: ChunkReference, of contents: CurrentContents) -> [UInt8]? {
        let (item, path) = (contents.item, contents.path)
        for entry in contents.manifest.entries {
            var offset: Int64 = 0
            for reference in entry.chunks {
                if reference == chunk {
                    let inner = entry.path.split(separator: UInt8(ascii: "/")).map {
                        Name(bytes: Array($0))
                    }
                    if let bytes = read(chunk, at: offset, of: path + inner) { return bytes }
                    if let bytes = readStashed(chunk, at: offset, of: item, path + inner) {
                        return bytes
                    }
                }
                offset += Int64(reference.length)
            }
        }
        return nil
    }

    private func read(_ chunk: ChunkReference, at offset: Int64, of path: [Name]) -> [UInt8]? {
        guard let file = try? openForReading(path, beneath: items.tree) else { return nil }
        // A hole in a placeholder need not be read.
        if cl_lseek(file.raw, offset, SEEK_DATA) < 0, PlaceholderMark(of: file.raw) != nil {
            return nil
        }
        return verified(chunk, FileContent(descriptor: file.raw), at: offset)
    }

    private func readStashed(
        _ chunk: ChunkReference, at offset: Int64, of item: Item, _ path: [Name]
    ) -> [UInt8]? {
        let entries = (try? stash.entries()) ?? []
        for entry in entries where entry.inode == item.inode && item.inode != 0 {
            guard let file = try? stash.open(entry.file) else { continue }
            if entry.kind != .preImages {
                if let bytes = verified(chunk, FileContent(descriptor: file.raw), at: offset) {
                    return bytes
                }
            } else if let live = try? openForReading(path, beneath: items.tree),
                let bytes = verified(
                    chunk,
                    OverlayContent(
                        preImages: file.raw, name: entry.file,
                        base: .file(FileContent(descriptor: live.raw))),
                    at: offset)
            {
                return bytes
            }
        }
        return nil
    }

    private func verified(_ chunk: ChunkReference, _ source: some ContentSource, at offset: Int64)
        -> [UInt8]?
    {
        var source = source
        var bytes = [UInt8](repeating: 0, count: Int(chunk.length))
        let count = try? bytes.withUnsafeMutableBytes { try source.read(into: $0, at: offset) }
        guard count == bytes.count, Digest.sha256(bytes) == chunk.id else { return nil }
        return bytes
    }

    /// Fetches a chunk from the hub; nil if no version of the item that the hub has contains it.
    private func remoteBytes(of chunk: ChunkReference, item key: Int64, locally: Bool)
        throws(VolumeError) -> [UInt8]?
    {
        let version = try journal.read { reader in
            try reader.versions(of: key).last { version in
                guard version.wasAtHub, let bytes = try reader.manifest(of: version.id)
                else { return false }
                return Manifest(encoded: bytes)?.chunkIDs.contains(chunk.id) ?? false
            }?.id
        }
        guard let version else { return nil }
        if locally { throw VersionReader.notOnDevice }
        let remote = try hydration.reached()
        for _ in 0..<2 {
            var found: [UInt8]?
            try remote.chunks([chunk], of: version) { (_, bytes) throws(VolumeError) in
                if bytes.count == Int(chunk.length), Digest.sha256(bytes) == chunk.id {
                    found = bytes
                }
            }
            if let found { return found }
        }
        throw VolumeError(
            .damaged, "The hub sends bytes that are not those of chunk \(chunk.id).")
    }

    // MARK: Downloading versions

    /// The versions whose bytes are all on this device.
    package func whole(_ versions: [Identifier]) throws(VolumeError) -> Set<Identifier> {
        try journal.read { reader in Set(try versions.filter { try reader.isWhole($0) }) }
    }

    /// Downloads all bytes of a version.
    ///
    /// - Throws: `.offline`, `.timeout`, `.notFound`, `.damaged`, `.full`.
    package func fetch(_ version: Identifier) throws(VolumeError) {
        let content = try content(of: version)
        guard let key = try journal.read({ try $0.item(ofVersion: version) }) else { return }
        let chunks = Set(content.manifest.entries.flatMap(\.chunks))
        let missing = try journal.read { reader in
            try chunks.filter { try reader.place(of: $0.id) == nil }
        }
        var batch: [Digest: [UInt8]] = [:]
        var size = 0
        for chunk in missing {
            batch[chunk.id] = try bytes(of: chunk, item: key)
            size += Int(chunk.length)
            if size > VersionReader.batchBytes {
                try keep(batch)
                (batch, size) = ([:], 0)
            }
        }
        if !batch.isEmpty { try keep(batch) }
    }

    private static let batchBytes = 8 << 20

    private func keep(_ chunks: [Digest: [UInt8]]) throws(VolumeError) {
        try recorder.perform { recorder, t in
            var places: [Digest: ChunkLocation] = [:]
            for (id, bytes) in chunks where try t.place(of: id) == nil {
                places[id] = try bytes.withUnsafeBytes { try recorder.packs.append(id, $0) }
            }
            try recorder.packs.sync()
            for (id, place) in places { try t.setPlace(id, place) }
        }
    }
}

extension Reader {
    /// Whether all bytes of a version are on this device: in the tree, or in the chunk store.
    package func isWhole(_ version: Identifier) throws(VolumeError) -> Bool {
        guard let key = try item(ofVersion: version), let item = try item(key) else { return false }
        if item.current == version, item.deleted == nil {
            return try absentVersion(of: key) == nil
        }
        guard let bytes = try manifest(of: version), let manifest = Manifest(encoded: bytes) else {
            return false
        }
        var missing: Set<Digest> = []
        for chunk in manifest.chunkIDs where try place(of: chunk) == nil { missing.insert(chunk) }
        guard !missing.isEmpty else { return true }
        // Chunks that the current version has too are in the tree.
        guard let current = item.current, try absentVersion(of: key) == nil,
            let shown = try self.manifest(of: current).flatMap(Manifest.init(encoded:))
        else { return false }
        return missing.isSubset(of: shown.chunkIDs)
    }
}

func openForReading(_ path: [Name], beneath tree: Int32) throws(Errno) -> Descriptor {
    try openBeneath(path, from: tree, flags: O_RDONLY | O_NOATIME | O_NONBLOCK)
}

/// Opens a file that may be gone, or that something else may have replaced; nil then. Every other
/// error says nothing about the file: it may be read when it is tried again.
func openIfPresent(_ path: [Name], beneath tree: Int32) throws(VolumeError) -> Descriptor? {
    do throws(Errno) {
        return try openForReading(path, beneath: tree)
    } catch {
        // A socket cannot be opened.
        if error.isMissing || error.code == ENXIO { return nil }
        throw VolumeError(.system, "\(path.shown) cannot be read: \(error).")
    }
}

/// Where a chunk is on this device, as the journal said at some time.
package enum ChunkSource: Sendable {
    case pack(ChunkLocation)
    /// The item's file or package in the tree has it.
    case tree(CurrentContents)
    case unknown
}

/// The current version of an item that is in the tree.
package struct CurrentContents: Sendable {
    fileprivate var item: Item
    fileprivate var manifest: Manifest
    fileprivate var path: [Name]
}

extension Reader {
    fileprivate func currentContents(of key: Int64) throws(VolumeError) -> CurrentContents? {
        guard let item = try item(key), let current = item.current,
            let bytes = try manifest(of: current), let manifest = Manifest(encoded: bytes),
            let path = try path(of: key)
        else { return nil }
        return CurrentContents(item: item, manifest: manifest, path: path)
    }
}
