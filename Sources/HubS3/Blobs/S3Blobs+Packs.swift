import ChunkStore
import Hub
import Model
import Synchronization

extension S3Blobs {
    package func packs() async throws(VolumeError) -> [UInt32: UInt64] {
        try await sizes { [.open, .ended, .stored].contains($0) }
    }

    private func sizes(_ isWanted: @escaping @Sendable (PackState) -> Bool)
        async throws(VolumeError) -> [UInt32: UInt64]
    {
        try await read { transaction in
            try PackTable(transaction).all().filter { isWanted($0.state) }
                .reduce(into: [:]) { $0[$1.pack] = $1.bytes }
        }
    }

    /// Packs that only another ledger knows are in this list, too.
    package func listPacks() async throws(VolumeError) -> [UInt32: UInt64] {
        var found = try await listedPacks()
        if let newest = found.keys.max() {
            try await write(.everything) { try PackTable($0).skipNumbers(to: newest) }
        }
        for row in try await read({ try PackTable($0).all() }) {
            switch row.state {
            case .open, .ended: found[row.pack] = max(found[row.pack] ?? 0, row.bytes)
            case .quarantined: found[row.pack] = nil
            case .stored, .writing: break
            }
        }
        return found
    }

    private func listedPacks() async throws(VolumeError) -> [UInt32: UInt64] {
        var found: [UInt32: UInt64] = [:]
        for (key, size) in try await client.list(S3Client.packs) {
            let name = key.dropFirst(S3Client.packs.count)
            guard let pack = UInt32(name.prefix(8), radix: 16), packName(pack) == name else {
                continue
            }
            found[pack] = size
        }
        return found
    }

    package func endPack() async throws(VolumeError) {
        try await write(.nothing) { try PackTable($0).endAll(at: Self.now()) }
        state.withLock { ($0.open, $0.hasEnded) = (nil, true) }
    }

    /// Packs in the ledger are left alone until they are full, so that objects are not small.
    package func collectablePacks() async throws(VolumeError) -> [UInt32: UInt64] {
        try await sizes { $0 == .stored }
    }

    package func remove(pack: UInt32) async throws(VolumeError) {
        // The row first: what is left behind without it is removed later as garbage.
        let isRemoved = try await write(.everything) { try PackTable($0).removeUnused(pack) }
        guard isRemoved else { return }
        _ = state.withLock { $0.stored.remove(pack) }
        try await client.delete(key(pack))
    }

    // MARK: Copies

    package func contents(ofPack pack: UInt32) async throws(VolumeError) -> [UInt8]? {
        let (state, staged) = try await read { transaction in
            (
                try PackTable(transaction).row(of: pack)?.state,
                try PackTable(transaction).stagedRecords(in: pack)
            )
        }
        switch state {
        case .open, .ended: return staged
        case .stored: return try await client.get(key(pack), limit: Self.objectBytes)
        case .writing, .quarantined, nil: return nil
        }
    }

    package func add(pack: UInt32, _ contents: [UInt8]) async throws(VolumeError) {
        let count = UInt64(contents.count)
        try await write(.everything) {
            try PackTable($0).replace(pack, .writing, bytes: count, at: Self.now())
        }
        _ = state.withLock { $0.stored.remove(pack) }
        try await client.delete(key(pack))
        try await putObject(pack, contents)
        _ = try await write(.everything) {
            try PackTable($0).set(pack, from: .writing, to: .stored, at: Self.now())
        }
    }

    // MARK: Quarantine

    package func quarantine(pack: UInt32) async throws(VolumeError) {
        try await write(.everything) { transaction in
            guard try !PackTable(transaction).isUsed(pack: pack) else { return }
            _ = try PackTable(transaction).set(
                pack, from: .stored, to: .quarantined, at: Self.now())
        }
        _ = state.withLock { $0.stored.remove(pack) }
    }

    package func restore(pack: UInt32) async throws(VolumeError) {
        _ = try await write(.everything) {
            try PackTable($0).set(pack, from: .quarantined, to: .stored, at: Self.now())
        }
    }

    package func quarantinedPacks() async throws(VolumeError) -> [UInt32: UInt64] {
        try await sizes { $0 == .quarantined }
    }

    // MARK: Objects

    /// Writes the object of a pack. An attempt whose answer was lost may have written it already.
    ///
    /// - Throws: `.damaged` if there is an object with other bytes.
    func putObject(_ pack: UInt32, _ bytes: [UInt8]) async throws(VolumeError) {
        for _ in 0..<3 {
            if try await client.put(key(pack), bytes) == .stored { return }
            guard let found = try await client.get(key(pack), limit: Self.objectBytes) else {
                // The upload in parts was removed by somebody else.
                continue
            }
            // A ledger that was restored may know only the beginning of a pack.
            if found.starts(with: bytes) { return }
            throw VolumeError(
                .damaged,
                "The object \(key(pack)) of \(place) exists and has other bytes. Another hub must "
                    + "not use the same bucket and prefix.")
        }
        throw VolumeError(
            .offline, "The object \(key(pack)) of \(place) was removed again and again.")
    }

    /// More than the longest object.
    private static let objectBytes = 128 << 20

    /// Moves all ended packs into objects.
    package func settle() async throws(VolumeError) {
        state.withLock { $0.hasEnded = false }
        do throws(VolumeError) {
            for row in try await read({ try PackTable($0).all() }) where row.state == .ended {
                let isForeign = state.withLock { $0.foreign.contains(row.pack) }
                if isForeign { continue }
                try await store(row.pack)
            }
        } catch {
            state.withLock { $0.hasEnded = true }
            throw error
        }
    }

    private func store(_ pack: UInt32) async throws(VolumeError) {
        let bytes = try await read { try PackTable($0).stagedRecords(in: pack) }
        guard !bytes.isEmpty else {
            // Another process has stored it, or it has no records.
            _ = try await write(.everything) { transaction in
                guard let row = try PackTable(transaction).row(of: pack), row.state == .ended else {
                    return
                }
                _ = try PackTable(transaction).removeUnused(pack)
            }
            return
        }
        do throws(VolumeError) {
            try await putObject(pack, bytes)
        } catch {
            guard error.code == .damaged else { throw error }
            log.error("the chunks of a pack stay in the ledger: \(error)")
            _ = state.withLock { $0.foreign.insert(pack) }
            return
        }
        let isStored = try await write(.nothing) {
            try PackTable($0).setStored(pack, at: Self.now())
        }
        if isStored { return }
        // Either another process has stored it too, or a collection has removed the pack.
        if try await read({ try PackTable($0).row(of: pack) }) == nil {
            try await client.delete(key(pack))
        }
    }

    // MARK: Maintenance

    package func maintain() async throws(VolumeError) {
        try await client.checkOutage()
        state.withLock { state in
            guard state.hasEnded, state.upload == nil, !state.isClosed else { return }
            state.upload = Task { [self] in
                do throws(VolumeError) { try await settle() } catch {
                    if error.code != .offline { log.error("a pack was not moved: \(error)") }
                    // The client paces attempts while the server cannot be used.
                    try? await Task.sleep(for: .seconds(1))
                }
                self.state.withLock { $0.upload = nil }
            }
        }
    }

    package func close() async {
        let upload = state.withLock { state in
            state.isClosed = true
            return state.upload
        }
        upload?.cancel()
        await upload?.value
    }

    package func removeGarbage(after foreign: UInt32, begunBefore time: Int64)
        async throws(VolumeError) -> UInt64
    {
        var freed: UInt64 = 0
        for row in try await read({ try PackTable($0).all() })
        where row.state == .writing && row.since <= time {
            try await remove(pack: row.pack)
            freed += row.bytes
        }
        // The list is older than the rows, and a row is older than its object. So an object without
        // a row belongs to a pack that was removed.
        let (listed, uploads) = (try await listedPacks(), try await client.uploads())
        let (rows, newest) = try await read { transaction in
            (
                try PackTable(transaction).all().reduce(into: [UInt32: PackState]()) {
                    $0[$1.pack] = $1.state
                }, try PackTable(transaction).newest()
            )
        }
        for (pack, size) in listed where rows[pack] == nil && pack > foreign && pack <= newest {
            try await client.delete(key(pack))
            freed += size
        }
        let active = Set(rows.filter { $0.value == .writing || $0.value == .ended }.keys.map(key))
        for upload in uploads where !active.contains(upload.key) {
            try await client.abort(upload)
        }
        return freed
    }
}
