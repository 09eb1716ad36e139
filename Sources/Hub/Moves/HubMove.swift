import ChunkStore
import Logging
import Model

/// Moves a hub to another ledger and another blob store, with all ids. It can be interrupted at any
/// time and run again.
///
/// The hub may serve while its packs are copied. Then it must stop, and the rows and the other
/// packs are copied. `MoveRecord` says in both ledgers how far this is. The move is done when the
/// record of the source says `.left`: before that only the source may be used, and after it only
/// the target. So a hub is never used at both places.
package struct HubMove: Sendable {
    let source: DataDirectory
    let target: DataDirectory
    let log: Logger

    package init(from source: DataDirectory, to target: DataDirectory, log: Logger) {
        (self.source, self.target, self.log) = (source, target, log)
    }

    /// Where the hub moves to, for messages.
    package var place: String { target.place }

    package struct Report: Hashable, Sendable {
        package var rows = 0
        package var packs = 0
        package var bytes: UInt64 = 0
    }

    package enum Step: Hashable, Sendable {
        case packs(done: Int, of: Int, bytes: UInt64)
        case rows(Int)
    }

    package typealias Progress = @Sendable (Step) -> Void

    /// What is open while the move runs.
    private struct Sides: Sendable {
        let ledger: any Ledger
        let targetLedger: any Ledger
        let targetBlobs: any BlobStore
    }

    /// - Throws: `.busy` after the packs were copied, if a hub still runs; `.invalid` if the target
    ///   is not empty, or if another move has begun.
    package func run(progress: @escaping Progress = { _ in }) async throws -> Report {
        let lock = try source.lockForMove()
        defer { lock.release() }
        let ledger = try source.openLedger()
        defer { try? ledger.close() }
        return try await run(ledger, progress)
    }

    private func run(_ ledger: any Ledger, _ progress: @escaping Progress) async throws -> Report {
        let record = try await ledger.read { [self] in try self.record(in: $0) }
        let targetLedger = try openTargetLedger()
        let blobs = try target.openBlobs(targetLedger, log)
        let sides = Sides(ledger: ledger, targetLedger: targetLedger, targetBlobs: blobs)
        defer { try? targetLedger.close() }
        do {
            let report = try await run(record, sides, progress)
            await blobs.close()
            return report
        } catch {
            await blobs.close()
            throw error
        }
    }

    private func run(
        _ record: MoveRecord, _ sides: Sides, _ progress: @escaping Progress
    ) async throws -> Report {
        if record.state == .left {
            try await finish(record, sides)
            return Report()
        }
        try await checkTarget(record, sides)
        try await sides.ledger.write { transaction in
            let moves = MoveTable(transaction)
            if try moves.record() == nil { try moves.set(record) }
        }
        let arriving = MoveRecord(id: record.id, state: .arriving, place: source.place)
        try await sides.targetLedger.write { try MoveTable($0).set(arriving) }
        guard let lock = try await exclude(sides.ledger) else {
            try await copyPacks(sides, progress)
            throw VolumeError(
                .busy,
                "The hub runs. Most of its packs are in \(target.place) now: stop it and say the "
                    + "same command again, which copies the rest.")
        }
        defer { lock.release() }
        return try await complete(record, sides, lock, progress)
    }

    // MARK: The two places

    /// Returns the record of this move, which may not be in the ledger yet.
    private func record(in transaction: any LedgerTransaction) throws -> MoveRecord {
        guard let record = try MoveTable(transaction).record() else {
            return MoveRecord(id: .random(), state: .leaving, place: target.place)
        }
        if record.state == .arriving { try MoveTable(transaction).checkHubIsHere() }
        guard record.place == target.place else {
            throw VolumeError(
                .invalid,
                "A move of this hub to \(record.place) has begun: finish it, or say concord hub "
                    + "move --undo.")
        }
        return record
    }

    private func openTargetLedger() throws(VolumeError) -> any Ledger {
        if let database = target.source { return try database.open(mayCreate: true) }
        _ = try target.make()
        return try SQLiteLedger(path: target.ledgerPath, mayCreate: true)
    }

    /// - Throws: `.invalid` unless the target is empty or this move has begun there.
    private func checkTarget(_ record: MoveRecord, _ sides: Sides) async throws {
        let (found, isUnused) = try await sides.targetLedger.read {
            (try MoveTable($0).record(), try MoveTable($0).isUnused())
        }
        if let found, found.id == record.id, found.state == .arriving { return }
        if found == nil, isUnused, try await sides.targetBlobs.mark() == nil,
            try await sides.targetBlobs.listPacks().isEmpty
        {
            return
        }
        throw VolumeError(
            .invalid,
            "\(target.place) is not empty: give a new database and another prefix of the bucket, "
                + "or a new directory.")
    }

    /// Ensures that no hub uses the source. Returns nil if one does.
    private func exclude(_ ledger: any Ledger) async throws -> DataLock? {
        guard let lock = try source.lockIfFree() else { return nil }
        do { try await ledger.join(isAlone: true) } catch let error as VolumeError
            where error.code == .busy
        {
            return nil
        }
        return lock
    }

    // MARK: Copying

    /// Copies packs while the hub may serve, but not the newest one, to which it appends.
    private func copyPacks(_ sides: Sides, _ progress: @escaping Progress) async throws {
        let blobs = try source.openBlobs(sides.ledger, log)
        let newest = try await blobs.packs().keys.max() ?? 0
        _ = try await PackCopy(source: blobs, target: sides.targetBlobs).run {
            progress(.packs(done: $0.packs, of: $1, bytes: $0.bytes))
        } where: {
            $0 < newest
        }
        await blobs.close()
    }

    private func complete(
        _ record: MoveRecord, _ sides: Sides, _ lock: DataLock, _ progress: @escaping Progress
    ) async throws -> Report {
        let ledger = sides.ledger
        let blobs = try source.openBlobs(ledger, log)
        // The hub is opened as it would be at a start, which notices what was put back from a
        // backup, and renews epochs because of that.
        _ = try await Hub(
            directory: source, lock: lock, ledger: ledger, blobs: blobs, log: log, clock: Hub.now)
        var report: Report
        do {
            try await set(.frozen, record, in: ledger)
            report = try await copyAll(from: blobs, sides, progress)
        } catch {
            try? await set(.leaving, record, in: ledger)
            throw error
        }
        await blobs.close()
        try await set(.left, record, in: ledger)
        try await finish(record, sides)
        return report
    }

    private func copyAll(
        from blobs: any BlobStore, _ sides: Sides, _ progress: @escaping Progress
    ) async throws -> Report {
        var report = Report()
        report.rows = try await LedgerCopy(source: sides.ledger, target: sides.targetLedger).run {
            progress(.rows($0))
        }
        let ends = try await sides.targetLedger.read { try $0.packEnds() }
        let copy = PackCopy(source: blobs, target: sides.targetBlobs)
        let packs = try await copy.run {
            progress(.packs(done: $0.packs, of: $1, bytes: $0.bytes))
        } where: {
            ends[$0] != nil
        }
        (report.packs, report.bytes) = (packs.packs, packs.bytes)
        try await copy.removeOthers { ends[$0] != nil }
        let mark = try await sides.targetLedger.read {
            try PartsCheck.State($0, withEnds: false).mark
        }
        if let mark { try await sides.targetBlobs.setMark(mark) }
        return report
    }

    private func set(_ state: MoveRecord.State, _ record: MoveRecord, in ledger: any Ledger)
        async throws
    {
        var record = record
        record.state = state
        try await ledger.write { [record] in try MoveTable($0).set(record) }
    }

    /// Lets the target be used. The source may not be used any more.
    private func finish(_ record: MoveRecord, _ sides: Sides) async throws {
        try await sides.targetLedger.write { transaction in
            let moves = MoveTable(transaction)
            if try moves.record()?.id == record.id { try moves.set(nil) }
        }
    }
}

extension HubMove {
    /// Lets the hub be used in this directory again. If it had left, this is an older state of it,
    /// so the volumes begin new epochs.
    package static func undo(in directory: DataDirectory) async throws -> MoveRecord {
        let lock = try directory.lockForMove()
        defer { lock.release() }
        let ledger = try directory.openLedger()
        let record = try await ledger.write { transaction in
            let moves = MoveTable(transaction)
            guard let record = try moves.record() else {
                throw VolumeError(.notFound, "No move of this hub has begun.")
            }
            guard record.state != .arriving else { throw record.objection! }
            if record.state == .left {
                for volume in try transaction.volumes() {
                    _ = try transaction.renewEpoch(of: volume.id)
                }
            }
            try moves.set(nil)
            return record
        }
        try ledger.close()
        return record
    }
}
