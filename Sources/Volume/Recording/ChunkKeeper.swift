import CLinux
import ChunkStore
import Glibc
import Journal
import Model
import SystemCalls

/// Stores bytes once: only chunks that the tree no longer has go to the chunk store. Only the
/// recorder's thread uses it.
final class ChunkKeeper {
    private let writer: JournalWriter
    let packs: PackStore
    private let stash: Stash
    private let tree: Int32
    private let room: Room
    private let settings: Settings
    private let closing: ClosingTime
    /// The chunks in stash files that were searched, by the name of the file.
    private var stashedChunks: [String: Set<Digest>] = [:]

    init(
        writer: JournalWriter, packs: PackStore, stash: Stash, tree: Int32, room: Room,
        settings: Settings, closing: ClosingTime
    ) {
        self.writer = writer
        self.packs = packs
        self.stash = stash
        self.tree = tree
        self.room = room
        self.settings = settings
        self.closing = closing
    }

    /// To be called when there is nothing to record.
    func forgetStash() { stashedChunks = [:] }

    /// Stores the chunks that only prior contents have: contents in the stash, and the previous
    /// current version, wherever its bytes are now.
    func keepBytes(
        _ recording: inout Recording, _ priorContents: [CutPriorContent], _ live: LiveFile?,
        _ places: inout [Digest: ChunkLocation]
    ) throws(VolumeError) {
        let item = recording.item
        // A file that is no version counts as the place of no chunk.
        let excess = live.map { $0.isUnfinished ? [] : $0.cut.manifest.chunkIDs } ?? []
        for prior in priorContents where !prior.prior.isBase {
            try store(
                prior.cut.manifest.chunkIDs.subtracting(excess), of: prior.cut.manifest,
                from: prior.source, &places)
        }
        let size = live?.snapshot.size ?? 0
        // A document that is written in place again and again is stored ahead of time, if there is
        // space for that, so that the next write need not wait for a copy.
        let isAhead =
            item.inPlace >= 2 && size > settings.copiedSizeMax && room.shortage(for: size) == 0
        if let live, live.isUnfinished {
            let before = try currentManifest(of: item.key)?.chunkIDs ?? []
            try store(before, of: live.cut.manifest, from: live.content, &places)
        } else if let live, live.isHeld || isAhead {
            // One that is open for writing may change unseen.
            try store(excess, of: live.cut.manifest, from: live.content, &places)
            recording.keptTrace = live.snapshot
        }
        guard !recording.isLiveDeferred else { return }
        try keepOlder(&recording, excess, &places)
    }

    /// Handles chunks of the previous current version that none of the present contents has.
    private func keepOlder(
        _ recording: inout Recording, _ excess: Set<Digest>, _ places: inout [Digest: ChunkLocation]
    ) throws(VolumeError) {
        guard let before = try currentManifest(of: recording.item.key) else { return }
        try settleLost(
            &recording, try missing(before.chunkIDs.subtracting(excess), places), &places)
    }

    private func currentManifest(of key: Int64) throws(VolumeError) -> Manifest? {
        try writer.look { reader in
            try reader.item(key)?.current.flatMap { try reader.manifest(of: $0) }
        }.flatMap(Manifest.init(encoded:))
    }

    /// Handles chunks that exist nowhere else. The versions that need them are removed if the tree
    /// was edited while the volume was not mounted; otherwise this is damage and is reported.
    func settleLost(
        _ recording: inout Recording, _ lost: Set<Digest>, _ places: inout [Digest: ChunkLocation]
    ) throws(VolumeError) {
        guard !lost.isEmpty else { return }
        let failure = try rescue(lost, &places)
        if writer.state.isCopy { try rescueMoved(lost, recording, &places) }
        let lost = try missing(lost, places).subtracting(try onHub(recording.item.key))
        guard !lost.isEmpty else { return }
        // The bytes may be in a stash file that can be read later.
        if let failure { throw failure }
        let versions = try versions(of: recording.item.key, with: lost)
        guard !recording.work.isFound else {
            recording.lost = versions
            forgetLost(&recording)
            return
        }
        recording.problem =
            "Version \(versions.map { String($0.number) }.joined(separator: ", ")) of "
            + "\(recording.item.name) has lost bytes that no other place has; "
            + "`fsctl doctor` shows the damage."
    }

    /// After a crash a stash file may have been assigned to a document other than the one whose
    /// version needs it. Returns the first error because of which a stash file was not searched.
    private func rescue(_ lost: Set<Digest>, _ places: inout [Digest: ChunkLocation])
        throws(VolumeError) -> VolumeError?
    {
        let entries: [Stash.Entry]
        do throws(VolumeError) { entries = try stash.entriesToRead() } catch { return error }
        var failure: VolumeError?
        for entry in entries where entry.kind != .preImages {
            do throws(VolumeError) {
                try store(lost, ofStashed: entry, &places)
            } catch {
                if error.code == .full { throw error }
                failure = failure ?? error
            }
        }
        return failure
    }

    private func store(
        _ ids: Set<Digest>, ofStashed entry: Stash.Entry, _ places: inout [Digest: ChunkLocation]
    ) throws(VolumeError) {
        guard let file = try stash.openIfPresent(entry.file), PlaceholderMark(of: file.raw) == nil
        else { return }
        let source = FileContent(descriptor: file.raw)
        let size = FileSnapshot(of: file.raw).size
        let found: Set<Digest>
        if let known = stashedChunks[entry.file] {
            found = known
        } else {
            let chunks = try cutContent(of: source, size: UInt64(size)) {
                (_, _) throws(VolumeError) in try closing.check()
            }
            found = Set(chunks.map(\.id))
            stashedChunks[entry.file] = found
        }
        if !found.isDisjoint(with: ids) { try store(ids, from: source, size, &places) }
    }

    private func versions(of key: Int64, with chunks: Set<Digest>) throws(VolumeError) -> [Version]
    {
        try writer.look { reader in
            try reader.versions(of: key).filter { version in
                let manifest = try reader.manifest(of: version.id).flatMap(Manifest.init(encoded:))
                return manifest.map { !$0.chunkIDs.isDisjoint(with: chunks) } ?? false
            }
        }
    }

    /// In a copied store, renames of the last moments cannot be recognized: a document with the
    /// same contents may be this one's previous state. Documents that are not recorded yet come
    /// first.
    private func rescueMoved(
        _ lost: Set<Digest>, _ recording: Recording, _ places: inout [Digest: ChunkLocation]
    ) throws(VolumeError) {
        let lost = try missing(lost, places)
        guard !lost.isEmpty else { return }
        let key = recording.item.key
        let old = try versions(of: key, with: lost)
        let paths = try writer.look { reader in
            try Set(old.flatMap { try reader.items(like: $0.id) }).subtracting([key])
                .compactMap { try reader.path(of: $0) }
        }
        for path in paths {
            guard let file = try openIfPresent(path, beneath: tree),
                PlaceholderMark(of: file.raw) == nil
            else { continue }
            let source = FileContent(descriptor: file.raw)
            try store(lost, from: source, FileSnapshot(of: file.raw).size, &places)
        }
        if recording.work.attempts < 4, try !missing(lost, places).isEmpty {
            throw VolumeError(.busy, "\(recording.item.name) waits for other documents.")
        }
    }

    private func forgetLost(_ recording: inout Recording) {
        let ids = Set(recording.lost.map(\.id))
        recording.outdated.removeAll { ids.contains($0) }
        if let current = recording.item.current, ids.contains(current) {
            recording.item.current = nil
        }
    }

    /// The chunks of an item's versions that the present hub or an earlier one has had.
    func onHub(_ key: Int64) throws(VolumeError) -> Set<Digest> {
        try writer.look { reader in
            var chunks: Set<Digest> = []
            for version in try reader.versions(of: key) where version.wasAtHub {
                let manifest = try reader.manifest(of: version.id).flatMap(Manifest.init(encoded:))
                if let manifest { chunks.formUnion(manifest.chunkIDs) }
            }
            return chunks
        }
    }
    /// The chunks that are not in the chunk store.
    func missing(_ ids: Set<Digest>, _ places: [Digest: ChunkLocation]) throws(VolumeError) -> Set<
        Digest
    > {
        guard !ids.isEmpty else { return [] }
        return try writer.look { reader in
            try ids.filter { try places[$0] == nil && reader.place(of: $0) == nil }
        }
    }

    /// Stores chunks of a file that has just been cut, reading only these chunks.
    private func store(
        _ ids: Set<Digest>, of manifest: Manifest, from source: some ContentSource,
        _ places: inout [Digest: ChunkLocation]
    ) throws(VolumeError) {
        var source = source
        var wanted = try missing(ids, places)
        var offset: Int64 = 0
        for chunk in manifest.fileChunks where !wanted.isEmpty {
            defer { offset += Int64(chunk.length) }
            guard wanted.remove(chunk.id) != nil else { continue }
            try closing.check()
            let buffer = UnsafeMutableRawBufferPointer.allocate(
                byteCount: Int(chunk.length), alignment: 4096)
            defer { buffer.deallocate() }
            let count = try source.read(into: buffer, at: offset)
            let bytes = UnsafeRawBufferPointer(buffer)
            guard count == buffer.count, Digest.sha256(bytes) == chunk.id else {
                throw VolumeError(.busy, "The content was changed while it was stored.")
            }
            places[chunk.id] = try packs.append(chunk.id, bytes)
        }
    }

    func store(
        _ ids: Set<Digest>, from source: some ContentSource, _ size: Int64,
        _ places: inout [Digest: ChunkLocation]
    ) throws(VolumeError) {
        var wanted = try missing(ids, places)
        guard !wanted.isEmpty else { return }
        _ = try cutContent(of: source, size: UInt64(size)) { (chunk, bytes) throws(VolumeError) in
            try closing.check()
            guard wanted.remove(chunk.id) != nil else { return }
            places[chunk.id] = try packs.append(chunk.id, bytes)
        }
    }
}
