import CLinux
import ChunkStore
import HubProtocol
import Journal
import Logging
import Model
import Reconcile
import Volume

/// Gives changes their operation numbers, and sends the operations of the journal's outbox. It
/// holds which of them the hub has answered. Only the engine's thread uses it.
final class OutboxSender: EnginePart {
    let parts: EngineParts
    let uploads: ContentUploads
    /// The changes that the hub has refused.
    let refusals: RefusedChanges
    /// The last operation that the hub has answered since the last failure. Later operations in the
    /// outbox are sent again.
    var lastSent: UInt64 = 0
    /// The groups of weak packages, which the hub must apply completely or not at all, by the items
    /// in the outbox.
    private var groups: [Identifier: OperationGroup] = [:]
    private var lastPackage: UInt64 = 0
    var doubt = Doubt()

    init(_ parts: EngineParts, uploads: ContentUploads) {
        (self.parts, self.uploads) = (parts, uploads)
        refusals = RefusedChanges(parts)
    }

    /// The right to send has changed, so everything is sent again, also what was refused.
    func startOver() {
        lastSent = 0
        refusals.forgetAll()
    }

    /// Gives the drafts their operation numbers. Returns those that got one.
    func enqueue(_ drafts: [KeyedDraft]) throws -> [KeyedDraft] {
        let done = try journal.perform { [planner = journal.planner, volume] table in
            // The operations of a weak package must be consecutive.
            let packages = Dictionary(grouping: drafts, by: \.weakPackage)
            var all = packages[nil] ?? []
            for (package, drafts) in packages where package != nil {
                if try table.areCurrent(drafts, planner) { all += drafts }
            }
            return try table.enqueue(all, planner, volume)
        }
        var packageGroups: [[Name]: OperationGroup] = [:]
        for keyed in done {
            guard let package = keyed.weakPackage else { continue }
            if packageGroups[package] == nil {
                lastPackage += 1
                packageGroups[package] = .package(lastPackage)
            }
            groups[keyed.draft.item] = packageGroups[package]
        }
        return done
    }

    /// Sends the operations that the hub has not answered. Returns false if there are none.
    func commit() throws -> Bool {
        let session = try journal.session()
        let sent = lastSent
        let (entries, first) = try volume.journal.read { reader in
            let rows = try reader.hub.outbox(limit: HubLimits.operations + 1, after: sent)
            return (try self.entries(of: rows, reader), rows.first)
        }
        guard !entries.isEmpty else {
            if let first { throw try contentsMissing(first) }
            return false
        }
        let request = CommitRequest(
            device: session.device, epoch: session.epoch, volumeEpoch: session.volumeEpoch,
            cursor: session.cursor, run: session.run, collection: uploads.collection,
            operations: entries, sent: cl_clock_realtime_ns())
        if let last = entries.last?.number, last > session.sentUpTo {
            try journal.perform { [planner = journal.planner] table in
                try planner.willSend(upTo: last, in: &table)
            }
        }
        let answer: CommitAnswer
        do throws(HubFault) {
            answer = try client.commit(journal.account.volume, request)
        } catch {
            guard case .refused(let failure) = error else { throw error }
            try again(failure, entries)
            return true
        }
        try answered(answer, request, entries)
        return true
    }

    private func answered(
        _ answer: CommitAnswer, _ request: CommitRequest, _ entries: [OperationEntry]
    ) throws {
        journal.clock.learn(
            sent: request.sent, received: answer.received, answered: answer.answered,
            came: cl_clock_realtime_ns())
        volume.retention.hear(hubTime: answer.answered)
        // Refusals are handled first: once operations count as answered, they may leave the outbox
        // and are not sent again.
        for (entry, result) in zip(entries, answer.results) {
            guard let refusal = result.refusal else { continue }
            // In the group of one item, another operation of that item is the reason.
            let isReason = refusal.code != .group || groups[entry.item] != nil
            try refusals.add(entry, refusal, isReason: isReason)
        }
        try doubt.note(answer, to: entries, volume.journal, state)
        lastSent = entries.last?.number ?? lastSent
        threads.change {
            state.withLock {
                $0.head = max($0.head, answer.head)
                $0.connection = .up
            }
        }
        for entry in entries {
            if let id = entry.change.revision?.id { uploads.sent(id) }
            groups[entry.item] = nil
        }
    }

    /// Returns as many operations as fit one request, up to the first one without contents here.
    private func entries(of rows: [OutboxRow], _ reader: Reader) throws(VolumeError)
        -> [OperationEntry]
    {
        let operations = try rows.map { (row) throws(VolumeError) in
            guard let operation = Operation(encoded: row.operation) else {
                throw VolumeError(.damaged, "Operation \(row.number) of the outbox is damaged.")
            }
            return operation
        }
        let numbers = operations.groups(ofPackages: groups).map { $0?.number }
        let fences = try rows.first.map { (row) throws(VolumeError) in
            try reader.hub.fences(from: row.number)
        }
        var entries: [OperationEntry] = []
        var size = RequestSize()
        for (operation, group) in zip(operations, numbers) {
            var content: RevisionContent?
            if let revision = operation.change.revision {
                content = try self.content(of: revision.id, reader)
                guard content != nil else { break }
            }
            guard size.add(content) else {
                return withoutSplitGroup(entries, before: group)
            }
            entries.append(
                OperationEntry(
                    operation, content: content, group: group, fence: fences?[operation.id.number]))
        }
        return entries
    }

    /// Leaves the last group for the next request if that request has the rest of it. A group that
    /// fills a whole request is sent without being a group.
    private func withoutSplitGroup(_ entries: [OperationEntry], before next: UInt64?)
        -> [OperationEntry]
    {
        guard let next, entries.last?.group == next else { return entries }
        let whole = Array(entries.prefix { $0.group != next })
        guard whole.isEmpty else { return whole }
        return entries.map { entry in
            var entry = entry
            entry.group = nil
            return entry
        }
    }

    /// Returns nil if the version's manifest is not on this device.
    private func content(of revision: Identifier, _ reader: Reader) throws(VolumeError)
        -> RevisionContent?
    {
        guard let bytes = try reader.manifest(of: revision), let manifest = Manifest(encoded: bytes)
        else { return nil }
        let chunks = manifest.chunkIDs.map(journal.account.keys.keyed).sorted()
        // The manifest is encoded again, because an older version of Concord may have recorded
        // set-ID bits.
        return RevisionContent(manifest: manifest.encoded, chunks: chunks)
    }
}
