import ChunkStore
import Logging
import Model

/// Decides at the start whether a hub's ledger and its blobs belong together, by the `StoreStamp`
/// in each. `DataDirectory` has already refused a missing ledger; blobs that lack packs of the
/// ledger are refused here. Packs that an older or a new ledger does not know are never removed.
struct PartsCheck {
    let directory: DataDirectory
    let ledger: any Ledger
    let blobs: any BlobStore
    let rebuilds: Bool
    let log: Logger

    /// What the ledger has recorded about the blobs.
    struct State: Sendable {
        var mark: StoreStamp?
        var isJoining: Bool
        var isBackup: Bool
        /// Packs up to this number may have chunks that only another ledger knows.
        var foreignPack: Int64
        /// For each pack, the end of the last chunk that the ledger knows in it.
        var ends: [UInt32: UInt64]

        init(_ transaction: any LedgerTransaction, withEnds: Bool = true) throws {
            let words = try [Fact.storeHigh, Fact.storeLow, Fact.opening].compactMap {
                try transaction.fact($0).map(UInt64.init(bitPattern:))
            }
            if words.count == 3 {
                mark = StoreStamp(
                    store: Identifier(high: words[0], low: words[1]), number: words[2])
            }
            isJoining = try transaction.fact(Fact.isJoining) != nil
            isBackup = try transaction.fact(Fact.isBackup) != nil
            foreignPack = try transaction.fact(Fact.foreignPack) ?? 0
            ends = withEnds ? try transaction.packEnds() : [:]
        }
    }

    /// - Returns: Whether the ledger is older than the blobs.
    /// - Throws: `.damaged` with a sentence that says what to put back.
    func join() async throws -> Bool {
        let (state, mark) = try await marks()
        if directory.blobSource != nil, let mark, state.mark == nil, !rebuilds {
            throw VolumeError(
                .damaged,
                "\(directory.blobsName) has the blobs of a hub (\(mark.store)), and the ledger is "
                    + "new. Choose another prefix, or the ledger that belongs to them. To begin a "
                    + "new hub there, whose ledger knows none of them: concord hub --rebuild.")
        }
        for pack in try await blobs.quarantinedPacks().keys where state.ends[pack] != nil {
            guard try await blobs.packs()[pack] == nil else { continue }
            try await blobs.restore(pack: pack)
        }
        let packs = try await blobs.listPacks()
        let lacking = state.ends.filter { (packs[$0.key] ?? 0) < $0.value }.map(\.key)
        if !lacking.isEmpty, packs.isEmpty || !isOwn(mark, state) {
            guard rebuilds else { throw refusal(lacking) }
            try await askDevices(for: lacking)
        }
        let isOlder =
            mark.map { found in
                state.mark.map { $0.store == found.store && $0.number < found.number } ?? true
            } ?? false
        // A new ledger knows none of the packs, and packs that an older ledger does not know are
        // newer than it.
        let isNew = state.mark == nil && state.ends.isEmpty
        var foreign = state.foreignPack
        // A backup's own copies of the packs have no mark.
        let isForeign = state.isBackup ? mark != nil : state.mark != nil && !isOwn(mark, state)
        if isOlder || isNew || isForeign {
            try await blobs.endPack()
            foreign = max(foreign, Int64(packs.keys.max() ?? 0))
        }
        if isOlder {
            log.warning(
                "the ledger is older than the blobs: packs that it does not know are kept")
        }
        try await setMark(state, mark, foreign)
        return isOlder
    }

    /// Reads both marks, and both again if another hub, which starts, has changed them meanwhile.
    private func marks() async throws -> (State, StoreStamp?) {
        for attempt in 1... {
            let before = try await ledger.read { try State($0, withEnds: false) }
            let mark = try await blobs.mark()
            let state = try await ledger.read { try State($0) }
            if state.mark == before.mark && state.isJoining == before.isJoining || attempt == 20 {
                return (state, mark)
            }
        }
        fatalError("the loop does not end")
    }

    /// Whether this ledger was the last one that used the blobs.
    private func isOwn(_ mark: StoreStamp?, _ state: State) -> Bool {
        guard let own = state.mark else { return mark == nil }
        guard let mark else { return state.isJoining && own.number <= 1 }
        return mark.store == own.store && mark.number >= own.number - (state.isJoining ? 1 : 0)
    }

    private func refusal(_ lacking: [UInt32]) -> VolumeError {
        VolumeError(
            .damaged,
            "\(directory.blobsName) lacks \(lacking.count) packs that the ledger names. Put them "
                + "back; is its disk mounted? Nothing was changed. To go on without them, so that "
                + "devices send again what they have: concord hub --rebuild.")
    }

    /// Marks the chunks of these packs as missing, so that devices that have them send them again.
    private func askDevices(for lacking: [UInt32]) async throws {
        log.warning("\(lacking.count) packs are missing: devices are asked for their chunks.")
        try await ledger.write { transaction in
            for pack in lacking {
                try transaction.execute(
                    "UPDATE chunks SET state = 2 WHERE pack = $1", [.integer(Int64(pack))])
            }
        }
    }

    /// Writes the next mark to both parts. This is done at the start, at the end, and before packs
    /// are removed, so that a ledger that was copied before that moment is known as older.
    func advance() async throws {
        let state = try await ledger.read { try State($0, withEnds: false) }
        try await setMark(state, nil, state.foreignPack)
    }

    /// Writes the ledger's mark first, so that the blobs' mark is never newer than the ledger's.
    private func setMark(_ state: State, _ found: StoreStamp?, _ foreign: Int64) async throws {
        let last = max(state.mark?.number ?? 0, found?.number ?? 0)
        let mark = StoreStamp(
            store: state.mark?.store ?? found?.store ?? .random(),
            number: state.isJoining ? max(last, 1) : last + 1)
        do {
            try await ledger.write { transaction in
                try transaction.setFact(Fact.storeHigh, Int64(bitPattern: mark.store.high))
                try transaction.setFact(Fact.storeLow, Int64(bitPattern: mark.store.low))
                try transaction.setFact(Fact.opening, Int64(bitPattern: mark.number))
                try transaction.setFact(Fact.isJoining, 1)
                if foreign > 0 { try transaction.setFact(Fact.foreignPack, foreign) }
            }
            try await blobs.setMark(mark)
            try await ledger.write { try $0.removeFact(Fact.isJoining) }
        } catch let error as VolumeError where error.code == .full && foreign == 0 {
            // A full disk must not prevent the hub from serving: the next start writes the marks.
            log.warning("the parts of the hub could not be marked: \(error)")
        }
    }
}

extension Fact {
    static let storeHigh = "store-high"
    static let storeLow = "store-low"
    static let opening = "opening"
    static let isJoining = "joining"
    static let foreignPack = "foreign-pack"
}

extension LedgerTransaction {
    /// Returns where the record of the last chunk of a pack ends; 0 if no chunk is in it.
    func recordedEnd(ofPack pack: UInt32) throws -> UInt64 {
        let found = try row(
            "SELECT max(place + stored) FROM chunks WHERE pack = $1", [.integer(Int64(pack))])
        guard let found, !found.isNull(0) else { return 0 }
        return try found.count(0) + PackStore.Limits.recordOverhead
    }

    /// Returns where the last chunk of each pack ends.
    func packEnds() throws -> [UInt32: UInt64] {
        var ends: [UInt32: UInt64] = [:]
        for row in try rows("SELECT pack, max(place + stored) FROM chunks GROUP BY pack", []) {
            ends[UInt32(clamping: try row.integer(0))] = try row.count(1)
        }
        return ends
    }
}
