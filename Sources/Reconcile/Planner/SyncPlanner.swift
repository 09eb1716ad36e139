import Model

/// Plans what a device sends to the hub, and what it applies from the hub. It compares three states
/// of an item: what the tree shows (`local`), what was agreed on (`base`) and what the hub sent
/// last (`remote`). It never remembers events. So a change from the hub is never sent back to it,
/// and no change is forgotten.
///
/// Each function must be called within one transaction of the table.
package struct SyncPlanner: Sendable {
    /// Bugs that tests plant, to show that they would be found.
    package var bugs = Bug.planted

    package init() {}

    package typealias Bug = SyncPlannerBug

    // MARK: Sending

    /// What is to be sent about an item.
    package struct Draft: Hashable, Sendable {
        package var item: Identifier
        package var changes: [Change]
        /// Where the changes place the item or restore it to; nil when they do neither.
        package var placement: Placement?
        /// The item's directory, when the hub must know that one first.
        package var waitsFor: Identifier?
        /// A version of the item is being sent, and the hub may refuse it. The next version is
        /// drafted from the agreement that holds after the answer.
        package var isWaiting = false
        /// The item has become another kind of item, so the tree's item needs a new id first.
        package var isAnotherKind = false
        /// The draft only gives the item a temporary name.
        var isAside = false
        /// The version that the tree shows.
        fileprivate var current: Identifier?
        /// The conflict versions that must be sent later (`DeviceTable.isHeldBack`).
        package fileprivate(set) var heldBack: [Identifier] = []

        /// The revisions whose contents the hub must have before the draft is sent.
        package var revisions: [Identifier] {
            changes.compactMap { change in
                switch change {
                case .create(let creation): creation.revision?.id
                case .edit(let revision): revision.id
                case .resolve(_, let revision): revision?.id
                default: nil
                }
            }
        }
    }

    /// Compares the states and changes nothing, except that an item without differences does not
    /// count as unsent any more.
    package func draft<T: DeviceTable>(_ id: Identifier, in table: inout T) throws(T.Failure)
        -> Draft
    {
        var draft = Draft(item: id, changes: [])
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
        if !draft.revisions.isEmpty, !bugs.contains(.sendsEditsOfEdits) {
            draft.isWaiting = try table.isSendingContents(id)
        }
        return draft
    }

    /// Numbers the changes of an item and puts them into the outbox, where they stay until the
    /// hub's journal contains them. The hub must have the contents of their revisions.
    ///
    /// - Returns: An empty list when the item has changed since it was drafted, or when the draft
    ///   has to wait: for its directory, for a name that another item has left on this device, …
    package func enqueue<T: DeviceTable>(_ draft: Draft, in table: inout T) throws(T.Failure)
        -> [Operation]
    {
        let fresh = try self.draft(draft.item, in: &table)
        guard fresh.timeless == draft.timeless, draft.waitsFor == nil, !draft.isWaiting,
            !draft.changes.isEmpty
        else { return [] }
        var session = try table.session()
        // A state that changed twice arrives only with its second change. So before the last page,
        // the cursor is ahead of what the device has really seen.
        guard !session.isBehind else { return [] }
        guard !session.isFresh || bugs.contains(.sendsWhileFresh) else { return [] }
        // An item that is being created may turn out to be this item: the hub may unify the two
        // because of the name. The deletion would then delete the new item.
        if draft.isDeletion {
            if let twin = try twin(of: draft.item, &table) {
                try become(draft.item, twin, &table)
                return []
            }
            if try table.isCreating() { return [] }
            if try !movedOut(of: draft.item, &table).isEmpty { return [] }
        }
        guard let draft = try inOrder(draft, &table) else { return [] }
        return try put(draft, &session, &table)
    }

    /// Puts the operations of a draft into the outbox.
    func put<T: DeviceTable>(_ draft: Draft, _ session: inout Session, _ table: inout T)
        throws(T.Failure) -> [Operation]
    {
        var mirror = try rebased(try table.mirror(draft.item) ?? Mirror(), draft.item, &table)
        guard var image = try table.local(draft.item) else { return [] }
        let operations = try operations(draft, mirror, &session, &table)
        // If the item was edited before it was deleted, the edit was never sent.
        if draft.isDeletion, let known = mirror.base?.image {
            image = known
            image.isAlive = false
        }
        if draft.isAside, let placement = draft.placement {
            image = mirror.base?.image ?? image
            (image.parent, image.name, image.isAlive) = (placement.parent, placement.name, true)
            // The conflict versions of a new item are sent when the item has its final name.
            if mirror.base == nil { image.conflicts = [] }
        }
        if !bugs.contains(.agreesOnWhatIsHeldBack) {
            image.conflicts.removeAll { draft.heldBack.contains($0) }
        }
        image.keepRevision(of: mirror, unless: draft.revisions)
        try tell(operations, &mirror, as: image, session, &table)
        if mirror.state == .refused || mirror.state == .stuck { mirror.state = .settled }
        if mirror.remote != nil { mirror.state = .due }
        try table.setMirror(draft.item, mirror)
        if !draft.isAside, draft.heldBack.isEmpty { try table.removeUnsent(draft.item) }
        try table.set(session)
        return operations
    }

    /// Each operation has the time of the change, not that of sending it. Of two devices that were
    /// offline, the one that made the later change wins, and not the one that came back later.
    private func operations<T: DeviceTable>(
        _ draft: Draft, _ mirror: Mirror, _ session: inout Session, _ table: inout T
    ) throws(T.Failure) -> [Operation] {
        let seen = try seen(by: draft, mirror, session, &table)
        let now = table.now()
        let times = try table.changeTimes(draft.item)
        var operations: [Operation] = []
        for change in draft.changes {
            let number = OperationID(
                device: session.device, epoch: session.epoch, number: session.nextNumber)
            let time = change.revision?.moment.time ?? min(now, times.time(of: change) ?? now)
            var moment = Moment(time: time, device: session.device)
            if change.places, let known = mirror.base?.placedAt { moment.raise(above: known) }
            operations.append(
                Operation(
                    id: number, item: draft.item, moment: moment, base: seen, change: change))
            session.nextNumber += 1
        }
        return operations
    }

    /// Puts the operations into the outbox. From now on their result is what was agreed on.
    private func tell<T: DeviceTable>(
        _ operations: [Operation], _ mirror: inout Mirror, as image: Image, _ session: Session,
        _ table: inout T
    ) throws(T.Failure) {
        for operation in operations { try table.append(operation) }
        let placing = operations.last { $0.change.places || $0.change == .restore }
        // This device has not seen what the hub sent about the item as long as the tree does not
        // show it.
        let seen = mirror.remote != nil ? max(mirror.since, 1) - 1 : session.cursor
        mirror.base = Agreement(
            image: image, placedBy: placing?.id ?? mirror.base?.placedBy,
            placedAt: placing?.moment ?? mirror.base?.placedAt,
            attributedAt: operations.reduce(into: mirror.base?.attributedAt ?? [:]) {
                for name in $1.change.attributes { $0[name] = $1.moment }
            },
            sequence: mirror.base?.sequence ?? seen, volumeEpoch: session.volumeEpoch,
            generation: session.generation)
    }

    /// Regards the current version as agreed on, because neither the hub nor this device has its
    /// contents. What the hub has replaces it. Returns false if the hub does not have the item.
    package func withdraw<T: DeviceTable>(current id: Identifier, in table: inout T)
        throws(T.Failure) -> Bool
    {
        guard var mirror = try table.mirror(id), let remote = mirror.remote,
            let local = try table.local(id)
        else { return false }
        let session = try table.session()
        var base = try rebased(mirror, id, &table).base ?? agreement(remote, session)
        (base.image.revision, base.image.content) = (local.revision, local.content)
        mirror.base = base
        try table.setMirror(id, mirror)
        return true
    }

    /// Makes a conflict version history on this device, because neither the hub nor this device has
    /// its contents. Otherwise the item would never be sent, and nothing that arrives about it
    /// would be shown. A device that has the contents sends the version again.
    package func withdraw<T: DeviceTable>(
        conflict revision: Identifier, of id: Identifier, in table: inout T
    ) throws(T.Failure) {
        try table.makeHistory(revision, of: id)
        guard var mirror = try table.mirror(id), !bugs.contains(.settlesWhatIsWithdrawn) else {
            return
        }
        // Nobody has settled it. If it comes back, it is a conflict version again.
        mirror.base?.image.conflicts.removeAll { $0 == revision }
        try table.setMirror(id, mirror)
    }

    /// Must be recorded before operations up to that number are sent. If the hub confirms a higher
    /// number, another copy of this journal has sent it.
    package func willSend<T: DeviceTable>(upTo number: UInt64, in table: inout T)
        throws(T.Failure)
    {
        var session = try table.session()
        guard number > session.sentUpTo else { return }
        session.sentUpTo = number
        try table.set(session)
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
}

extension SyncPlanner.Draft {
    package var isDeletion: Bool {
        changes.contains { if case .delete = $0 { true } else { false } }
    }

    /// Whether the draft sends this version as a conflict version, so that the item's other
    /// changes do not need it.
    package func isOnlyConflict(_ revision: Identifier) -> Bool {
        revision != current
            && changes.contains {
                if case .edit(let sent) = $0 { sent.id == revision } else { false }
            }
    }

    /// Whether both drafts send the same changes, apart from times.
    package func tells(sameAs other: Self) -> Bool { timeless.changes == other.timeless.changes }

    /// The draft without times and spare names, which change between two calls although the item
    /// does not.
    fileprivate var timeless: Self {
        func still(_ revision: Revision) -> Revision {
            var revision = revision
            revision.moment.time = 0
            return revision
        }
        func still(_ placement: Placement) -> Placement {
            var placement = placement
            (placement.spare, placement.spareKey) = ("", NameKey([]))
            return placement
        }
        var draft = self
        draft.placement = placement.map(still)
        draft.changes = changes.map { change in
            switch change {
            case .create(var creation):
                creation.placement = still(creation.placement)
                creation.revision = creation.revision.map(still)
                return .create(creation)
            case .edit(let revision): return .edit(still(revision))
            case .move(let placement, let base): return .move(still(placement), base: base)
            case .resolve(let settled, let revision):
                return .resolve(settled, revision.map(still))
            case .delete, .restore, .attribute: return change
            }
        }
        return draft
    }
}

extension Change {
    package var revision: Revision? {
        switch self {
        case .create(let creation): creation.revision
        case .edit(let revision): revision
        case .resolve(_, let revision): revision
        default: nil
        }
    }

    /// Where the change places its item; nil when it does not place it.
    var placement: Placement? {
        switch self {
        case .create(let creation): creation.placement
        case .move(let placement, _): placement
        default: nil
        }
    }

    var places: Bool { placement != nil }

    /// The names of the attributes that the change sets or removes.
    var attributes: [String] {
        switch self {
        case .create(let creation): Array(creation.attributes.keys)
        case .attribute(let name, _): [name]
        default: []
        }
    }
}
