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

extension Administration {
    /// Checks each row, reference and chunk. The hub may be running. Damaged chunks are marked in
    /// the ledger, so that devices are asked to upload them again.
    package func check(progress: (_ chunks: Int) -> Void = { _ in }) async throws -> CheckReport {
        var report = CheckReport()
        report.faults += try await ledger.integrityFaults()
        for volume in try await ledger.read({ try $0.volumes() }) {
            report.volumes += 1
            let found = try await ledger.read { try VolumeCheck(volume.id, $0).run() }
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
        _ report: inout CheckReport, _ progress: (_ chunks: Int) -> Void
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
            progress(report.chunks)
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

/// Checks each reference of one volume in one snapshot.
private struct VolumeCheck {
    let volume: Identifier
    let transaction: any LedgerTransaction
    private var report = CheckReport()

    init(_ volume: Identifier, _ transaction: any LedgerTransaction) {
        self.volume = volume
        self.transaction = transaction
    }

    func run() throws -> CheckReport {
        var check = self
        try check.checkMembers()
        try check.checkItems()
        try check.checkRevisions()
        return check.report
    }

    private mutating func add(_ fault: String) {
        report.faults.append("Volume \(volume): \(fault)")
    }

    private mutating func checkMembers() throws {
        guard let account = try transaction.volume(volume)?.account else { return }
        let owners = try transaction.membership.members(of: volume).count { $0.role == .owner }
        let role = try transaction.membership.role(of: account, in: volume)
        if owners != 1 || role != .owner { add("its account is not its only owner.") }
        let lost = try transaction.row(
            """
            SELECT count(*) FROM members WHERE volume = $1 AND folder IS NOT NULL
            AND folder NOT IN (SELECT id FROM folders WHERE volume = $1)
            """, [.id(volume)])
        if try lost?.integer(0) != 0 { add("a member's folder is unknown.") }
    }

    private mutating func checkItems() throws {
        let head = try transaction.volume(volume)?.head ?? 0
        var names: [String: Identifier] = [:]
        for row in try transaction.rows(
            """
            SELECT items.id, items.state, items.sequence, parents.state FROM items
            LEFT JOIN items AS parents
            ON parents.volume = items.volume AND parents.id = items.parent
            WHERE items.volume = $1
            """, [.id(volume)])
        {
            report.items += 1
            let id = try row.id(0)
            guard let item = ItemState(encoded: try row.bytes(1)) else {
                add("item \(id) cannot be read.")
                continue
            }
            let sequence = try row.count(2)
            if sequence > head { add("item \(id) has a sequence after the head.") }
            if sequence < item.sequence {
                add("item \(id) has an older sequence number in its row than in its state.")
            }
            try checkRevisions(of: item)
            // Devices refuse an invalid item, and with it all later changes.
            if let objection = item.objection { add("item \(id): \(objection)") }
            guard item.life.isAlive else { continue }
            let parent = row.isNull(3) ? nil : ItemState(encoded: try row.bytes(3))
            if item.placement.parent != .root, parent?.kind != .directory {
                add("item \(id) has a parent that is not a directory.")
            } else if let parent, !parent.life.isAlive {
                add("item \(id) is in a directory that is in the trash.")
            }
            let place = "\(item.placement.parent)/\(hexadecimal(item.nameKey.bytes))"
            if let other = names.updateValue(id, forKey: place) {
                add("items \(other) and \(id) have the same name in one directory.")
            }
        }
    }

    private mutating func checkRevisions(of item: ItemState) throws {
        // Only an empty file may have no version.
        if item.kind == .package, item.current == nil { add("package \(item.id) has no version.") }
        for revision in [item.current].compactMap({ $0 }) + item.conflicts
        where try transaction.revision(revision.id, in: volume) == nil {
            add("version \(revision.id) of item \(item.id) is missing.")
        }
    }

    private mutating func checkRevisions() throws {
        var uses: [Digest: Int64] = [:]
        var lost: [Digest: Identifier] = [:]
        for row in try transaction.rows(
            "SELECT id, chunks FROM revisions WHERE volume = $1", [.id(volume)])
        {
            report.revisions += 1
            for chunk in PackedIDs(bytes: try row.bytes(1))?.ids ?? [] {
                uses[chunk, default: 0] += 1
                lost[chunk] = try row.id(0)
            }
        }
        for row in try transaction.rows(
            "SELECT chunks FROM loose_uses WHERE volume = $1", [.id(volume)])
        {
            for chunk in PackedIDs(bytes: try row.bytes(0))?.ids ?? [] {
                uses[chunk, default: 0] += 1
            }
        }
        for row in try transaction.rows(
            "SELECT id, uses, state FROM chunks WHERE volume = $1", [.id(volume)])
        {
            let id = try row.digest(0)
            let named = uses[id] ?? 0
            lost[id] = nil
            if try row.integer(1) != named {
                add("chunk \(id) counts \(try row.integer(1)) versions, and \(named) name it.")
            }
            if named > 0, try row.integer(2) == ChunkState.condemned.rawValue {
                add("chunk \(id) is condemned, and \(named) versions name it.")
            }
        }
        for (chunk, revision) in lost.sorted(by: { $0.key < $1.key }) {
            add("chunk \(chunk) of version \(revision) is missing.")
        }
    }
}
