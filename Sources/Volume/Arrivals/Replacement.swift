import CLinux
import ChunkStore
import Glibc
import Journal
import Model
import SystemCalls

/// Contents that a person has chosen for a document: those of an older version, of another version
/// in the conflict, or of a merge.
package struct Replacement: Sendable {
    package var manifest: Manifest
    /// The bytes of chunks that no version of the document has.
    package var added: [Digest: [UInt8]]
    /// The versions that the contents come from, besides the current one, which is always the first
    /// parent.
    package var sources: [Identifier]
    /// Conflict versions that this resolves.
    package var settles: [Identifier]
    /// The version that must still be current; nil accepts any.
    package var expected: Identifier?
    package var actor: Actor

    package init(
        _ manifest: Manifest, added: [Digest: [UInt8]] = [:], sources: [Identifier] = [],
        settles: [Identifier] = [], expected: Identifier? = nil, by actor: Actor
    ) {
        self.manifest = manifest
        self.added = added
        self.sources = sources
        self.settles = settles
        self.expected = expected
        self.actor = actor
    }
}

/// A replacement that is prepared beside the tree.
package struct ReadyReplacement: Sendable {
    /// Its name in `incoming/`.
    package var incoming: String
    /// The document as it was.
    package var item: Item
    var path: [Name]
    package var version: Identifier

    /// The step that puts it in place, if the document has not changed.
    package var step: ApplierStep {
        item.kind == .package
            ? .replacePackage(
                incoming: incoming, at: TreePlace(path), inode: item.inode, changed: item.changed)
            : .replace(incoming: incoming, at: TreePlace(path), expected: FileSnapshot(item))
    }
}

/// Replaces the contents of documents by those that a person has chosen.
package struct ContentReplacer: Sendable {
    let history: VersionHistory
    let versions: VersionReader
    let conflicts: ConflictVersions
    let arrivals: Arrivals
    private var items: ItemLookup { history.items }

    /// Replaces the contents of the document at a path in one step, under a claim, by a version of
    /// its own. Programs that watch the document are notified as of any save, and presenters save
    /// first.
    ///
    /// If the contents are equal, only the conflict versions are resolved.
    ///
    /// - Returns: The number of the current version.
    /// - Throws: `.notFound`; `.busy` when the document is being written or is not as expected any
    ///   more; `.offline`, `.timeout` when bytes are not on this device and cannot be fetched;
    ///   `.full`.
    @discardableResult
    package func replace(_ replacement: Replacement, at path: [Name], through tree: any Applying)
        throws(VolumeError) -> Int
    {
        var tries = 0
        while true {
            try items.catchUp(with: path, timeoutSeconds: 5)
            if let number = try attempt(replacement, at: path, through: tree) { return number }
            tries += 1
            guard tries < 10 else {
                throw VolumeError(
                    .busy, "\(path.shown) is being written now; try again in a moment.")
            }
            usleep(useconds_t(20_000 * tries))
        }
    }

    /// Returns nil if the document has changed in the meantime.
    private func attempt(
        _ replacement: Replacement, at path: [Name], through tree: any Applying
    ) throws(VolumeError) -> Int? {
        guard let ready = try prepare(replacement, at: path) else {
            return try history.states.status(at: path).currentVersion
        }
        var isDone = false
        defer { if !isDone { arrivals.discard(ready.incoming) } }
        try arrivals.sync()
        switch tree.apply([ready.step], together: nil).first {
        case .done: isDone = true
        case .failed(let words):
            throw VolumeError(.system, "\(path.shown) cannot be replaced: \(words).")
        default: return nil
        }
        try items.catchUp(with: path, timeoutSeconds: 30)
        return try history.document(ready.item.id)?.versions.first { $0.id == ready.version }?
            .number
    }

    /// Prepares the new contents beside the tree. Returns nil if the document has them already;
    /// conflict versions are then resolved.
    ///
    /// - Parameter locally: Uses only bytes that are on this device, and throws `.offline` if that
    ///   is not enough.
    package func prepare(
        _ replacement: Replacement, at path: [Name], locally: Bool = false
    ) throws(VolumeError) -> ReadyReplacement? {
        let (item, known) = try items.journal.read { reader in
            let item = try items.existing(path, reader)
            return (item, try reader.versions(of: item.key))
        }
        guard item.kind == .file || item.kind == .package, let current = item.current,
            (item.kind == .package) == replacement.manifest.isPackage
        else {
            throw VolumeError(
                .invalid, "\(path.shown) is not the kind of document that it was in that version.")
        }
        if let expected = replacement.expected, expected != current {
            throw VolumeError(
                .busy, "\(path.shown) was saved in the meantime; look at it again.")
        }
        let open = known.filter { $0.kind == .conflict }.map(\.id)
        guard replacement.settles.allSatisfy(open.contains) else {
            throw ConflictVersions.settledElsewhere(path)
        }
        let content = Digest.sha256(replacement.manifest.contentForm)
        if known.first(where: { $0.id == current })?.content == content, item.changed != 0 {
            try conflicts.settle(replacement.settles, at: path)
            return nil
        }
        let arrival = arrival(of: replacement, content, in: item)
        let name = try arrivals.prepare(arrival) { (chunks, file) throws(VolumeError) in
            try self.write(chunks, into: file) { (chunk) throws(VolumeError) in
                if let bytes = replacement.added[chunk.id] { return bytes }
                return try versions.bytes(of: chunk, item: item.key, locally: locally)
            }
        }
        try arrivals.applyLocalAttributes(name, for: path)
        return ReadyReplacement(
            incoming: name, item: item, path: path, version: arrival.version?.id ?? .none)
    }

    private func arrival(of replacement: Replacement, _ content: Digest, in item: Item) -> Arrival {
        var arrival = Arrival(item: item.id, kind: item.kind)
        let now = cl_clock_realtime_ns()
        var parents = item.current.map { [$0] } ?? []
        for id in replacement.sources where !parents.contains(id) { parents.append(id) }
        let device = items.recorder.versionMaker.device
        arrival.version = Version(
            number: 1, parents: parents, device: device.id, deviceName: device.name,
            person: device.person(replacement.actor.uid), program: replacement.actor.program,
            session: replacement.actor.session, name: item.name, size: replacement.manifest.size,
            modified: now, saved: now,
            content: content)
        arrival.manifest = replacement.manifest.encoded
        arrival.attributes = AttributeList(encoded: item.attributes) ?? AttributeList()
        arrival.settles = replacement.settles
        return arrival
    }

    private func write(
        _ chunks: [ChunkReference], into file: Int32,
        _ bytes: (ChunkReference) throws(VolumeError) -> [UInt8]
    ) throws(VolumeError) {
        var offset: Int64 = 0
        for chunk in chunks {
            let piece = try bytes(chunk)
            do throws(Errno) { try writeSparsely(file, piece, at: offset) } catch {
                throw VolumeError(
                    error == .noSpace ? .full : .system, "The contents cannot be written: \(error)."
                )
            }
            offset += Int64(piece.count)
        }
    }
}

extension Manifest {
    /// Cuts contents into chunks, and returns the bytes of each.
    package static func cut(_ bytes: [UInt8], mode: UInt16 = 0o644) throws(VolumeError)
        -> (manifest: Manifest, chunks: [Digest: [UInt8]])
    {
        var chunks: [Digest: [UInt8]] = [:]
        let references = try cutContent(of: ByteContent(bytes: bytes), size: UInt64(bytes.count)) {
            (reference, piece) throws(VolumeError) in chunks[reference.id] = Array(piece)
        }
        return (
            Manifest(chunks: references, mode: mode, modified: cl_clock_realtime_ns()), chunks
        )
    }
}

/// Contents in memory.
private struct ByteContent: ContentSource {
    let bytes: [UInt8]

    func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) -> Int {
        let start = min(Int(offset), bytes.count)
        let count = min(buffer.count, bytes.count - start)
        bytes.withUnsafeBytes { source in
            buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: source[start..<start + count]))
        }
        return count
    }
}
