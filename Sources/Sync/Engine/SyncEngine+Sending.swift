import CLinux
import ChunkStore
import HubProtocol
import Journal
import Model
import Reconcile
import Volume

// Sending changes from the tree to the hub.
extension SyncEngine {
    /// Sends local changes to the hub. Returns false if there is nothing to send now.
    func send() throws -> Bool {
        guard try !session().isFresh else { return false }
        let drafts = try settledDrafts()
        // A reader's changes stay here; examining them has shown which there are.
        guard state.withLock({ $0.standing.maySend }) else { return false }
        var isBusy = false
        if !drafts.isEmpty {
            let uploaded = try withContents(drafts)
            if !uploaded.isEmpty { isBusy = try enqueue(uploaded) }
        }
        return try commit() || isBusy
    }

    /// The changes of one item that must be sent, with the item's key in the journal.
    struct KeyedDraft: Sendable {
        var key: Int64
        var draft: ItemDraft
        var path: String
        /// The name that the change frees at the hub, and the name that it takes there.
        var vacates: HubName?
        var takes: HubName?
        /// The weak package whose changes must be sent together with this one.
        var weakPackage: [Name]?
        /// Whether it deletes a document that had not been saved for a long time.
        var isLongStanding = false
    }

    struct HubName: Hashable, Sendable {
        var parent: Identifier
        var name: String
    }

    private static let batch = 1000

    /// Returns drafts whose delay is over; directories come before their contents.
    private func settledDrafts() throws -> [KeyedDraft] {
        let now = cl_clock_monotonic_ns()
        lastExamined = now
        holdBackWhatIsTooLarge()
        if state.withLock({ $0.isBrakeReleased }) {
            for (key, one) in held where one.isDeletion { held[key]?.until = now }
        }
        let waiting = Set(held.lazy.filter { $0.value.until > now }.map(\.key))
        // These delayed items did not free a name when they were last examined; by now another item
        // may have taken their name.
        let staying = Set(held.lazy.filter { $0.value.vacates == nil }.map(\.key))
        let writes = lastWrites()
        let (drafted, leaving, unrecorded) = try perform { [self, brake] table in
            var found: [KeyedDraft] = []
            var leaving: [KeyedDraft] = []
            var packages: Set<[Name]> = []
            var cursor: Int64 = 0
            // The rest of a weak package is added even if the batch is full.
            while found.count < SyncEngine.batch || !packages.isEmpty {
                let keys = try table.journal.hub.unsent(after: cursor, limit: 1024)
                guard let last = keys.last else { break }
                cursor = last
                for key in keys where waiting.contains(key) && staying.contains(key) {
                    let draft = try table.draft(key, planner, volume, brake)
                    if let draft, draft.vacates != nil { leaving.append(draft) }
                }
                for key in keys where !waiting.contains(key) {
                    if found.count >= SyncEngine.batch {
                        let package = try table.journal.path(of: key).flatMap(Volume.weakPackage)
                        guard let package, packages.contains(package) else { continue }
                    }
                    guard let draft = try table.draft(key, planner, volume, brake) else {
                        continue
                    }
                    found.append(draft)
                    if let package = draft.weakPackage { packages.insert(package) }
                }
            }
            guard !packages.isEmpty else { return (found, leaving, Set<[Name]>()) }
            let unrecorded = try volume.safety.unrecorded(below: [], limit: .max, table.journal)
            let parts = Set(unrecorded.compactMap { Volume.weakPackage(of: $0.path) })
            return (found, leaving, parts)
        }
        let found = drafted.filter { !isRefused($0, now: now) }
        // Items that have nothing to send any more are no longer delayed. A full batch did not
        // examine all of them, and the brake must still count the delayed deletions.
        if drafted.count < SyncEngine.batch {
            let told = Set(found.lazy.map(\.key))
            held = held.filter { waiting.contains($0.key) || told.contains($0.key) }
        }
        for keyed in leaving { held[keyed.key]?.vacates = keyed.vacates }
        let isNew = hold(found + leaving.filter(\.draft.isDeletion), now: now)
        // A full batch may have left items that have not been examined.
        if isNew, drafted.count >= SyncEngine.batch { poke() }
        let settled = found.filter { held[$0.key]?.until ?? now <= now }
        watch(found)
        let drafts = try braked(inOrder(settled, now: now))
        // A weak package waits as a whole if the hub has not answered a version of one of its files
        // yet.
        let open = Set(drafts.lazy.filter(\.draft.isWaiting).compactMap(\.weakPackage))
        let ready = drafts.filter { keyed in
            !keyed.draft.isWaiting && keyed.weakPackage.map { !open.contains($0) } ?? true
        }
        return whole(ready, writes: writes, unrecorded: unrecorded, now: now)
    }

    /// Returns whether the hub has recently refused the same change.
    private func isRefused(_ keyed: KeyedDraft, now: Int64) -> Bool {
        guard let refusal = refusals[keyed.key] else { return false }
        let draft = refusal.draft ?? keyed.draft
        refusals[keyed.key]?.draft = draft
        guard draft.tells(sameAs: keyed.draft) else {
            refusals[keyed.key] = nil
            return false
        }
        return refusal.until > now
    }

    /// Leaves out drafts that take a name which another delayed item is about to free. That item
    /// must be sent first, and is no longer delayed.
    private func inOrder(_ drafts: [KeyedDraft], now: Int64) -> [KeyedDraft] {
        var leaving: [HubName: Int64] = [:]
        for (key, held) in held where held.until > now {
            if let name = held.vacates { leaving[name] = key }
        }
        guard !leaving.isEmpty else { return drafts }
        return drafts.filter { keyed in
            guard let name = keyed.takes, let key = leaving[name], key != keyed.key else {
                return true
            }
            held[key]?.until = now
            poke()
            return false
        }
    }

    /// Delays changes for a moment so that related changes are sent together: the second half of a
    /// save by renaming, or the rest of a directory that is being removed, however slowly.
    ///
    /// - Returns: Whether one of the changes is new.
    private func hold(_ found: [KeyedDraft], now: Int64) -> Bool {
        var (isNew, isRemoving) = (false, false)
        for keyed in found where held[keyed.key]?.isDeletion != keyed.draft.isDeletion {
            let seconds = pause(for: keyed.draft, now: now)
            held[keyed.key] = Held(
                since: now, until: now + Timestamp.span(seconds: seconds),
                isDeletion: keyed.draft.isDeletion, isLongStanding: keyed.isLongStanding,
                vacates: keyed.vacates, weakPackage: keyed.weakPackage)
            isNew = true
            if keyed.draft.isDeletion { isRemoving = true }
        }
        guard isRemoving else { return isNew }
        // Deletions wait for each other, so that the brake can count them before the first ones are
        // sent.
        let still = now + Timestamp.span(seconds: settings.deletionSeconds)
        let longest = Timestamp.span(seconds: settings.removalSeconds)
        for (key, one) in held where one.isDeletion {
            held[key]?.until = max(one.until, min(still, one.since + longest))
        }
        return true
    }

    private func pause(for draft: ItemDraft, now: Int64) -> Double {
        if draft.isDeletion { return settings.deletionSeconds }
        var seconds = 0.0
        for change in draft.changes {
            switch change {
            // A settled conflict is sent at once, because other people are shown it.
            case .resolve: return 0
            case .edit(let revision) where revision.parents.count > 1: return 0
            case .create: seconds = max(seconds, settings.creationSeconds)
            case .edit:
                seconds = max(seconds, Double(editPace.pause(for: draft.item, now: now)) / 1e9)
            default: seconds = max(seconds, settings.moveSeconds)
            }
        }
        return seconds
    }

    /// Holds back a mass deletion until a person confirms it (decision table, row 30).
    private func braked(_ drafts: [KeyedDraft]) throws -> [KeyedDraft] {
        let deletions = held.values.count(where: \.isDeletion)
        let isReleased = state.withLock { $0.isBrakeReleased }
        if isReleased { brake.release() }
        guard deletions > 0 else {
            state.withLock { ($0.brake, $0.isBrakeReleased) = (nil, false) }
            return drafts
        }
        let items = try volume.journal.read { try $0.hub.mirrorCount() }
        let verdict = brake.judge(
            waiting: deletions,
            longStanding: held.values.count { $0.isDeletion && $0.isLongStanding }, of: items,
            at: cl_clock_monotonic_ns())
        let isHolding = verdict != .none && !isReleased
        state.withLock { $0.brake = isHolding ? Brake(count: deletions, items: items) : nil }
        guard isHolding else { return drafts }
        func isHeld(_ keyed: KeyedDraft) -> Bool {
            keyed.draft.isDeletion && (verdict == .all || keyed.isLongStanding)
        }
        // Held deletions are examined again later, so that they do not fill each batch; a release
        // ends this.
        let again = cl_clock_monotonic_ns() + Timestamp.span(seconds: settings.brakeSeconds)
        for keyed in drafts where isHeld(keyed) { held[keyed.key]?.until = again }
        return drafts.filter { !isHeld($0) }
    }

    // MARK: Operations

    /// Gives the drafts their operation numbers. Returns false if none could get one.
    private func enqueue(_ drafts: [KeyedDraft]) throws -> Bool {
        let done = try perform { [planner, volume] table in
            // The operations of a weak package must be consecutive.
            let packages = Dictionary(grouping: drafts, by: \.weakPackage)
            var all = packages[nil] ?? []
            for (package, drafts) in packages where package != nil {
                if try table.areCurrent(drafts, planner) { all += drafts }
            }
            return try table.enqueue(all, planner, volume)
        }
        let now = cl_clock_monotonic_ns()
        var numbers: [[Name]: UInt64] = [:]
        for keyed in done {
            held[keyed.key] = nil
            if keyed.isLongStanding { brake.told(keyed.key, at: now) }
            if let package = keyed.weakPackage {
                if numbers[package] == nil {
                    lastGroup += 1
                    numbers[package] = lastGroup
                }
                groups[keyed.draft.item] = numbers[package]
            }
            if keyed.draft.changes.contains(where: { $0.revision != nil }) {
                editPace.sent(keyed.draft.item, now: now)
            }
        }
        return !done.isEmpty
    }

    /// Sends the operations that the hub has not answered. Returns false if there are none.
    private func commit() throws -> Bool {
        let session = try session()
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
            cursor: session.cursor, run: session.run, collection: collection,
            operations: entries, sent: cl_clock_realtime_ns())
        if let last = entries.last?.number, last > session.sentUpTo {
            try perform { [planner] table in try planner.willSend(upTo: last, in: &table) }
        }
        let answer: CommitAnswer
        do throws(HubFault) {
            answer = try client.commit(account.volume, request)
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
        clock.learn(
            sent: request.sent, received: answer.received, answered: answer.answered,
            came: cl_clock_realtime_ns())
        volume.retention.hear(hubTime: answer.answered)
        // Refusals are handled first: once operations count as answered, they may leave the outbox
        // and are not sent again.
        for (entry, result) in zip(entries, answer.results) {
            guard let refusal = result.refusal else { continue }
            try refused(entry, refusal)
        }
        try doubt.note(answer, to: entries, volume.journal, state)
        lastSent = entries.last?.number ?? lastSent
        signal.change {
            state.withLock {
                $0.head = max($0.head, answer.head)
                $0.connection = .up
            }
        }
        for entry in entries {
            if let id = entry.change.revision?.id { ready.remove(id) }
            groups[entry.item] = nil
        }
    }

    /// Returns as many operations as fit one request, up to the first one without contents here.
    private func entries(of rows: [OutboxRow], _ reader: Reader) throws(VolumeError)
        -> [OperationEntry]
    {
        var entries: [OperationEntry] = []
        var bytes = 0
        for row in rows {
            guard let operation = Operation(encoded: row.operation) else {
                throw VolumeError(.damaged, "Operation \(row.number) of the outbox is damaged.")
            }
            var content: RevisionContent?
            if let revision = operation.change.revision {
                content = try self.content(of: revision.id, reader)
                guard let content else { break }
                bytes += content.manifest.bytes.count
            }
            if bytes > 4 << 20 && !entries.isEmpty || entries.count == HubLimits.operations {
                return withoutSplitGroup(entries, before: groups[operation.item])
            }
            entries.append(
                OperationEntry(operation, content: content, group: groups[operation.item]))
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
        let chunks = manifest.chunkIDs.map(account.keys.keyed).sorted()
        // The manifest is encoded again, because an older version of Concord may have recorded
        // set-ID bits.
        return RevisionContent(manifest: manifest.encoded, chunks: chunks)
    }
}
