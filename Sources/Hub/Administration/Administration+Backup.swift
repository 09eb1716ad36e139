import CLinux
import ChunkStore
import Foundation
import Glibc
import Model
import SystemCalls

extension Administration {
    package struct BackupReport: Sendable {
        package let bytes: UInt64
        package let packs: Int
    }

    /// Copies the hub while it runs, with its ledger in SQLite and its blobs in a directory: first
    /// the packs, then a consistent snapshot of the ledger, then what came into the packs in the
    /// meantime. No pack is removed while the backup runs. A hub that is started on the copy begins
    /// new epochs.
    ///
    /// - Parameter target: A directory that does not exist, or is empty.
    package func backup(to target: String) async throws -> BackupReport {
        let copy = DataDirectory(target)
        _ = try copy.make()
        guard try FileManager.default.contentsOfDirectory(atPath: target).isEmpty else {
            throw VolumeError(.invalid, "\(target) is not empty: give a new directory.")
        }
        try await holdPacks(true)
        do {
            try await copyPacks(to: copy)
            try await copyLedger(to: copy)
            try await copyPacks(to: copy)
            try await holdPacks(false)
        } catch {
            try? await holdPacks(false)
            throw error
        }
        let report = try await finish(copy)
        try sync(copy)
        let end = clock()
        try await ledger.write { try $0.setFact(Fact.backedUp, end) }
        return report
    }

    private func copyLedger(to copy: DataDirectory) async throws {
        // A ledger in SQLite that knows the packs of a bucket would take that knowledge along.
        if let ledger = ledger as? SQLiteLedger, directory.blobSource == nil {
            return try ledger.copy(to: copy.ledgerPath)
        }
        let copied = try SQLiteLedger(path: copy.ledgerPath, mayCreate: true)
        defer { try? copied.close() }
        _ = try await LedgerCopy(source: ledger, target: copied).run()
    }

    private func holdPacks(_ isHeld: Bool) async throws {
        // A time limit, so that a backup that was killed delays the removal of packs for a day at
        // most.
        let until = isHeld ? clock() + Timestamp.span(seconds: 86_400) : 0
        try await ledger.write { try $0.setFact(Fact.backupUntil, until) }
    }

    /// A collection that had begun before the backup may remove a pack after it was listed.
    private func copyPacks(to copy: DataDirectory) async throws {
        let blobs = try openBlobs()
        let target = try DirectoryBlobs(directory: copy.blobsPath)
        do { _ = try await PackCopy(source: blobs, target: target).run() } catch {
            await blobs.close()
            throw error
        }
        await blobs.close()
    }

    private func size(_ path: String) -> UInt64? {
        var status = stat()
        guard cl_fstatat(AT_FDCWD, path, &status, 0) == 0 else { return nil }
        return UInt64(status.st_size)
    }

    private func finish(_ copy: DataDirectory) async throws -> BackupReport {
        let copied = try copy.openLedger()
        try await copied.write { transaction in
            try transaction.setFact(Fact.isBackup, 1)
            try transaction.removeFact(Fact.backupUntil)
            try MoveTable(transaction).set(nil)
            try ChangeCapture.remove(from: transaction)
        }
        let use = try await copied.read { try $0.chunks.packUse() }
        let ends = try await copied.read { try $0.packEnds() }
        try copied.close()
        var bytes: UInt64 = 0
        for (pack, end) in ends {
            let held = size("\(copy.blobsPath)/\(packName(pack))") ?? 0
            guard held >= end else {
                throw VolumeError(
                    .damaged,
                    "The backup \(copy.path) misses bytes of pack \(packName(pack)): run concord "
                        + "hub check, and make the backup again.")
            }
            bytes += held
        }
        return BackupReport(bytes: bytes, packs: use.count)
    }

    /// Syncs the ledger and the directory to the disk before the backup is reported as complete.
    /// The packs are on it.
    private func sync(_ copy: DataDirectory) throws(VolumeError) {
        for path in [copy.ledgerPath, copy.path] {
            do throws(Errno) {
                try Descriptor(opening: path, flags: O_RDONLY).sync(dataOnly: false)
            } catch {
                throw VolumeError(
                    error == .noSpace ? .full : .system,
                    "The backup \(copy.path) could not be brought to the disk: \(error).")
            }
        }
    }
}
