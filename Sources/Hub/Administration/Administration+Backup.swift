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

    /// Copies the hub while it runs: first the packs, then a consistent snapshot of the ledger,
    /// then what was appended to the packs in the meantime. No pack is removed while the backup
    /// runs. A hub that is started on the copy begins new epochs.
    ///
    /// - Parameter target: A directory that does not exist, or is empty.
    package func backup(to target: String) async throws -> BackupReport {
        guard let ledger = ledger as? SQLiteLedger else {
            throw VolumeError(
                .invalid,
                "A ledger in PostgreSQL cannot be backed up by this command yet. Stop the hub, and "
                    + "copy the database with pg_dump and the directory \(directory.path); after "
                    + "putting both back, say concord hub restored.")
        }
        if let blobs = directory.blobSource {
            throw VolumeError(
                .invalid,
                "Blobs in \(blobs.name) cannot be backed up by this command: let the bucket keep "
                    + "versions or copy it, and copy the ledger while the hub is stopped.")
        }
        let copy = DataDirectory(target)
        _ = try copy.make()
        let files = FileManager.default
        guard try files.contentsOfDirectory(atPath: target).isEmpty else {
            throw VolumeError(.invalid, "\(target) is not empty: give a new directory.")
        }
        try await holdPacks(true)
        do {
            try files.createDirectory(
                atPath: copy.blobsPath, withIntermediateDirectories: false,
                attributes: [.posixPermissions: 0o700])
            try copyPacks(to: copy)
            try ledger.copy(to: copy.ledgerPath)
            try copyPacks(to: copy)
            try await holdPacks(false)
        } catch {
            try? await holdPacks(false)
            throw error
        }
        let report = try await finish(copy)
        try syncAll(copy)
        let end = clock()
        try await ledger.write { try $0.setFact(Fact.backedUp, end) }
        return report
    }

    private func holdPacks(_ isHeld: Bool) async throws {
        // A time limit, so that a backup that was killed delays the removal of packs for a day at
        // most.
        let until = isHeld ? clock() + Timestamp.span(seconds: 86_400) : 0
        try await ledger.write { try $0.setFact(Fact.backupUntil, until) }
    }

    /// Packs are append-only: a pack whose size is equal has equal bytes.
    private func copyPacks(to copy: DataDirectory) throws {
        let files = FileManager.default
        guard files.fileExists(atPath: directory.blobsPath) else { return }
        for name in try files.contentsOfDirectory(atPath: directory.blobsPath) {
            guard name.hasSuffix(".pack") else { continue }
            let (source, target) = (
                "\(directory.blobsPath)/\(name)", "\(copy.blobsPath)/\(name)"
            )
            if size(source) == size(target) { continue }
            if files.fileExists(atPath: target) { try files.removeItem(atPath: target) }
            do {
                try files.copyItem(atPath: source, toPath: target)
            } catch CocoaError.fileReadNoSuchFile, CocoaError.fileNoSuchFile {
                // A collection that had begun before the backup removed this pack after it was
                // listed.
                continue
            }
        }
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

    /// Syncs the whole copy to the disk before the backup is reported as complete.
    private func syncAll(_ copy: DataDirectory) throws(VolumeError) {
        let packs = (try? FileManager.default.contentsOfDirectory(atPath: copy.blobsPath)) ?? []
        let files = packs.map { "\(copy.blobsPath)/\($0)" } + [copy.ledgerPath]
        for path in files + [copy.blobsPath, copy.path] {
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
