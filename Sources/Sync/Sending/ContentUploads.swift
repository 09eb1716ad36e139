import CLinux
import HubProtocol
import Journal
import Logging
import Model
import Reconcile
import Volume

/// The contents that must be at the hub before an operation names them: which versions are there
/// completely, and which could not be read or uploaded. Only the engine's thread uses it.
final class ContentUploads: EnginePart {
    let parts: EngineParts
    private let uploader: ChunkUploader
    private let transfers: TransferQueue
    /// Revisions whose chunks are all at the hub.
    private var ready: Set<Identifier> = []
    private var failedUploads = FailedUploads()
    /// The collection that the hub's last answer about chunks is valid in.
    var collection: UInt64?

    init(_ parts: EngineParts, uploader: ChunkUploader, transfers: TransferQueue) {
        (self.parts, self.uploader, self.transfers) = (parts, uploader, transfers)
    }

    /// Everything is compared with the hub again, which may have lost contents.
    func startOver() { ready = [] }

    /// The operation that names the revision was answered.
    func sent(_ revision: Identifier) { ready.remove(revision) }

    /// When an upload is tried again of those that waited when the changes were last examined.
    func nextTime(after examined: Int64) -> Int64 { failedUploads.next(after: examined) ?? .max }

    /// The revisions that cannot be sent now: they wait for another attempt, or are being uploaded.
    func waiting(at now: Int64) -> Set<Identifier> {
        failedUploads.waiting(at: now).union(transfers.beingUploaded)
    }

    /// Returns the drafts whose contents are all at the hub. Small contents are uploaded now; large
    /// ones are queued for the background upload.
    func withContents(_ drafts: [KeyedDraft], examined: Int64) throws -> [KeyedDraft] {
        var small: [Identifier] = []
        var missing: Set<Identifier> = []
        var underway: Set<Int64> = []
        for keyed in drafts {
            for revision in keyed.draft.changes.compactMap(\.revision)
            where !ready.contains(revision.id) {
                if failedUploads.isWaiting(revision.id, at: examined) {
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
                    postpone(revision.id, keyed.path, because: ContentUploads.overQuota)
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
                        postpone(id, keyed.path, because: ContentUploads.overQuota)
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

    /// Forgets the versions that are no longer to be sent: another device has sent them, or the hub
    /// has something newer.
    ///
    /// - Parameters:
    ///   - drafts: All that is to be sent.
    ///   - examined: When the drafts were examined, in monotonic nanoseconds.
    func keep(_ drafts: [KeyedDraft], examined: Int64) {
        guard !failedUploads.isEmpty else { return }
        var paths: [Identifier: String] = [:]
        for keyed in drafts {
            for id in keyed.draft.revisions { paths[id] = keyed.path }
        }
        let past = failedUploads.keep(paths, examined: examined)
        let own = [ContentUploads.unreadable, ContentUploads.overQuota]
        state.withLock { state in
            for path in past where state.problems[path].map(own.contains) ?? false {
                state.problems[path] = nil
            }
        }
    }

    private static let unreadable =
        "It is not at the hub: some of its contents cannot be read on this device. Save it again, "
        + "or restore an older version."

    /// The number of failed attempts after which a version is not sent any more. Until then another
    /// device may upload its contents.
    private static let attempts = 3

    /// Neither the hub nor this device has contents of a version that is to be sent.
    private func contentsAreMissing(of revision: Identifier, _ keyed: KeyedDraft) throws {
        postpone(revision, keyed.path)
        guard failedUploads.count(of: revision) >= ContentUploads.attempts else { return }
        let item = keyed.draft.item
        let withdrawn = try journal.perform {
            [planner = journal.planner] table -> (path: [Name], isConflict: Bool)? in
            guard try table.journal.wereLetGo(revision, of: item) else { return nil }
            let isConflict = try planner.comparison.draft(item, in: &table).isOnlyConflict(revision)
            if isConflict {
                try planner.unreadable.withdraw(conflict: revision, of: item, in: &table)
            } else {
                guard try table.local(item)?.revision == revision,
                    try planner.unreadable.withdraw(current: item, in: &table)
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
        threads.poke()
        if withdrawn.isConflict { volume.conflicts.tell(.resolved, [revision], withdrawn.path) }
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
    func postpone(
        _ revision: Identifier, _ path: String, because reason: String = ContentUploads.unreadable
    ) {
        ready.remove(revision)
        failedUploads.insert(
            revision, path: path, isOverQuota: reason == ContentUploads.overQuota,
            now: cl_clock_monotonic_ns())
        state.withLock { $0.problems[path] = reason }
        // What else there is to send does not wait for it: a full batch did not examine all
        // changes, and of the document only a conflict version may be too large.
        threads.poke()
    }

    /// Until they are tried again, conflict versions that exceed the quota hold back nothing else.
    func holdBackWhatIsTooLarge(at examined: Int64) {
        let heldBack = failedUploads.overQuota(at: examined)
        state.withLock { $0.heldBack = heldBack }
    }

    /// Uploads the chunks of these revisions that the hub does not have.
    ///
    /// - Returns: The revisions whose contents cannot be read here now.
    func upload(_ revisions: [Identifier]) throws -> Set<Identifier> {
        try uploader.upload(revisions) { collection = $0 }
    }
}

extension Reader {
    /// Whether only a hub can have the contents of a version: they were never here, or were evicted
    /// after a hub had confirmed them. All others were saved on this device, and a part of them may
    /// be here, although it cannot be read now. Such a version stays unsent, and the status reports
    /// it.
    func wereLetGo(_ revision: Identifier, of item: Identifier) throws(VolumeError) -> Bool {
        if try manifest(of: revision)?.isEmpty == true { return true }
        if let key = try key(of: item), try absentVersion(of: key) == revision { return true }
        // A version that was evicted may have become a conflict version.
        guard try version(id: revision)?.version.wasAtHub == true else { return false }
        return try !isWhole(revision)
    }
}
