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

    package var comparison: ItemComparison { ItemComparison(bugs: bugs) }
    package var unreadable: UnreadableContents { UnreadableContents(comparison: comparison) }

    /// Numbers the changes of an item and puts them into the outbox, where they stay until the
    /// hub's journal contains them. The hub must have the contents of their revisions.
    ///
    /// - Returns: An empty list when the item has changed since it was drafted, or when the draft
    ///   has to wait: for its directory, for a name that another item has left on this device, …
    package func enqueue<T: DeviceTable>(_ draft: ItemDraft, in table: inout T) throws(T.Failure)
        -> [Operation]
    {
        let fresh = try comparison.draft(draft.item, in: &table)
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
            if try !comparison.movedOut(of: draft.item, &table).isEmpty { return [] }
        }
        guard let draft = try comparison.inOrder(draft, &table) else { return [] }
        return try put(draft, &session, &table)
    }

    /// Puts the operations of a draft into the outbox.
    func put<T: DeviceTable>(_ draft: ItemDraft, _ session: inout Session, _ table: inout T)
        throws(T.Failure) -> [Operation]
    {
        var mirror = try comparison.rebased(
            try table.mirror(draft.item) ?? Mirror(), draft.item, &table)
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
            for case .attribute(let name, let value) in draft.changes {
                image.attributes[name] = value
            }
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
        _ draft: ItemDraft, _ mirror: Mirror, _ session: inout Session, _ table: inout T
    ) throws(T.Failure) -> [Operation] {
        let seen = try seen(by: draft, mirror, session, &table)
        let now = table.now()
        var dates = try table.changeDates(draft.item, session)
        if bugs.contains(.datesByTelling) { dates.agreed = nil }
        if bugs.contains(.datesByArrival) { dates.isWhereAgreed = false }
        var operations: [Operation] = []
        for change in draft.changes {
            let number = OperationID(
                device: session.device, epoch: session.epoch, number: session.nextNumber)
            var moment = dates.moment(of: change, by: session.device, now: now)
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
}
