import ChunkStore
import HubProtocol
import Model
import Reconcile

/// The result of a check of the whole hub.
package struct CheckReport: Sendable {
    /// One sentence for each fault; empty if there is none.
    package var faults: [String] = []
    package var volumes = 0
    package var items = 0
    package var revisions = 0
    package var chunks = 0
    package var bytes: UInt64 = 0
    /// The packs in quarantine. They are not a fault, but the operator may want to know.
    package var quarantined = 0
}

/// What a check has examined so far.
package enum CheckProgress: Sendable {
    case items(Int)
    case chunks(Int)
}

extension Administration {
    /// Checks each row, reference and chunk. The hub may be running. Damaged chunks are marked in
    /// the ledger, so that devices are asked to upload them again.
    ///
    /// - Parameter progress: Is called after some items of each volume, and after some chunks.
    package func check(
        progress: @escaping @Sendable (CheckProgress) -> Void = { _ in }
    ) async throws -> CheckReport {
        var report = CheckReport()
        report.faults += try await ledger.integrityFaults()
        for volume in try await ledger.read({ try $0.volumes() }) {
            report.volumes += 1
            let before = report.items
            let found = try await ledger.read { transaction in
                try VolumeCheck(volume.id, transaction) { progress(.items(before + $0)) }.run()
            }
            report.faults += found.faults
            report.items += found.items
            report.revisions += found.revisions
        }
        report.faults += try await checkAccounts()
        try await checkChunks(&report, progress)
        report.quarantined = try await openBlobs().quarantinedPacks().count
        return report
    }

    /// Corrects the usage of accounts for which the ledger counts other bytes than they have.
    private func checkAccounts() async throws -> [String] {
        let wrong = try await ledger.read { transaction in
            try transaction.accounts().filter {
                try transaction.size(ofAccount: $0.id) != $0.used
            }
        }
        guard !wrong.isEmpty else { return [] }
        return try await ledger.write { transaction in
            // The usage is compared again in the write transaction, because a commit may have
            // changed it.
            try wrong.compactMap { old -> String? in
                guard let account = try transaction.account(old.id) else { return nil }
                let size = try transaction.size(ofAccount: account.id)
                guard account.used != size else { return nil }
                try transaction.setUsed(of: account.id, size)
                return "\(account.name) was charged for \(account.used) bytes and has \(size): "
                    + "this was set right."
            }
        }
    }

    private func checkChunks(
        _ report: inout CheckReport, _ progress: (CheckProgress) -> Void
    ) async throws {
        let blobs = try openBlobs()
        var after = (volume: Identifier.root, id: [UInt8]())
        while true {
            let from = after
            let page = try await ledger.read { try $0.chunks.page(after: from, limit: 500) }
            guard let last = page.last else { return }
            for chunk in page {
                report.chunks += 1
                report.bytes += UInt64(chunk.place.storedLength)
                guard let fault = try await fault(of: chunk, in: blobs) else { continue }
                report.faults.append(fault)
            }
            after = (last.volume, last.id.bytes)
            progress(.chunks(report.chunks))
        }
    }

    private func fault(of chunk: ChunkRow, in blobs: any BlobStore) async throws -> String? {
        var chunk = chunk
        while true {
            do throws(VolumeError) {
                _ = try await blobs.read(chunk.plain, at: chunk.place)
            } catch {
                // It says nothing about the chunk that a server cannot be used.
                guard error.code != .offline else { throw error }
                let old = chunk
                guard let now = try await ledger.read({ try $0.chunks.row(old.id, in: old.volume) })
                else { return nil }
                if now.place != old.place {
                    chunk = now
                    continue
                }
                try await ledger.write(.volume(now.volume)) { try $0.chunks.setDamaged(now) }
                return "\(error.message) \(now.uses) versions of volume \(now.volume) need it."
            }
            guard chunk.state == .damaged else { return nil }
            // The chunk was marked as damaged and can be read again: the disk or the pack was
            // restored.
            let whole = chunk
            let time = clock()
            try await ledger.write(.volume(whole.volume)) {
                try $0.chunks.put(
                    whole.id, plain: whole.plain, at: whole.place, in: whole.volume, time: time)
            }
            return nil
        }
    }
}
