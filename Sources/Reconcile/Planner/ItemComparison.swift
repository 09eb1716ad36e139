import Model

/// Compares the three states of an item (`SyncPlanner`), which decides what is sent. A register is
/// sent when the tree shows a value that differs both from what was agreed on and from what the hub
/// has now.
package struct ItemComparison: Sendable {
    let bugs: Set<SyncPlanner.Bug>

    /// Compares the states and changes nothing, except that an item without differences does not
    /// count as unsent any more.
    package func draft<T: DeviceTable>(_ id: Identifier, in table: inout T) throws(T.Failure)
        -> ItemDraft
    {
        var draft = ItemDraft(item: id, changes: [])
        var mirror = try table.mirror(id) ?? Mirror()
        if mirror.state == .underway, !bugs.contains(.sendsEchoes) { return draft }
        mirror = try rebased(mirror, id, &table)
        let local = try table.local(id)
        if let local, let base = mirror.base, local.isAlive, base.image.isAlive,
            local.kind != base.image.kind
        {
            draft.isAnotherKind = true
            return draft
        }
        draft.changes = try changes(id, local, mirror, &table)
        draft.current = local?.revision
        draft.heldBack = try mirror.heldBack(local, &table)
        draft.placement = draft.changes.lazy.compactMap(\.placement).first
        if draft.changes.contains(.restore), let local {
            draft.placement = try table.placement(local.name, in: local.parent)
        }
        if draft.changes.isEmpty {
            if mirror.remote?.unified == nil, draft.heldBack.isEmpty {
                try table.removeUnsent(id)
            }
        } else if let local, local.isAlive, !draft.isDeletion,
            try !isKnown(local.parent, &table)
        {
            draft.waitsFor = local.parent
        }
        if draft.changes.contains(where: { $0.revision != nil || $0.describesContents }),
            !bugs.contains(.sendsEditsOfEdits)
        {
            draft.isWaiting = try table.isSendingContents(id)
        }
        return draft
    }

    private func isKnown<T: DeviceTable>(_ parent: Identifier, _ table: inout T) throws(T.Failure)
        -> Bool
    {
        if parent == .root || bugs.contains(.forgetsParent) { return true }
        guard let mirror = try table.mirror(parent) else { return false }
        guard let base = mirror.base else { return mirror.remote?.kind == .directory }
        // A directory that was a package is about to get a new id.
        guard base.image.kind == .directory else { return false }
        let session = try table.session()
        return mirror.remote != nil || base.isOf(session)
    }

    func changes<T: DeviceTable>(
        _ id: Identifier, _ local: Image?, _ mirror: Mirror, _ table: inout T
    ) throws(T.Failure) -> [Change] {
        // While an operation of the item is being sent, the hub's last state may be older than that
        // operation.
        let isOlder = try table.isInOutbox(id) || bugs.contains(.sendsEchoes)
        let remote = isOlder ? nil : mirror.remote.map { Image($0) }
        guard let base = mirror.base?.image else {
            guard let local, local.isAlive else { return [] }
            if let remote { return try differences(id, local, nil, remote, mirror, &table) }
            // A value of an earlier agreement is as old as it was then, so each has its own time,
            // and also those that were removed since then: other devices may still have them.
            let earlier = try table.mirror(id)?.base
            var changes = [try creation(local, hasAttributes: earlier == nil, &table)]
            if let earlier {
                let names = Set(local.attributes.keys).union(earlier.image.attributes.keys)
                    .union(earlier.attributedAt.keys)
                for name in names.sorted() {
                    changes.append(.attribute(name, local.attributes[name]))
                }
            }
            for id in local.conflicts where try !table.isHeldBack(id) {
                if let revision = try table.revision(id) { changes.append(.edit(revision)) }
            }
            return changes
        }
        guard let local, local.isAlive else {
            guard base.isAlive, remote?.isAlive ?? true else { return [] }
            return [.delete(current: base.revision)]
        }
        let changes = try differences(id, local, base, remote, mirror, &table)
        // A move takes the item out of the trash, too.
        if base.isAlive || remote?.isAlive ?? false || changes.contains(where: \.places) {
            return changes
        }
        return [.restore] + changes
    }

    private func creation<T: DeviceTable>(
        _ local: Image, hasAttributes: Bool, _ table: inout T
    ) throws(T.Failure) -> Change {
        var revision = try local.revision.flatMapped { (id) throws(T.Failure) in
            try table.revision(id)
        }
        if let known = revision {
            revision?.parents = try ancestors(of: known, after: [], &table)
        }
        return .create(
            Creation(
                kind: local.kind, placement: try table.placement(local.name, in: local.parent),
                revision: revision, target: local.target,
                attributes: hasAttributes ? local.attributes : [:]))
    }

    private func differences<T: DeviceTable>(
        _ id: Identifier, _ local: Image, _ base: Image?, _ remote: Image?, _ mirror: Mirror,
        _ table: inout T
    ) throws(T.Failure) -> [Change] {
        var changes: [Change] = []
        let known = [base, remote].compactMap(\.self)
        let lost = try lostRegisters(id, local, &table)
        if lost.placement || !known.contains(where: { $0.isAt(local) }) {
            // A device that agrees on nothing has not seen the hub's placement. Then, and where it
            // is unknown who placed the item there, the base cannot match, and the newer placement
            // wins.
            let by = base == nil ? nil : mirror.base?.placedBy ?? mirror.remote?.placedBy
            changes.append(
                .move(
                    try table.placement(local.name, in: local.parent),
                    base: by ?? .unknown))
        }
        changes += try currentContents(id, local, base, remote, &table)
        // Those that belong to the contents follow them, and extended attributes come last.
        let names = Set(local.attributes.keys).union(base?.attributes.keys ?? [:].keys)
            .union(lost.attributes)
        for name in names.sorted() {
            let value = local.attributes[name]
            let isKnown = known.contains { $0.attributes[name] == value }
            if !lost.attributes.contains(name) {
                if isKnown { continue }
                if remote != nil, try hasOwnLaterValue(id, local, name, mirror, &table) { continue }
            }
            changes.append(.attribute(name, value))
        }
        return changes + (try conflicts(id, local, base, remote, &table))
    }

    /// Whether the hub has a later value that this device has set itself, and that its journal does
    /// not know: the journal came back from a backup. The hub takes a device's change for later
    /// than all its own earlier ones, so this one must not be sent.
    private func hasOwnLaterValue<T: DeviceTable>(
        _ id: Identifier, _ local: Image, _ name: String, _ mirror: Mirror, _ table: inout T
    ) throws(T.Failure) -> Bool {
        guard mirror.base?.sequence ?? 0 == 0, let later = mirror.remote?.attributes[name],
            later.moment.device == (try table.session().device)
        else { return false }
        if bugs.contains(.repeatsItsEarlierAttributes) { return false }
        if let time = try table.changeTimes(id).attributes { return time < later.moment.time }
        // The journal forgets the time of a value that was left out. A value that was agreed on is
        // sent again, because the hub may have lost it.
        return try table.mirror(id)?.base?.image.attributes[name] != local.attributes[name]
    }

    /// Which registers were changed after what the hub has, as an earlier agreement shows: the hub
    /// came back from a backup. They are sent although the hub may have the same values again,
    /// because other devices know the lost values between the two, and would bring them back.
    private func lostRegisters<T: DeviceTable>(
        _ id: Identifier, _ local: Image, _ table: inout T
    ) throws(T.Failure) -> (placement: Bool, attributes: Set<String>) {
        guard let mirror = try table.mirror(id), let base = mirror.base, let state = mirror.remote,
            !base.isOf(try table.session()), !bugs.contains(.forgetsWhatTheHubLost)
        else { return (false, []) }
        let times = try table.changeTimes(id)
        // Another device that has repeated the change gave it a time one nanosecond before.
        let isPlacementLost = base.placedAt.map { state.placedAt.time < Moment.before($0.time) }
        let isOwn = base.image.isAt(local) || times.placed != nil
        let attributes = base.attributedAt.filter { name, moment in
            let known = state.attributes[name]?.moment.time
            return
                (base.image.attributes[name] == local.attributes[name]
                || times.attributes != nil)
                && known.map { $0 < Moment.before(moment.time) } ?? true
        }
        return ((isPlacementLost ?? false) && isOwn, Set(attributes.keys))
    }

    private func currentContents<T: DeviceTable>(
        _ item: Identifier, _ local: Image, _ base: Image?, _ remote: Image?, _ table: inout T
    ) throws(T.Failure) -> [Change] {
        let known = [base, remote].compactMap(\.self)
        guard let id = local.revision, !known.contains(where: { $0.hasContents(of: local) }),
            var revision = try table.revision(id)
        else { return [] }
        // Parents that are conflict versions are kept, so that this version replaces them.
        let others = revision.parents.filter { base?.conflicts.contains($0) ?? false }
        var parent = try arrived(before: id, base?.revision, of: item, &table)
        // If a program that had not seen the agreed version replaced it, the agreed version is a
        // conflict version, and the new one was not made from it.
        let isApart = base?.revision.map(local.conflicts.contains) ?? false
        if !isApart || bugs.contains(.replacesWhatWasNotSeen) { parent = parent ?? base?.revision }
        let agreed = [parent].compactMap(\.self) + (base?.conflicts ?? [])
        let ancestors = try ancestors(of: revision, after: agreed, &table)
        if let parent { revision.parents = [parent] + others.filter { $0 != parent } }
        revision.add(parents: ancestors)
        return [.edit(revision)]
    }

    private func conflicts<T: DeviceTable>(
        _ item: Identifier, _ local: Image, _ base: Image?, _ remote: Image?, _ table: inout T
    ) throws(T.Failure) -> [Change] {
        var changes: [Change] = []
        let known = [base, remote].compactMap(\.self)
        let ids = Set(known.flatMap { $0.conflicts + [$0.revision].compactMap(\.self) })
        for id in local.conflicts where !ids.contains(id) && !bugs.contains(.dropsConflicts) {
            if try table.isHeldBack(id) { continue }
            if let revision = try table.revision(id) { changes.append(.edit(revision)) }
        }
        let settled = (base?.conflicts ?? []).filter { id in
            !local.conflicts.contains(id) && id != local.revision
                && remote?.conflicts.contains(id) ?? true
        }
        let all = settled + (try superseded(item, local, remote, &table))
        if !all.isEmpty { changes.append(.resolve(all, nil)) }
        return changes
    }

    /// Conflict versions from which the document's current version was made, as this device knows.
    /// The hub may not know it: it came back from a backup and was told of the current version by a
    /// device that has never had the versions between the two.
    func superseded<T: DeviceTable>(
        _ item: Identifier, _ local: Image, _ remote: Image?, _ table: inout T
    ) throws(T.Failure) -> [Identifier] {
        guard let remote, let mine = local.revision, mine == remote.revision,
            !bugs.contains(.believesTheHubsConflicts)
        else { return [] }
        var found: [Identifier] = []
        for id in remote.conflicts where !local.conflicts.contains(id) {
            if try table.descends(mine, from: id, of: item) { found.append(id) }
        }
        return found
    }

    /// The versions that a version is derived from and that came after those that the hub has, the
    /// nearest ones first. The hub may get them from other devices: what it has lost when it
    /// came back from a backup, and what was not sent yet when this store was copied. Because they
    /// are named, they are not conflict versions then.
    private func ancestors<T: DeviceTable>(
        of revision: Revision, after known: [Identifier], _ table: inout T
    ) throws(T.Failure) -> [Identifier] {
        guard !bugs.contains(.namesNoAncestors) else { return [] }
        var (open, found) = (revision.parents[...], [Identifier]())
        while let next = open.popFirst(), found.count < Revision.namedParents {
            if known.contains(next) || found.contains(next) { continue }
            found.append(next)
            open += try table.revision(next)?.parents ?? []
        }
        return found
    }

    /// The version from the hub that a local version is derived from, if it is not agreed on yet:
    /// it was applied right before a crash, and a program has edited it since.
    private func arrived<T: DeviceTable>(
        before id: Identifier, _ base: Identifier?, of item: Identifier, _ table: inout T
    ) throws(T.Failure) -> Identifier? {
        let device = try table.session().device
        var next = try table.revision(id)?.parents.first
        for _ in 0..<64 {
            guard let id = next, id != base, let revision = try table.revision(id) else {
                return nil
            }
            if revision.moment.device != device {
                guard let base else { return id }
                return try table.descends(base, from: id, of: item) ? nil : id
            }
            next = revision.parents.first
        }
        return nil
    }

    /// Adapts an agreement from before the last restart (`SyncPlanner.restart`). It only says what
    /// this device had then, not what the hub has now.
    func rebased<T: DeviceTable>(_ mirror: Mirror, _ id: Identifier, _ table: inout T)
        throws(T.Failure) -> Mirror
    {
        let session = try table.session()
        guard var base = mirror.base, !bugs.contains(.staleIsFresh),
            !base.isOf(session)
        else { return mirror }
        var mirror = mirror
        guard let state = mirror.remote else {
            // The hub has never known the item, or has lost it. A missing item never means that it
            // was deleted.
            if !bugs.contains(.absenceDeletes) { mirror.base = nil }
            return mirror
        }
        let remote = Image(state)
        let isSameHub = base.volumeEpoch == session.volumeEpoch
        if let local = try table.local(id), let mine = local.revision, !state.isLive(mine) {
            // The hub would not accept as new a revision that it has received before.
            (base.image.revision, base.image.content) = (nil, nil)
            if state.live.contains(where: { $0.parents.contains(mine) }) {
                // The hub has lost it, and has one that was made from it.
                (base.image.revision, base.image.content) = (mine, local.content)
            } else if let current = remote.revision,
                try table.descends(mine, from: current, of: id)
            {
                (base.image.revision, base.image.content) = (current, remote.content)
            }
        }
        if let placed = base.placedAt, state.placedAt < placed {
            (base.image.parent, base.image.name) = (remote.parent, remote.name)
            (base.placedBy, base.placedAt) = (state.placedBy, state.placedAt)
        }
        // The first form of an agreement had no times.
        if !isSameHub, base.attributedAt.isEmpty, !base.image.attributes.isEmpty {
            base.image.attributes = remote.attributes
        }
        // The hub has lost what was set later than what it has now. Everything else that it has is
        // as it was agreed on, or newer.
        for (name, moment) in base.attributedAt
        where state.attributes[name].map({ $0.moment < moment }) ?? true {
            base.image.attributes[name] = remote.attributes[name]
        }
        base.image.conflicts = base.image.conflicts.filter { remote.conflicts.contains($0) }
        // If the hub deleted the item after the agreement, the deletion counts. At another hub it
        // does not, because this device still has the item.
        if case .trashed(_, let sequence) = state.life, !isSameHub || sequence <= base.sequence {
            base.image.isAlive = false
        }
        base.generation = session.generation
        base.volumeEpoch = session.volumeEpoch
        // Sequence numbers of another journal cannot be compared with those of this one.
        base.sequence = 0
        mirror.base = base
        return mirror
    }
}

extension Agreement {
    /// What is agreed on when the tree shows a state of the hub.
    init(_ state: ItemState, _ session: Session) {
        self.init(
            image: Image(state), placedBy: state.placedBy, placedAt: state.placedAt,
            attributedAt: state.attributes.mapValues(\.moment), sequence: state.sequence,
            volumeEpoch: session.volumeEpoch, generation: session.generation)
    }
}

extension Revision {
    /// The hub accepts at most 16 parents.
    fileprivate static let namedParents = 12

    fileprivate mutating func add(parents more: [Identifier]) {
        for id in more where parents.count < Revision.namedParents && !parents.contains(id) {
            parents.append(id)
        }
    }
}

extension Optional {
    func flatMapped<Result, Failure: Error>(_ body: (Wrapped) throws(Failure) -> Result?)
        throws(Failure) -> Result?
    {
        guard let self else { return nil }
        return try body(self)
    }
}
