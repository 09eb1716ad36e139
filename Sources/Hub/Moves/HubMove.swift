import ChunkStore
import Logging
import Model

/// Moves a hub to another ledger and another blob store, with all ids. It can be interrupted at any
/// time and run again.
///
/// The hub may serve while its packs and a snapshot of its rows are copied. What changes meanwhile
/// is noted (`ChangeCapture`) and copied, again and again. When little is left, the hub is frozen:
/// it commits nothing until the last changes have been copied. `MoveRecord` says in both ledgers
/// how far this is. The move is done when the record of the source says `.left`: before that only
/// the source may be used, and after it only the target. So a hub is never used at both places.
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
        /// For how long the hub was frozen.
        package var refused = Duration.zero
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
        let capture: ChangeCapture

        var rows: LedgerCopy { LedgerCopy(source: ledger, target: targetLedger) }
    }

    /// The hub is frozen when the last round of copying found no more changes than this.
    private static let fewChanges = 200
    /// How often the hub is frozen, if it does not stay so for long enough.
    private static let attempts = 5

    /// - Throws: `.invalid` if the target is not empty, or if another move has begun; `.busy` if
    ///   the last changes could not be copied in time.
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
        defer { try? targetLedger.close() }
        do {
            let sides = Sides(
                ledger: ledger, targetLedger: targetLedger, targetBlobs: blobs,
                capture: try ChangeCapture())
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
        try await sides.ledger.write { try begin(record, sides.capture, in: $0) }
        try await sides.targetLedger.write { transaction in
            try checkTarget(record, in: transaction)
            try MoveTable(transaction).set(
                MoveRecord(id: record.id, state: .arriving, place: source.place))
        }
        let lock = try await exclude(sides.ledger)
        defer { lock?.release() }
        if let lock { try await open(sides.ledger, lock) }
        var report = Report()
        report.rows = try await copy(sides, isServed: lock == nil, progress)
        for _ in 0..<Self.attempts {
            guard try await leave(sides, &report, progress) else { continue }
            try await finish(record, sides)
            return report
        }
        throw VolumeError(
            .busy,
            "The last changes could not be copied before the hub went on: say the same command "
                + "again when less is being saved.")
    }

    private static let overtaken = VolumeError(
        .busy, "Another concord hub move has worked on this hub: say the same command again.")

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

    /// Records in the source that this move has begun, and begins to note changes.
    ///
    /// - Throws: `.busy` if another command has begun another move, or ended this one.
    private func begin(
        _ record: MoveRecord, _ capture: ChangeCapture, in transaction: any LedgerTransaction
    ) throws {
        let moves = MoveTable(transaction)
        if let found = try moves.record(), found.id != record.id || found.state == .left {
            throw Self.overtaken
        }
        try moves.set(MoveRecord(id: record.id, state: .leaving, place: record.place))
        try capture.install(in: transaction)
    }

    private func openTargetLedger() throws(VolumeError) -> any Ledger {
        if let database = target.source { return try database.open(mayCreate: true) }
        _ = try target.make()
        return try SQLiteLedger(path: target.ledgerPath, mayCreate: true)
    }

    /// - Throws: `.invalid` unless the target is empty or this move has begun there.
    private func checkTarget(_ record: MoveRecord, _ sides: Sides) async throws {
        let hasBegun = try await sides.targetLedger.read { try checkTarget(record, in: $0) }
        guard !hasBegun else { return }
        let mark = try await sides.targetBlobs.mark()
        guard mark == nil, try await sides.targetBlobs.listPacks().isEmpty else { throw notEmpty }
    }

    /// - Returns: Whether this move has begun there.
    @discardableResult private func checkTarget(
        _ record: MoveRecord, in transaction: any LedgerTransaction
    ) throws -> Bool {
        let moves = MoveTable(transaction)
        if let found = try moves.record() {
            guard found.id == record.id, found.state == .arriving else { throw notEmpty }
            return true
        }
        guard try moves.isUnused() else { throw notEmpty }
        return false
    }

    private var notEmpty: VolumeError {
        VolumeError(
            .invalid,
            "\(target.place) is not empty: give a new database and another prefix of the bucket, "
                + "or a new directory.")
    }

    /// Ensures that no hub uses the source until the move ends. Returns nil if one does, which then
    /// serves meanwhile.
    private func exclude(_ ledger: any Ledger) async throws -> DataLock? {
        guard let lock = try source.lockIfFree() else { return nil }
        do { try await ledger.join(isAlone: true) } catch let error as VolumeError
            where error.code == .busy
        {
            return nil
        }
        return lock
    }

    /// Opens the hub as it would be at a start, which notices what was put back from a backup, and
    /// renews epochs because of that. A running hub has done that itself.
    private func open(_ ledger: any Ledger, _ lock: DataLock) async throws {
        let blobs = try source.openBlobs(ledger, log)
        _ = try await Hub(
            directory: source, lock: lock, ledger: ledger, blobs: blobs, log: log, clock: Hub.now)
        await blobs.close()
    }

    // MARK: Copying

    /// Copies nearly everything, while the hub may serve.
    ///
    /// - Returns: The number of rows.
    private func copy(
        _ sides: Sides, isServed: Bool, _ progress: @escaping Progress
    ) async throws -> Int {
        _ = try await copyPacks(sides, progress)
        let rows = try await sides.rows.run { progress(.rows($0)) }
        try await drain(sides)
        try await sides.rows.compare(sides.capture)
        if isServed {
            try await endPack(sides.ledger)
            _ = try await copyPacks(sides, progress)
        }
        return rows
    }

    /// Copies changes until few are made while that is done, or not fewer than the time before.
    private func drain(_ sides: Sides) async throws {
        var last = Int.max
        while true {
            let count = try await sides.rows.drain(sides.capture)
            guard count > Self.fewChanges, count < last else { return }
            last = count
        }
    }

    /// Begins a new pack, so that those that are there do not grow any more, and little has to be
    /// copied while the hub is frozen.
    private func endPack(_ ledger: any Ledger) async throws {
        guard source.blobSource == nil else {
            let blobs = try source.openBlobs(ledger, log)
            try await blobs.endPack()
            return await blobs.close()
        }
        let request = MaintenanceRequest(kind: .endPack)
        if case .notRunning(let lock) = try await request.ask(in: source, ledger, Hub.now) {
            lock.release()
        }
    }

    /// Copies what rows name, which only grows: no collection removes packs during a move.
    private func copyPacks(
        _ sides: Sides, _ progress: @escaping Progress
    ) async throws -> PackCopy.Report {
        // A store in a directory has the packs that were there when it was opened.
        let blobs = try source.openBlobs(sides.ledger, log)
        do {
            let copy = PackCopy(source: blobs, target: sides.targetBlobs)
            let report = try await copy.run {
                progress(.packs(done: $0.packs, of: $1, bytes: $0.bytes))
            } needed: { pack, size in
                min(size, try await sides.ledger.read { try $0.recordedEnd(ofPack: pack) })
            }
            await blobs.close()
            return report
        } catch {
            await blobs.close()
            throw error
        }
    }

    // MARK: Leaving

    /// Freezes the hub and copies the last changes.
    ///
    /// - Returns: False if the hub did not stay frozen until the end, so there may be more changes.
    private func leave(
        _ sides: Sides, _ report: inout Report, _ progress: @escaping Progress
    ) async throws -> Bool {
        try await drain(sides)
        guard try await change(from: .leaving, to: .frozen, sides) else { throw Self.overtaken }
        let start = ContinuousClock.now
        defer { report.refused += ContinuousClock.now - start }
        do {
            _ = try await sides.rows.drain(sides.capture)
            let packs = try await copyPacks(sides, progress)
            (report.packs, report.bytes) = (packs.packs, packs.bytes)
            let mark = try await sides.targetLedger.read {
                try PartsCheck.State($0, withEnds: false).mark
            }
            if let mark { try await sides.targetBlobs.setMark(mark) }
            return try await change(from: .frozen, to: .left, sides)
        } catch {
            _ = try? await change(from: .frozen, to: .leaving, sides)
            throw error
        }
    }

    private func change(
        from old: MoveRecord.State, to new: MoveRecord.State, _ sides: Sides
    ) async throws -> Bool {
        try await sides.ledger.write { transaction in
            try sides.capture.check(transaction)
            return try MoveTable(transaction).change(from: old, to: new)
        }
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
            try ChangeCapture.remove(from: transaction)
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
