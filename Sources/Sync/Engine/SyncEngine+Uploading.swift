import CLinux
import ChunkStore
import HubProtocol
import Journal
import Model
import Reconcile
import Volume

// Uploading contents, which must be at the hub before an operation names them.
extension SyncEngine {
    /// Returns the drafts whose contents are all at the hub. Small contents are uploaded now; large
    /// ones are queued for the background upload.
    func withContents(_ drafts: [KeyedDraft]) throws -> [KeyedDraft] {
        var small: [Identifier] = []
        var missing: Set<Identifier> = []
        var underway: Set<Int64> = []
        for keyed in drafts {
            for revision in keyed.draft.changes.compactMap(\.revision)
            where !ready.contains(revision.id) {
                if failedUploads.isWaiting(revision.id, at: lastExamined) {
                    missing.insert(revision.id)
                    continue
                }
                if revision.size <= UInt64(settings.largeBytes) {
                    small.append(revision.id)
                    continue
                }
                let job = TransferQueue.Upload(
                    item: keyed.draft.item, revision: revision.id, path: keyed.path)
                switch transfers.upload(job) {
                case .done: isReadable(revision.id)
                case .unreadable:
                    try contentsAreMissing(of: revision.id, keyed)
                    missing.insert(revision.id)
                case .overQuota:
                    postponeUpload(revision.id, keyed.path, because: SyncEngine.overQuota)
                    missing.insert(revision.id)
                case .underway: underway.insert(keyed.key)
                }
            }
        }
        if !small.isEmpty {
            var failed: Set<Identifier> = []
            let refused = try uploadOrRefuse(small, &failed)
            for id in small where !failed.contains(id) { isReadable(id) }
            for keyed in drafts {
                for id in keyed.draft.revisions where failed.contains(id) {
                    if refused.contains(id) {
                        postponeUpload(id, keyed.path, because: SyncEngine.overQuota)
                    } else {
                        try contentsAreMissing(of: id, keyed)
                    }
                }
            }
            missing.formUnion(failed)
        }
        var result: [KeyedDraft] = []
        var torn: Set<[Name]> = []
        for keyed in drafts {
            if !underway.contains(keyed.key), missing.isDisjoint(with: keyed.draft.revisions) {
                result.append(keyed)
            } else if let package = keyed.weakPackage {
                torn.insert(package)
            }
        }
        // The earlier versions of a document of which a later one, or the deletion, is sent now.
        for keyed in result
        where failedUploads.removePast(
            of: keyed.path, except: keyed.draft.revisions + keyed.draft.heldBack)
        {
            state.withLock { $0.problems[keyed.path] = nil }
        }
        return result.filter { keyed in keyed.weakPackage.map { !torn.contains($0) } ?? true }
    }

    static let unreadable =
        "It is not at the hub: some of its contents cannot be read on this device. Save it again, "
        + "or restore an older version."

    /// The number of failed attempts after which a version is not sent any more. Until then another
    /// device may upload its contents.
    private static let attempts = 3

    /// Neither the hub nor this device has contents of a version that is to be sent.
    private func contentsAreMissing(of revision: Identifier, _ keyed: KeyedDraft) throws {
        postponeUpload(revision, keyed.path)
        guard failedUploads.count(of: revision) >= SyncEngine.attempts else { return }
        let item = keyed.draft.item
        let withdrawn = try perform { [planner] table -> (path: [Name], isConflict: Bool)? in
            let isConflict = try planner.draft(item, in: &table).isOnlyConflict(revision)
            if isConflict {
                try planner.withdraw(conflict: revision, of: item, in: &table)
            } else {
                guard try table.local(item)?.revision == revision,
                    try self.wereLetGo(revision, of: item, table),
                    try planner.withdraw(current: item, in: &table)
                else { return nil }
            }
            let path = try table.journal.key(of: item).flatMap { (key) throws(VolumeError) in
                try table.journal.path(of: key)
            }
            return path.map { ($0, isConflict) }
        }
        guard let withdrawn else { return }
        log.warning(
            """
            version \(revision) of \(keyed.path) is not sent, because its contents are neither \
            here nor at the hub
            """)
        failedUploads.remove(revision)
        state.withLock { state in
            // What has arrived about the item can be applied now.
            (state.problems[keyed.path], state.isDueAgain) = (nil, true)
        }
        poke()
        if withdrawn.isConflict { volume.conflicts.tell(.resolved, [revision], withdrawn.path) }
    }

    /// Whether only a hub can have the contents of a version: they were never here, or were evicted
    /// after a hub had confirmed them. All others were saved on this device, and a part of them may
    /// be here. Such a version stays unsent, and the status reports it.
    private func wereLetGo(_ revision: Identifier, of item: Identifier, _ table: JournalTable)
        throws(VolumeError) -> Bool
    {
        let journal = table.journal
        if try journal.manifest(of: revision)?.isEmpty == true { return true }
        guard let key = try journal.key(of: item) else { return false }
        return try journal.absentVersion(of: key) == revision
    }

    private static let overQuota = "blocked: quota: The account's quota is used up."

    /// Uploads revisions together, and one by one if the quota does not suffice for all of them.
    ///
    /// - Returns: The revisions that exceed the quota; they are also in `failed`.
    private func uploadOrRefuse(_ revisions: [Identifier], _ failed: inout Set<Identifier>)
        throws -> Set<Identifier>
    {
        do {
            failed = try upload(revisions)
            return []
        } catch HubFault.refused(let failure) where failure.code == .quota {
            var refused: Set<Identifier> = []
            for id in revisions {
                do { failed.formUnion(try upload([id])) } catch HubFault.refused(let failure)
                    where failure.code == .quota
                {
                    refused.insert(id)
                }
            }
            failed.formUnion(refused)
            return refused
        }
    }

    private func isReadable(_ revision: Identifier) {
        ready.insert(revision)
        if let path = failedUploads.remove(revision) {
            state.withLock { $0.problems[path] = nil }
        }
    }

    /// Postpones a revision whose contents cannot be read or uploaded now, so that the others are
    /// sent first.
    func postponeUpload(
        _ revision: Identifier, _ path: String, because reason: String = SyncEngine.unreadable
    ) {
        ready.remove(revision)
        failedUploads.insert(
            revision, path: path, isOverQuota: reason == SyncEngine.overQuota,
            now: cl_clock_monotonic_ns())
        state.withLock { $0.problems[path] = reason }
        // What else there is to send about the document does not wait for a conflict version.
        if reason == SyncEngine.overQuota { poke() }
    }

    /// Until they are tried again, conflict versions that exceed the quota hold back nothing else.
    func holdBackWhatIsTooLarge() {
        let heldBack = failedUploads.overQuota(at: lastExamined)
        state.withLock { $0.heldBack = heldBack }
    }

    /// Uploads the chunks of these revisions that the hub does not have, in pieces; pieces that
    /// arrived stay there if the connection breaks.
    ///
    /// - Returns: The revisions whose contents cannot be read here now.
    @discardableResult
    func upload(_ revisions: [Identifier], of job: TransferQueue.Upload? = nil) throws -> Set<
        Identifier
    > {
        var owners: [Digest: (chunk: ChunkReference, revision: Identifier, item: Int64)] = [:]
        var order: [Digest] = []
        let found = try volume.journal.read { reader in
            try revisions.map { id in
                (id, try reader.manifest(of: id), try reader.item(ofVersion: id))
            }
        }
        var failed: Set<Identifier> = []
        for (id, bytes, item) in found {
            // A version that was never here has no list of chunks before the hub is asked for it.
            // The journal keeps the list, because the operation names the chunks.
            let known = bytes.map {
                $0.isEmpty ? try? volume.versions.content(of: id).manifest : Manifest(encoded: $0)
            }
            guard let item, let manifest = known ?? nil else {
                failed.insert(id)
                continue
            }
            for chunk in manifest.entries.lazy.flatMap(\.chunks) {
                let name = account.keys.keyed(chunk.id)
                if owners.updateValue((chunk, id, item), forKey: name) == nil {
                    order.append(name)
                }
            }
        }
        let progress = job.map { job in
            Progress(
                self, job.item, job.path, .up,
                total: owners.values.reduce(0) { $0 + UInt64($1.chunk.length) })
        }
        var start = 0
        while start < order.count {
            let ids = Array(order[start..<min(start + HubLimits.ids, order.count)])
            start += ids.count
            let answer = try client.have(account.volume, ids)
            if job == nil { collection = answer.collection }
            var frames = Frames()
            for (index, id) in ids.enumerated() {
                guard let owner = owners[id] else { continue }
                if answer.present[index] {
                    progress?.add(Int(owner.chunk.length))
                    continue
                }
                guard let bytes = try? volume.versions.bytes(of: owner.chunk, item: owner.item)
                else {
                    failed.insert(owner.revision)
                    continue
                }
                frames.append(id, bytes)
                if frames.isFull { try flush(&frames, progress) }
            }
            if !frames.isEmpty { try flush(&frames, progress) }
        }
        return failed
    }

    private func flush(_ frames: inout Frames, _ progress: Progress?) throws {
        guard !isEnding else { throw VolumeError(.cancelled, "The sync engine is stopping.") }
        upThrottle.pass(frames.bytes.count)
        let answer = try client.upload(account.volume, frames.bytes)
        if let bad = answer.bad.first {
            throw HubFault.invalidAnswer("The hub refused a chunk: \(bad.message)")
        }
        progress?.add(frames.plain)
        unsafe?(true)
        frames = Frames()
    }
}

/// Chunks that are uploaded by one request.
private struct Frames {
    var bytes: [UInt8] = []
    var plain = 0
    var count = 0

    var isEmpty: Bool { count == 0 }
    /// Whether the next chunk may not fit, because it may have the maximum length.
    var isFull: Bool {
        count == HubLimits.chunksPerUpload || bytes.count > HubLimits.uploadBytes - (4 << 20)
    }

    mutating func append(_ id: Digest, _ chunk: [UInt8]) {
        let packed = chunk.count > 4096 ? Compression.compress(chunk) : nil
        ChunkFrame(id: id, codec: packed == nil ? .plain : .zstd, bytes: packed ?? chunk)
            .append(to: &bytes)
        plain += chunk.count
        count += 1
    }
}
