import ChunkStore
import HubProtocol
import Model

extension Hub {
    /// - Throws: `.notFound`, `.forbidden`.
    package func view(
        _ id: Identifier, for caller: Caller, to operation: VolumeOperation
    ) async throws -> VolumeView {
        try await ledger.read { try $0.membership.view(id, of: caller, for: operation) }
    }

    /// - Throws: `.notFound`; `.forbidden`, also for a member of a folder.
    package func volume(
        _ id: Identifier, for caller: Caller, to operation: VolumeOperation
    ) async throws -> VolumeRow {
        try await ledger.read { try $0.membership.volume(id, of: caller, for: operation) }
    }

    /// Returns which of the chunks are stored, and the collection for which this is valid.
    ///
    /// - Parameter versions: Those whose chunks a member of a folder asks for.
    package func have(
        _ ids: [Digest], of versions: [Identifier] = [], in id: Identifier, for caller: Caller
    ) async throws -> (present: Presence, collection: UInt64) {
        try checkList(ids)
        let (view, all) = try await ledger.read { transaction in
            let view = try transaction.membership.view(id, of: caller, for: .have)
            guard view.folder == nil else { return (view, [ChunkRow?]()) }
            return (view, try transaction.chunks.rows(ids, in: id))
        }
        let rows =
            view.folder == nil
            ? all : try await FolderChunks(self).have(ids, of: versions, in: view, for: caller)
        let collection = view.volume.collection
        var present: [Bool] = []
        for row in rows { present.append(try await isWhole(row)) }
        return (Presence(present), collection)
    }

    private func isWhole(_ row: ChunkRow?) async throws -> Bool {
        guard let row, row.state == .there else { return false }
        if try await packs.hold(row.place, in: blobs, at: clock()) { return true }
        // A compaction may have moved the chunk to another pack in the meantime.
        let now = try await ledger.read { try $0.chunks.row(row.id, in: row.volume) }
        if let now, now.place != row.place { return now.state == .there }
        log.error("a chunk is missing in its pack", metadata: ["chunk": "\(row.id)"])
        try await ledger.write(.volume(row.volume)) { try $0.chunks.setDamaged(row) }
        return false
    }

    /// Begins an upload: the chunks of one request's body, whose memory counts in the budget.
    ///
    /// - Parameter folder: The folder of which the caller is a member, if that is all it sees.
    package func upload(
        to volume: VolumeRow, folder: SharedFolder? = nil, for caller: Caller, _ budget: BodyBudget
    ) -> Upload {
        Upload(hub: self, volume: volume, folder: folder, caller: caller, budget: budget)
    }

    /// Returns the locations of these chunks in the requested order, for `frame(of:_:in:)`.
    ///
    /// - Parameter granted: The chunks that a member of a folder may read (`readable`).
    package func rows(
        of ids: ArraySlice<Digest>, in id: Identifier, for caller: Caller,
        granted: Set<Digest>? = nil
    ) async throws -> [ChunkRow?] {
        try await ledger.read { transaction in
            let view = try transaction.membership.view(id, of: caller, for: .read)
            let rows = try transaction.chunks.rows(ids, in: view.volume.id)
            guard view.folder != nil else { return rows }
            return zip(ids, rows).map { granted?.contains($0) == true ? $1 : nil }
        }
    }

    /// Returns the chunk as a frame; a frame with the codec `.absent` if it is missing or damaged.
    package func frame(of id: Digest, _ row: ChunkRow?, in volume: Identifier) async throws
        -> ChunkFrame
    {
        // The loop repeats if a compaction has moved the chunk to another pack.
        var row = row
        for _ in 0..<3 {
            guard let chunk = row, chunk.state != .damaged else { break }
            do throws(VolumeError) {
                let stored = try await blobs.read(chunk.plain, at: chunk.place)
                return ChunkFrame(id: id, codec: stored.codec, bytes: stored.bytes)
            } catch {
                guard error.code == .damaged || error.code == .notFound else { throw error }
                row = try await ledger.read { try $0.chunks.row(id, in: volume) }
                guard row?.place == chunk.place else { continue }
                log.error("\(error)", metadata: ["volume": "\(volume)"])
                metrics.damaged.add()
                try await ledger.write(.volume(volume)) { try $0.chunks.setDamaged(chunk) }
                break
            }
        }
        return ChunkFrame(id: id, codec: .absent, bytes: [])
    }

    package func wanted(in id: Identifier, for caller: Caller) async throws -> WantedAnswer {
        let chunks = try await ledger.read { transaction -> [Digest] in
            let view = try transaction.membership.view(id, of: caller, for: .wanted)
            // Nobody knows which of them are in a folder, so its members are asked for none.
            guard view.folder == nil else { return [] }
            return try transaction.chunks.wanted(in: id, limit: HubLimits.ids)
        }
        return WantedAnswer(chunks: PackedIDs(chunks))
    }

    /// Removes revisions from the front of `revisions` and returns their manifests, until the
    /// manifests have about `bytes` bytes.
    package func manifests(
        of revisions: inout ArraySlice<Identifier>, in id: Identifier, for caller: Caller,
        upTo bytes: Int
    ) async throws -> [ManifestFrame] {
        let wanted = revisions
        let (frames, end) = try await ledger.read { transaction in
            let view = try transaction.membership.view(id, of: caller, for: .manifests)
            var visible = view.visibleItems(transaction)
            var (frames, sum, end) = ([ManifestFrame](), 0, wanted.startIndex)
            while end < wanted.endIndex, sum < bytes {
                if try visible.contains(version: wanted[end]),
                    let found = try transaction.manifest(of: wanted[end], in: view.volume.id)
                {
                    frames.append(ManifestFrame(revision: wanted[end], bytes: found))
                    sum += found.count
                }
                end += 1
            }
            return (frames, end)
        }
        revisions = revisions[end...]
        return frames
    }
}

/// Receives the chunks of one request's body. Chunks that arrived completely are kept even if the
/// rest of the body never arrives.
package struct Upload {
    private let hub: Hub
    private let volume: VolumeRow
    private let folder: SharedFolder?
    private let caller: Caller
    private let budget: BodyBudget
    private var held: [(id: Digest, chunk: PlainChunk)] = []
    package private(set) var heldBytes = 0
    private var count = 0
    private(set) var answer = ChunksAnswer(kept: 0, bad: [])

    /// The number of bytes that are collected in memory before they are written to the disk
    /// together.
    private static let together = 4 << 20

    init(
        hub: Hub, volume: VolumeRow, folder: SharedFolder?, caller: Caller, budget: BodyBudget
    ) {
        self.hub = hub
        self.volume = volume
        self.folder = folder
        self.caller = caller
        self.budget = budget
    }

    /// Accepts a chunk if its bytes match its id.
    ///
    /// - Parameter readBytes: The bytes that the reader of the body holds.
    mutating func add(_ frame: ChunkFrame, beside readBytes: Int) async throws {
        count += 1
        guard count <= HubLimits.chunksPerUpload else {
            throw Failure(
                .tooLarge, "At most \(HubLimits.chunksPerUpload) chunks are accepted at once.")
        }
        var decoded = await decoded(frame, beside: readBytes)
        if decoded == nil {
            // What is held is written first, and counts until it is.
            try await flush()
            try budget.hold(readBytes)
            decoded = await self.decoded(frame, beside: readBytes)
        }
        guard let (plain, digest) = decoded else { throw BodyBudget.busy }
        guard let plain else {
            refuse(frame.id, "The bytes cannot be decoded by their codec.")
            return
        }
        guard Digest.keyed(by: volume.chunkKey, digest.bytes) == frame.id else {
            refuse(frame.id, "The bytes do not match this id.")
            return
        }
        held.append((frame.id, PlainChunk(plain: digest, bytes: plain)))
        heldBytes += plain.count
        if heldBytes >= Upload.together { try await flush() }
    }

    /// Accepts a chunk that was cut here, from a body of any length.
    ///
    /// - Parameter otherBytes: What else of the body is held.
    package mutating func add(cut bytes: [UInt8], beside otherBytes: Int) async throws
        -> ChunkReference
    {
        if !budget.isHeld(otherBytes + heldBytes + bytes.count) {
            try await flush()
            try budget.hold(otherBytes + bytes.count)
        }
        let digest = Digest.sha256(bytes)
        held.append(
            (.keyed(by: volume.chunkKey, digest.bytes), PlainChunk(plain: digest, bytes: bytes)))
        heldBytes += bytes.count
        if heldBytes >= Upload.together { try await flush() }
        return ChunkReference(id: digest, length: UInt32(bytes.count))
    }

    /// Decodes a chunk. Its bytes can be a thousand times those that were sent, and an upload may
    /// wait for long before they are written, so they count in the budget. Returns nil, and keeps
    /// nothing, if they do not fit.
    private func decoded(_ frame: ChunkFrame, beside readBytes: Int) async
        -> (plain: [UInt8]?, digest: Digest)?
    {
        let others = readBytes + heldBytes
        return await hub.perAccountLock.alone(caller.account) { [budget] in
            let plain = Upload.plain(frame)
            guard budget.isHeld(others + (plain?.count ?? 0)) else { return nil }
            return (plain, Digest.sha256(plain ?? []))
        }
    }

    private static func plain(_ frame: ChunkFrame) -> [UInt8]? {
        switch frame.codec {
        case .plain: frame.bytes
        case .zstd: Compression.decompress(frame.bytes, limit: HubLimits.chunkBytes)
        case .absent: nil
        }
    }

    private mutating func refuse(_ id: Digest, _ message: String) {
        hub.metrics.refusedChunks.add()
        answer.bad.append(.init(id: id, message: message))
    }

    /// Writes the collected chunks durably to the blobs, and afterwards records them in the ledger.
    package mutating func flush() async throws {
        guard !held.isEmpty else { return }
        let (come, hub, volume, folder) = (held, self.hub, self.volume.id, self.folder)
        held = []
        heldBytes = 0
        let present = try await hub.ledger.read { [caller] transaction in
            let present = try transaction.chunks.areThere(come.map(\.id), in: volume)
            guard folder != nil else { return present }
            let proofs = ProofTable(transaction, volume, of: caller.account)
            // What only others have uploaded is stored again for a member of a folder, who could
            // otherwise tell from the time that it takes that it is there.
            return try zip(come, present).map { try $1 && proofs.has($0.id) }
        }
        var seen: Set<Digest> = []
        let new = zip(come, present).filter { !$1 && seen.insert($0.id).inserted }.map(\.0)
        answer.kept += come.count
        guard !new.isEmpty else { return }
        let time = hub.clock()
        let room = try await hub.room(
            for: new.reduce(0) { $0 + UInt64($1.chunk.bytes.count) }, of: self.volume.account)
        defer { hub.leave(room) }
        await hub.gate.enter()
        do {
            let places = try await hub.blobs.keep(new.map(\.chunk))
            try await hub.turns.take(caller.account) { [caller, blobs = hub.blobs] in
                try await hub.ledger.write(.volume(volume)) { transaction in
                    // The account may have lost the right while the body arrived.
                    _ = try transaction.membership.view(
                        folder?.id ?? volume, of: caller, for: .chunks)
                    if folder != nil {
                        try ProofTable(transaction, volume, of: caller.account)
                            .add(new.map(\.id), at: time)
                    }
                    try blobs.confirm(places, transaction)
                    for ((id, chunk), place) in zip(new, places) {
                        try transaction.chunks.put(
                            id, plain: chunk.plain, at: place, in: volume, time: time)
                    }
                }
            }
            await hub.gate.leave()
        } catch {
            await hub.gate.leave()
            throw error
        }
        hub.metrics.keptChunks.add(new.count)
        hub.metrics.keptBytes.add(new.reduce(0) { $0 + $1.chunk.bytes.count })
    }
}
