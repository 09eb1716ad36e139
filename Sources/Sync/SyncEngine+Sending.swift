import CLinux
import ChunkStore
import HubProtocol
import Journal
import Model
import Reconcile
import Volume

// From the tree to the hub.
extension SyncEngine {
    /// Tells the hub what changed here; false when there is nothing to tell now.
    func send() throws -> Bool {
        guard try !session().isFresh else { return false }
        let drafts = try settledDrafts()
        var isBusy = false
        if !drafts.isEmpty {
            let uploaded = try withContents(drafts)
            if !uploaded.isEmpty { isBusy = try enqueue(uploaded) }
        }
        return try commit() || isBusy
    }

    /// What an item has to tell, with its key in the journal.
    struct KeyedDraft: Sendable {
        var key: Int64
        var draft: Exchange.Draft
        var path: String
        /// The name that it leaves at the hub, and the one that it takes there.
        var vacates: HubName?
        var takes: HubName?
        /// What it is to be told together with.
        var weakPackage: [Name]?
        /// The deletion of a document that had been left alone for long.
        var isLongStanding = false
    }

    struct HubName: Hashable, Sendable {
        var parent: Identifier
        var name: String
    }

    private static let batch = 1000

    /// Drafts whose time has come, those of directories before what is in them.
    private func settledDrafts() throws -> [KeyedDraft] {
        let now = cl_clock_monotonic_ns()
        lookedAt = now
        if state.withLock({ $0.isBrakeReleased }) {
            for (key, one) in held where one.isDeletion { held[key]?.until = now }
        }
        let waiting = Set(held.lazy.filter { $0.value.until > now }.map(\.key))
        // Items that wait, with an edit for example, and did not leave their name when they were
        // looked at: by now they may have left it to another item.
        let staying = Set(held.lazy.filter { $0.value.vacates == nil }.map(\.key))
        let writes = lastWrites()
        let (drafted, leaving, unrecorded) = try perform { [self, brake] table in
            var found: [KeyedDraft] = []
            var leaving: [KeyedDraft] = []
            var packages: Set<[Name]> = []
            var cursor: Int64 = 0
            // The rest of a weak package comes along, however many there are.
            while found.count < SyncEngine.batch || !packages.isEmpty {
                let keys = try table.journal.unsent(after: cursor, limit: 1024)
                guard let last = keys.last else { break }
                cursor = last
                for key in keys where waiting.contains(key) && staying.contains(key) {
                    let draft = try table.draft(key, exchange, volume, brake)
                    if let draft, draft.vacates != nil { leaving.append(draft) }
                }
                for key in keys where !waiting.contains(key) {
                    if found.count >= SyncEngine.batch {
                        let package = try table.journal.path(of: key).flatMap(Volume.weakPackage)
                        guard let package, packages.contains(package) else { continue }
                    }
                    guard let draft = try table.draft(key, exchange, volume, brake) else {
                        continue
                    }
                    found.append(draft)
                    if let package = draft.weakPackage { packages.insert(package) }
                }
            }
            guard !packages.isEmpty else { return (found, leaving, Set<[Name]>()) }
            let unrecorded = try volume.unrecorded(below: [], limit: .max, table.journal)
            let parts = Set(unrecorded.compactMap { Volume.weakPackage(of: $0.path) })
            return (found, leaving, parts)
        }
        let found = drafted.filter { !isRefused($0, now: now) }
        // What has nothing to tell any more holds nothing up; but where the batch is full, not all
        // were looked at, and deletions that are held count for the brake.
        if drafted.count < SyncEngine.batch {
            let told = Set(found.lazy.map(\.key))
            held = held.filter { waiting.contains($0.key) || told.contains($0.key) }
        }
        for keyed in leaving { held[keyed.key]?.vacates = keyed.vacates }
        let isNew = hold(found + leaving.filter(\.draft.isDeletion), now: now)
        // There may be more that nobody has looked at yet.
        if isNew, drafted.count >= SyncEngine.batch { poke() }
        let settled = found.filter { held[$0.key]?.until ?? now <= now }
        watch(found)
        let drafts = try braked(inOrder(settled, now: now))
        // All of a weak package waits where a version of one of its files is not answered yet.
        let open = Set(drafts.lazy.filter(\.draft.isWaiting).compactMap(\.weakPackage))
        let ready = drafts.filter { keyed in
            !keyed.draft.isWaiting && keyed.weakPackage.map { !open.contains($0) } ?? true
        }
        return whole(ready, writes: writes, unrecorded: unrecorded, now: now)
    }

    /// Whether the hub has refused just that a moment ago.
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

    /// Without those that take a name which another one is about to leave: that one is first, and
    /// does not wait any longer.
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

    /// A change waits for a moment for those that belong to it: the second half of a save by
    /// renaming, the rest of a tree that is being removed, however slowly.
    ///
    /// - Returns: Whether any of them was not known yet.
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
        // Else the first of many would be gone before anyone sees that they are many (the brake).
        let still = now + Timestamp.span(seconds: settings.deletionSeconds)
        let longest = Timestamp.span(seconds: settings.removalSeconds)
        for (key, one) in held where one.isDeletion {
            held[key]?.until = max(one.until, min(still, one.since + longest))
        }
        return true
    }

    private func pause(for draft: Exchange.Draft, now: Int64) -> Double {
        if draft.isDeletion { return settings.deletionSeconds }
        var seconds = 0.0
        for change in draft.changes {
            switch change {
            // Somebody else is shown what is settled.
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

    /// Holds a mass deletion until somebody says that it is meant (decision table, row 30).
    private func braked(_ drafts: [KeyedDraft]) throws -> [KeyedDraft] {
        let deletions = held.values.count(where: \.isDeletion)
        let isReleased = state.withLock { $0.isBrakeReleased }
        if isReleased { brake.release() }
        guard deletions > 0 else {
            state.withLock { ($0.brake, $0.isBrakeReleased) = (nil, false) }
            return drafts
        }
        let items = try volume.journal.read { try $0.mirrorCount() }
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
        // They wait again, so that they do not fill every batch from now on; a release ends that.
        let again = cl_clock_monotonic_ns() + Timestamp.span(seconds: settings.brakeSeconds)
        for keyed in drafts where isHeld(keyed) { held[keyed.key]?.until = again }
        return drafts.filter { !isHeld($0) }
    }

    // MARK: Operations

    /// Gives them their numbers; false when none could be.
    private func enqueue(_ drafts: [KeyedDraft]) throws -> Bool {
        let done = try perform { [exchange, volume] table in
            // Those of a weak package one after the other.
            let packages = Dictionary(grouping: drafts, by: \.weakPackage)
            var all = packages[nil] ?? []
            for (package, drafts) in packages where package != nil {
                if try table.areCurrent(drafts, exchange) { all += drafts }
            }
            return try table.enqueue(all, exchange, volume)
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

    /// Sends what the hub has not answered yet; false when there is nothing.
    private func commit() throws -> Bool {
        let session = try session()
        let sent = lastSent
        let (entries, first) = try volume.journal.read { reader in
            let rows = try reader.outbox(limit: HubLimits.operations + 1, after: sent)
            return (try self.entries(of: rows, reader), rows.first)
        }
        guard !entries.isEmpty else {
            if let first { throw try unsendable(first) }
            return false
        }
        let request = CommitRequest(
            device: session.device, epoch: session.epoch, volumeEpoch: session.volumeEpoch,
            cursor: session.cursor, run: session.run, collection: collection,
            operations: entries, sent: cl_clock_realtime_ns())
        if let last = entries.last?.number, last > session.sentUpTo {
            try perform { [exchange] table in try exchange.willSend(upTo: last, in: &table) }
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
        volume.hear(hubTime: answer.answered)
        // First: what counts as answered may leave the outbox, and nobody asks again.
        for (entry, result) in zip(entries, answer.results) {
            guard let refusal = result.refusal else { continue }
            try refused(entry, refusal)
        }
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

    /// As many as one request takes, up to the first whose contents are not here.
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
                return withoutTorn(entries, before: groups[operation.item])
            }
            entries.append(
                OperationEntry(operation, content: content, group: groups[operation.item]))
        }
        return entries
    }

    /// The last group goes with the next request, if that has the rest of it; one that fills a
    /// request alone is none.
    private func withoutTorn(_ entries: [OperationEntry], before next: UInt64?) -> [OperationEntry]
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

    /// Nil when the version's list of chunks is not on this device.
    private func content(of revision: Identifier, _ reader: Reader) throws(VolumeError)
        -> RevisionContent?
    {
        guard let bytes = try reader.manifest(of: revision), let manifest = Manifest(encoded: bytes)
        else { return nil }
        let chunks = manifest.chunkIDs.map(account.keys.keyed).sorted()
        // Encoded anew: what an earlier version of Concord recorded may have set-ID bits.
        return RevisionContent(manifest: manifest.encoded, chunks: chunks)
    }
}

extension Exchange.Draft {
    var leavesName: Bool {
        changes.contains { change in
            switch change {
            case .delete, .move: true
            default: false
            }
        }
    }
}

extension JournalTable {
    /// Nil when there is nothing to tell, or not yet.
    mutating func draft(
        _ key: Int64, _ exchange: Exchange, _ volume: Volume, _ brake: DeletionBrake? = nil
    ) throws(VolumeError) -> SyncEngine.KeyedDraft? {
        guard let item = try journal.localItem(key: key) else {
            try journal.removeUnsent(key)
            return nil
        }
        // A name that other machines cannot have: it stays what it was there, until it has another.
        guard let id = try journal.id(of: key) else { return nil }
        if item.isAlive, item.name.portable == nil {
            try journal.removeUnsent(key)
            try noteNameless(id, item.kind)
            return nil
        }
        try forgetNameless(id, isAlive: item.isAlive)
        // A directory that the ignore file names stays here, as all below it, if it was never told.
        if item.isAlive, item.kind == .directory, let path = try journal.path(of: key),
            volume.isLocalDirectory(path), try mirror(id) == nil
        {
            try journal.removeUnsent(key)
            return nil
        }
        // A first save that is not recorded yet.
        if item.isAlive, item.kind == .file || item.kind == .package, item.current == nil,
            item.changed == 0 || item.size > 0
        {
            return nil
        }
        let draft = try exchange.draft(id, in: &self)
        if draft.isAnotherKind {
            // Another kind of thing is another item: what had the old id is deleted, as it were.
            if let base = try mirror(id)?.base?.image {
                try volume.part(key, from: .init(base.kind), named: Name(base.name), journal)
            }
            return nil
        }
        guard !draft.changes.isEmpty else {
            // Contents that were agreed on before they were recorded here.
            if let mirror = try mirror(id) { try confirm(id, mirror) }
            return nil
        }
        let names = try journal.path(of: key) ?? []
        var keyed = SyncEngine.KeyedDraft(
            key: key, draft: draft, path: names.shown)
        keyed.weakPackage = Volume.weakPackage(of: names)
        if let brake, draft.isDeletion, let deleted = try journal.item(key)?.deleted,
            let saved = try journal.versions(of: key).map(\.saved).max()
        {
            keyed.isLongStanding = brake.isLongStanding(saved: saved, deleted: deleted)
        }
        if let base = try mirror(id)?.base?.image, base.isAlive, draft.leavesName {
            keyed.vacates = .init(parent: base.parent, name: base.name)
        }
        if let placement = draft.placement {
            keyed.takes = .init(parent: placement.parent, name: placement.name)
        }
        return keyed
    }

    /// Puts into the outbox what can be told now, in an order that the hub can take.
    mutating func enqueue(
        _ drafts: [SyncEngine.KeyedDraft], _ exchange: Exchange, _ volume: Volume
    ) throws(VolumeError) -> [SyncEngine.KeyedDraft] {
        var open = drafts
        var done: [SyncEngine.KeyedDraft] = []
        // A directory may come after what is in it, and a name may be left after it is taken.
        var waits = true
        while !open.isEmpty {
            var rest: [SyncEngine.KeyedDraft] = []
            var leaving = Dictionary(
                open.compactMap { keyed in
                    waits ? keyed.vacates.map { ($0, keyed.key) } : nil
                }, uniquingKeysWith: { $1 })
            let taken = Set(open.compactMap(\.takes))
            var isBusy = false
            for keyed in open {
                if let name = keyed.takes, let key = leaving[name], key != keyed.key {
                    rest.append(keyed)
                    continue
                }
                defer { if let name = keyed.vacates { leaving[name] = nil } }
                if try enqueue(keyed, exchange) {
                    isBusy = true
                    // It may have got a name of its own only, for a moment.
                    if keyed.takes != nil, try journal.isUnsent(keyed.key),
                        let again = try draft(keyed.key, exchange, volume)
                    {
                        rest.append(again)
                    } else {
                        done.append(keyed)
                    }
                } else if keyed.draft.waitsFor != nil
                    || keyed.takes.map({ $0 != keyed.vacates }) ?? false
                    || keyed.vacates.map(taken.contains) ?? false
                {
                    rest.append(keyed)
                }
            }
            // Those that wait for each other are in an order that `Exchange` knows.
            if !isBusy, rest.count == open.count {
                guard waits else { break }
                waits = false
            }
            open = rest
        }
        return done
    }

    /// Whether nothing of it has changed since it was drafted. Its contents went up meanwhile, and
    /// the next turn on a weak package may have begun: what that has changed is not sent, and the
    /// rest of the turn before it would be half of one.
    fileprivate mutating func areCurrent(
        _ drafts: [SyncEngine.KeyedDraft], _ exchange: Exchange
    ) throws(VolumeError) -> Bool {
        for keyed in drafts {
            let fresh = try exchange.draft(keyed.draft.item, in: &self)
            guard fresh.tells(sameAs: keyed.draft) else { return false }
        }
        return true
    }

    private mutating func enqueue(_ keyed: SyncEngine.KeyedDraft, _ exchange: Exchange)
        throws(VolumeError) -> Bool
    {
        var draft = keyed.draft
        if draft.isDeletion, try exchange.isCovered(draft, in: &self) { return true }
        if draft.waitsFor != nil {
            draft = try exchange.draft(draft.item, in: &self)
            guard draft.revisions == keyed.draft.revisions else { return false }
        }
        return try !exchange.enqueue(draft, in: &self).isEmpty
    }
}
