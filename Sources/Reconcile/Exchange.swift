import Model

/// What a device tells the hub and what it takes over from it: decided by comparing what the tree
/// shows (`local`) with what was agreed on (`base`) and what the hub said last (`remote`), never by
/// remembering events. So what came from the hub cannot be sent back to it, and nothing is
/// forgotten.
///
/// Each function is to be called within one transaction of the table.
package struct Exchange: Sendable {
    /// Planted in tests only.
    package var bugs: Set<Bug> = []

    package init() {}

    package enum Bug: String, Hashable, Sendable, CaseIterable {
        case sendsEchoes, ignoresOutbox, overwritesUnsent, absenceDeletes, forgetsParent
        case sendsWhileFresh, keepsCursor, agreesEarly, dropsConflicts, staleIsFresh
        case makesOnlyWhatIsCurrent, seesNothingBesideWhatIsStuck, sendsEditsOfEdits
        case forgetsWhatWasAgreedOn, takesNamesTooEarly, draftsFromBefore
    }

    // MARK: Sending

    /// What is to be told of an item.
    package struct Draft: Hashable, Sendable {
        package var item: Identifier
        package var changes: [Change]
        /// Where they put it, or take it out of the trash; nil where they do neither.
        package var placement: Placement?
        /// Cannot be sent before these are known to the hub: its directory.
        package var waitsFor: Identifier?
        /// A version of it is on its way, and the hub may refuse that one: the next is made from
        /// what it has then.
        package var isWaiting = false
        /// It became another kind of thing: the tree's item has to get an id of its own first.
        package var isAnotherKind = false
        /// It tells only that the item has a name of its own for now.
        var isAside = false

        /// Whose contents have to be at the hub first.
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
        package var isDeletion: Bool {
            changes.contains { if case .delete = $0 { true } else { false } }
        }
    }

    /// Compares and changes nothing, but forgets that an item was to be looked at when there is
    /// nothing to tell.
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
        draft.placement = draft.changes.lazy.compactMap(\.placement).first
        if draft.changes.contains(.restore), let local {
            draft.placement = try table.placement(local.name, in: local.parent)
        }
        if draft.changes.isEmpty {
            if mirror.remote?.unified == nil { try table.removeUnsent(id) }
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

    /// Gives the changes of an item their numbers and puts them in the outbox, where they stay
    /// until the hub's journal has them. Their revisions' contents have to be at the hub.
    ///
    /// - Returns: Nothing when the item changed since it was drafted, or has to wait: for its
    ///   directory, for a name that another item has left here, …
    package func enqueue<T: DeviceTable>(_ draft: Draft, in table: inout T) throws(T.Failure)
        -> [Operation]
    {
        let fresh = try self.draft(draft.item, in: &table)
        guard fresh.timeless == draft.timeless, draft.waitsFor == nil, !draft.isWaiting,
            !draft.changes.isEmpty
        else { return [] }
        var session = try table.session()
        // What changed twice comes only with the second change: until the last page, the cursor
        // says less than it seems to.
        guard !session.isBehind else { return [] }
        guard !session.isFresh || bugs.contains(.sendsWhileFresh) else { return [] }
        // What is being created may turn out to be the very item: by its name it is the old one, or
        // somebody else's, who did not delete it.
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

    /// Puts what a draft tells into the outbox.
    private func put<T: DeviceTable>(_ draft: Draft, _ session: inout Session, _ table: inout T)
        throws(T.Failure) -> [Operation]
    {
        var mirror = try rebased(try table.mirror(draft.item) ?? Mirror(), draft.item, &table)
        guard var image = try table.local(draft.item) else { return [] }
        let operations = try operations(draft, mirror, &session, &table)
        // An edit before the deletion was never told.
        if draft.isDeletion, let known = mirror.base?.image {
            image = known
            image.isAlive = false
        }
        if draft.isAside, let placement = draft.placement {
            image = mirror.base?.image ?? image
            (image.parent, image.name) = (placement.parent, placement.name)
            image.isAlive = true
            // Those of a new item are told when it has its name.
            if mirror.base == nil { image.conflicts = [] }
        }
        try tell(operations, &mirror, as: image, session, &table)
        if mirror.state == .refused || mirror.state == .stuck { mirror.state = .settled }
        if mirror.remote != nil { mirror.state = .due }
        try table.setMirror(draft.item, mirror)
        if !draft.isAside { try table.removeUnsent(draft.item) }
        try table.set(session)
        return operations
    }

    /// Each at the time of what it tells, not of the telling: of two devices that were offline, the
    /// one that did it later wins, and not the one that came back later.
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

    /// Puts them into the outbox; what they make of the item is agreed on from now on.
    private func tell<T: DeviceTable>(
        _ operations: [Operation], _ mirror: inout Mirror, as image: Image, _ session: Session,
        _ table: inout T
    ) throws(T.Failure) {
        for operation in operations { try table.append(operation) }
        let placing = operations.last { $0.change.places || $0.change == .restore }
        // What the hub says of it and the tree has not shown, nobody here has seen.
        let seen = mirror.remote != nil ? max(mirror.since, 1) - 1 : session.cursor
        mirror.base = Agreement(
            image: image, placedBy: placing?.id ?? mirror.base?.placedBy,
            placedAt: placing?.moment ?? mirror.base?.placedAt,
            sequence: mirror.base?.sequence ?? seen, volumeEpoch: session.volumeEpoch,
            generation: session.generation)
    }

    /// Tells of a move by way of a name that nothing else has.
    ///
    /// - Returns: Nothing when it cannot be told now.
    package func stepAside<T: DeviceTable>(_ id: Identifier, in table: inout T) throws(T.Failure)
        -> [Operation]
    {
        var session = try table.session()
        let draft = try self.draft(id, in: &table)
        guard !session.isBehind, !session.isFresh, draft.waitsFor == nil, !draft.isWaiting,
            try table.mirror(id)?.state != .underway, let aside = try aside(draft, &table)
        else { return [] }
        return try put(aside, &session, &table)
    }

    /// To be kept before operations go out, the last of which has that number: what the hub
    /// confirms above it, another copy of this journal has sent.
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
        // One that was a package is about to get an id of its own.
        guard base.image.kind == .directory else { return false }
        let session = try table.session()
        return mirror.remote != nil || base.isOf(session)
    }
}

extension Exchange.Draft {
    /// Whether both tell the same, whenever that is.
    package func tells(sameAs other: Self) -> Bool { timeless.changes == other.timeless.changes }

    /// Without what a clock says, which goes on between two looks: that is no change of the item.
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

    /// Where it puts its item; nil where it does not place it.
    var placement: Placement? {
        switch self {
        case .create(let creation): creation.placement
        case .move(let placement, _): placement
        default: nil
        }
    }

    var places: Bool { placement != nil }
}
