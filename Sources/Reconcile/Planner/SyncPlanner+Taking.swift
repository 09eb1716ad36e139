import Model

/// A part of the hub's feed. All of it is from the same moment.
package struct Page: Hashable, Sendable {
    package enum Entry: Hashable, Sendable {
        case item(ItemState)
        /// An item that was unified into another one.
        case alias(Identifier, of: Identifier)
    }

    package var entries: [Entry]
    /// The cursor after this page.
    package var next: UInt64
    /// The `Session.run` that belongs to `next`.
    package var run: Identifier?
    package var head: UInt64
    /// The device's last operation that the journal up to `head` contains.
    package var acknowledged: UInt64

    package init(
        entries: [Entry], next: UInt64, run: Identifier? = nil, head: UInt64, acknowledged: UInt64
    ) {
        self.entries = entries
        self.next = next
        self.run = run
        self.head = head
        self.acknowledged = acknowledged
    }
}

/// The steps by which the tree gets the state that an item has at the hub.
package struct Adjustment: Hashable, Sendable {
    package enum Step: Hashable, Sendable {
        /// The tree has nothing yet: create the file (dataless or complete), directory, package or
        /// symlink, with the current contents.
        case make
        case move(parent: Identifier, name: String)
        case contents(Revision)
        /// Nil removes the attribute.
        case attributes([String: [UInt8]?])
        /// Conflict versions that were added, and those that were settled.
        case conflicts(added: [Revision], settled: [Identifier])
        case remove
    }

    package var item: Identifier
    package var remote: ItemState
    /// What the tree must still show when the steps are done; nil: no item.
    package var local: Image?
    package var steps: [Step]
    /// The item first goes to a temporary name, because the item that has its name waits for this
    /// item.
    package var isDetour = false
    /// The item that has the name and that exchanges places with this one.
    package var holder: Identifier?

    fileprivate var addsConflicts: Bool {
        steps.contains { step in
            if case .conflicts(let added, _) = step { !added.isEmpty } else { false }
        }
    }
}

extension SyncPlanner {
    // MARK: Mirroring

    /// Records what the hub sent, together with the cursor and with what the hub has confirmed.
    ///
    /// - Parameter answered: The last operation whose answer this process has received. If the hub
    ///   confirms a later number, that may be a different operation, from before this journal was
    ///   rolled back. It stays in the outbox, and the hub's answer to it will tell.
    /// - Returns: The items that are due now. Nil, and nothing is recorded, when the hub confirms a
    ///   number that was never sent. Then this journal is a copy or was rolled back, and the device
    ///   must restart in a new epoch.
    package func take<T: DeviceTable>(_ page: Page, answered: UInt64, in table: inout T)
        throws(T.Failure) -> [Identifier]?
    {
        var session = try table.session()
        guard page.acknowledged <= session.sentUpTo else { return nil }
        guard page.next >= session.cursor else { return [] }
        // Before the last page, the mirror may show states from before the confirmed operations.
        if page.next >= page.head {
            try table.removeOutbox(upTo: min(page.acknowledged, answered))
        }
        var due: [Identifier] = []
        for entry in page.entries {
            switch entry {
            case .item(let state):
                if try take(state, session, &table) { due.append(state.id) }
            case .alias(let id, let target): try unify(id, target, session, &table)
            }
        }
        if !bugs.contains(.keepsCursor) { (session.cursor, session.run) = (page.next, page.run) }
        session.isBehind = page.next < page.head
        try table.set(session)
        return due
    }

    private func take<T: DeviceTable>(
        _ state: ItemState, _ session: Session, _ table: inout T
    ) throws(T.Failure) -> Bool {
        var mirror = try table.mirror(state.id) ?? Mirror()
        if let known = mirror.remote, known.sequence >= state.sequence { return false }
        mirror.remote = state
        mirror.since = state.firstChange(after: mirror.base, session, bugs)
        mirror.state = mirror.state == .underway ? .underway : .due
        let wasMovedOut = try mirror.uncover(session, table.local(state.id))
        // This comes first, because the item's draft is computed from the mirror.
        if !bugs.contains(.draftsFromBefore) { try table.setMirror(state.id, mirror) }
        if wasMovedOut { try table.addUnsent(state.id) }
        // While the item is being applied, its image can change at any moment.
        if mirror.state != .underway, try isFree(state.id, &table),
            try matches(state, mirror, &table)
        {
            try table.setMirror(state.id, Mirror(base: Agreement(state, session)))
            return false
        }
        if bugs.contains(.draftsFromBefore) { try table.setMirror(state.id, mirror) }
        return mirror.state == .due
    }

    private func matches<T: DeviceTable>(
        _ state: ItemState, _ mirror: Mirror, _ table: inout T
    ) throws(T.Failure) -> Bool {
        let remote = Image(state)
        guard let local = try mirror.withoutHeldBack(table.local(state.id), bugs, &table) else {
            return !remote.isAlive
        }
        guard local.isAlive, remote.isAlive else { return local.isAlive == remote.isAlive }
        return Adjustment.steps(from: local, to: state).isEmpty
    }

    // MARK: Bringing it into the tree

    /// What has to be done now for an item that is due. Nil when nothing can be done: the item
    /// waits for another item that is due, for an answer of the hub, or for its own unsent change.
    package func adjustment<T: DeviceTable>(_ id: Identifier, in table: inout T) throws(T.Failure)
        -> Adjustment?
    {
        guard var mirror = try table.mirror(id), mirror.state == .due || mirror.state == .stuck,
            let state = mirror.remote, try isFree(id, &table)
        else { return nil }
        let session = try table.session()
        var local = try table.local(id)
        if state.life.isAlive, local == nil || local?.isAlive == false {
            if let known = try recognize(state, &table) {
                guard try isFree(id, &table) else { return nil }
                (mirror, local) = (known, try table.local(id))
            } else {
                let isAdopted = try table.adopt(state, session)
                if isAdopted { return nil }
            }
        }
        if local?.isAlive == false { local = nil }
        let shown = try mirror.withoutHeldBack(local, bugs, &table)
        guard let (target, steps, holder) = try possibleSteps(state, shown, &table) else {
            return nil
        }
        if steps.isEmpty {
            try table.setMirror(id, Mirror(base: Agreement(state, session)))
            return nil
        }
        mirror.state = .underway
        if bugs.contains(.agreesEarly) { mirror.base = Agreement(state, session) }
        try table.setMirror(id, mirror)
        if let holder, var other = try table.mirror(holder) {
            other.state = .underway
            try table.setMirror(holder, other)
        }
        return Adjustment(
            item: id, remote: target, local: local, steps: steps, isDetour: target != state,
            holder: holder)
    }

    /// Records how applying an adjustment went. Before this call the journal must have recorded the
    /// tree's state up to there. What a program did to the item after the adjustment is then sent
    /// as an edit of what was applied.
    package func adjusted<T: DeviceTable>(
        _ adjustment: Adjustment, isDone: Bool, isStuck: Bool = false, in table: inout T
    ) throws(T.Failure) {
        guard var mirror = try table.mirror(adjustment.item), mirror.state == .underway else {
            return
        }
        let isNewer =
            mirror.remote.map { $0.sequence > adjustment.remote.sequence } ?? false
            || adjustment.isDetour
        // Conflict versions are recorded by this call. A program that deleted the item just before
        // has not seen them.
        var isShown = isDone
        if isDone, adjustment.addsConflicts {
            isShown = try table.local(adjustment.item)?.isAlive == true
        }
        if isShown {
            let session = try table.session()
            mirror.base = Agreement(adjustment.remote, session)
            if !isNewer { mirror.remote = nil }
            mirror.since =
                mirror.remote?.firstChange(after: mirror.base, session, bugs) ?? 0
            mirror.state = isNewer ? .due : .settled
            // The times that the journal has noted are those of the arrival.
            if !isNewer, adjustment.remote.unified == nil,
                try matches(adjustment.remote, mirror, &table)
            {
                try table.removeUnsent(adjustment.item)
            }
            if let local = try table.local(adjustment.item), let id = local.revision,
                let time = local.newTime(in: adjustment.remote)
            {
                try table.setModified(time, of: id)
            }
        } else {
            mirror.state = isStuck ? .stuck : .due
        }
        try table.setMirror(adjustment.item, mirror)
        guard let holder = adjustment.holder, var other = try table.mirror(holder),
            other.state == .underway
        else { return }
        if isDone, let left = adjustment.local { other.stands(at: left) }
        other.state = other.remote == nil ? .settled : .due
        try table.setMirror(holder, other)
    }

    /// Begins again from scratch, because the hub was replaced or restored, or because this
    /// device's journal was.
    package func restart<T: DeviceTable>(
        epoch: UInt32, volumeEpoch: Identifier, in table: inout T
    ) throws(T.Failure) {
        var session = try table.session()
        try table.emptyOutbox()
        try table.forgetRemotes()
        session.epoch = epoch
        session.volumeEpoch = volumeEpoch
        session.generation += 1
        (session.cursor, session.run) = (0, nil)
        session.nextNumber = 1
        session.sentUpTo = 0
        session.isFresh = true
        session.isBehind = true
        try table.set(session)
    }

    // MARK: Parts

    /// Whether the item has no unsent change and no operation in the outbox.
    private func isFree<T: DeviceTable>(_ id: Identifier, _ table: inout T) throws(T.Failure)
        -> Bool
    {
        if try table.isInOutbox(id), !bugs.contains(.ignoresOutbox) { return false }
        var isOpen = try table.isUnsent(id)
        if !isOpen { isOpen = try table.isStale(id) }
        if !isOpen, let state = try table.mirror(id)?.remote, !state.conflicts.isEmpty,
            let local = try table.local(id)
        {
            isOpen = try !comparison.superseded(id, local, Image(state), &table).isEmpty
        }
        if isOpen, !bugs.contains(.overwritesUnsent) {
            // The item is compared, because there may be no difference to send.
            let draft = try comparison.draft(id, in: &table)
            if draft.changes.isEmpty, !draft.isAnotherKind { return true }
            try table.addUnsent(id)
            return false
        }
        return true
    }

    private func possibleSteps<T: DeviceTable>(
        _ state: ItemState, _ local: Image?, _ table: inout T
    ) throws(T.Failure)
        -> (target: ItemState, steps: [Adjustment.Step], holder: Identifier?)?
    {
        guard state.life.isAlive else {
            guard let local else { return (state, [], nil) }
            // The items in the directory are removed first. If one stays, the directory stays.
            if local.kind == .directory, try table.hasLocalChildren(state.id) { return nil }
            return (state, [.remove], nil)
        }
        let parent = state.placement.parent
        guard try table.isOpen(parent, to: state.id) else { return nil }
        let steps = local.map { Adjustment.steps(from: $0, to: state) } ?? making(state)
        let needsName = steps.contains { step in
            switch step {
            case .make, .move: true
            default: false
            }
        }
        guard needsName, let holder = try table.localChild(state.name, in: parent),
            holder != state.id
        else { return (state, steps, nil) }
        guard let known = try table.mirror(holder), known.remote != nil, known.state != .underway
        else { return nil }
        // A directory cannot exchange places with an item inside it.
        if local != nil, try table.isSwap(state.id, holder),
            try !table.isWithin(state.id, holder)
        {
            return (state, steps, holder)
        }
        guard try table.waits(holder, for: state.id) else { return nil }
        guard let name = try table.freeName(for: state) else { return nil }
        var target = state
        target.placement.name = name
        target.isBounced = false
        return (target, local.map { Adjustment.steps(from: $0, to: target) } ?? making(target), nil)
    }

    private func making(_ state: ItemState) -> [Adjustment.Step] {
        if state.conflicts.isEmpty || bugs.contains(.makesOnlyWhatIsCurrent) { return [.make] }
        return [.make, .conflicts(added: state.conflicts, settled: [])]
    }

}

extension Adjustment {
    /// The steps by which an item of the tree gets the state that it has at the hub.
    static func steps(from local: Image, to state: ItemState) -> [Adjustment.Step] {
        let remote = Image(state)
        var steps: [Adjustment.Step] = []
        if !local.isAt(remote) { steps.append(.move(parent: remote.parent, name: remote.name)) }
        if let current = state.current, !local.hasContents(of: remote) {
            steps.append(.contents(current))
        }
        let names = Set(local.attributes.keys).union(remote.attributes.keys)
        var differing = names.filter { local.attributes[$0] != remote.attributes[$0] }
        if local.newTime(in: state) != nil { differing.insert(Image.modifiedName) }
        if !differing.isEmpty {
            steps.append(
                .attributes(
                    differing.reduce(into: [:]) {
                        $0.updateValue(remote.attributes[$1], forKey: $1)
                    })
            )
        }
        let added = state.conflicts.filter { !local.conflicts.contains($0.id) }
        let settled = local.conflicts.filter { !remote.conflicts.contains($0) }
        if !added.isEmpty || !settled.isEmpty {
            steps.append(.conflicts(added: added, settled: settled))
        }
        return steps
    }
}

extension DeviceTable {
    /// A temporary name for an item whose own name is not free yet; nil if it has one. What a copy
    /// of a store has recorded as a new item may have the first one.
    fileprivate mutating func freeName(for state: ItemState) throws(Failure) -> String? {
        for number in 0..<8 {
            let mark = Identifier(
                high: state.id.high &+ UInt64(number) << 32, low: state.id.low)
            let name = state.name.withMark(of: mark)
            guard let other = try localChild(name, in: state.placement.parent) else { return name }
            if other == state.id { return nil }
        }
        return nil
    }

    /// Adopts an item that is already at the name and has no id at the hub: a directory, or a
    /// document with equal contents. In the first exchange also a document with other contents,
    /// which then count as an edit. The local item gets the hub's id.
    fileprivate mutating func adopt(
        _ state: ItemState, _ session: Session
    ) throws(Failure) -> Bool {
        guard let twin = try self.localChild(state.name, in: state.placement.parent),
            twin != state.id, let local = try self.local(twin), local.kind == state.kind,
            try self.isNew(twin, session),
            try !isInOutbox(twin)
        else { return false }
        let remote = Image(state)
        let isSame =
            state.kind == .directory
            || local.hasContents(of: remote) && local.target == remote.target
        guard isSame || session.isFresh && state.kind.isDocument else { return false }
        try self.setMirror(twin, nil)
        try self.reidentify(twin, as: state.id)
        // Only contents and attributes that the hub does not have are sent. Nothing says that other
        // values of its attributes are newer here, and the hub's may protect what is private. What
        // only the hub has does not count as removed.
        var base = Agreement(state, session)
        if !isSame { (base.image.revision, base.image.content) = (nil, nil) }
        base.image.conflicts.removeAll { !local.conflicts.contains($0) }
        base.image.attributes = local.attributes.filter { base.image.attributes[$0.key] != nil }
        let since = state.firstChange(after: nil, session)
        base.sequence = max(since, 1) - 1
        try self.setMirror(
            state.id, Mirror(base: base, remote: state, state: .due, since: since))
        try self.removeUnsent(twin)
        try self.addUnsent(state.id)
        return true
    }

    /// Whether the hub does not know the item. A device that was here before, or comes from another
    /// hub, knows that only when it has received everything: a journal that was rolled back may
    /// have sent the item without knowing so.
    private mutating func isNew(_ id: Identifier, _ session: Session) throws(Failure) -> Bool {
        let knowsAll = !session.isBehind || !session.hasEarlierAgreements
        guard let mirror = try self.mirror(id) else { return knowsAll }
        guard mirror.remote == nil else { return false }
        guard let base = mirror.base else { return knowsAll }
        return base.isForeign && !session.isBehind
    }

    /// Whether the agreement is from before a restart. Operations that were being sent then are not
    /// in the outbox any more.
    fileprivate mutating func isStale(_ id: Identifier) throws(Failure)
        -> Bool
    {
        guard let base = try mirror(id)?.base else { return false }
        return !base.isOf(try session())
    }
}

extension ItemState {
    /// The lowest sequence number in the item that is above what was agreed on.
    fileprivate func firstChange(
        after base: Agreement?, _ session: Session, _ bugs: Set<SyncPlannerBug> = []
    ) -> UInt64 {
        var known: UInt64 = 0
        if let base, base.isOf(session) { known = base.sequence }
        var all = [placedSequence, sequence] + live.map(\.sequence)
        if !bugs.contains(.overlooksAttributes) { all += attributes.values.map(\.sequence) }
        if case .trashed(_, let sequence) = life { all.append(sequence) }
        return all.filter { $0 > known }.min() ?? sequence
    }
}
