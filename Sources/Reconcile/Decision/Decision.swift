import Model

extension Operation {
    /// Decides the operation by the decision table, and writes the effects into `table`.
    ///
    /// The hub applies each operation of a device once and in order. It has limited the operation's
    /// time to the time of its arrival. An operation that is applied a second time changes nothing.
    ///
    /// - Parameters:
    ///   - sequence: Its position in the volume's journal, higher than that of every operation
    ///     before.
    ///   - isFenced: Whether another device may edit the document now, and this one may not.
    package func apply<T: ItemTable>(
        to table: inout T, sequence: UInt64, isFenced: Bool = false
    ) throws(T.Failure) -> Verdict {
        let decision = Decision(operation: self, sequence: sequence, isFenced: isFenced)
        let named = item
        let item = try table.canonical(named)
        // A device that still uses the old id is told once more that the item has another id.
        if item != named { try table.setAlias(of: named, to: item) }
        switch change {
        case .create(let creation): return try decision.create(item, creation, in: &table)
        case .edit(let revision): return try decision.edit(item, revision, in: &table)
        case .move(let placement, let base):
            return try decision.move(item, placement, base: base, in: &table)
        case .delete(let current): return try decision.delete(item, current, in: &table)
        case .restore: return try decision.restore(item, in: &table)
        case .attribute(let name, let value):
            return try decision.setAttribute(item, name, value, in: &table)
        case .resolve(let settled, let revision):
            return try decision.resolve(item, settled, revision, in: &table)
        }
    }
}

/// An operation and its position in the journal.
struct Decision {
    let operation: Operation
    let sequence: UInt64
    /// Whether new contents become a conflict version in any case, and the current version stays
    /// (row 32).
    var isFenced = false

    /// Whether the device knew of a change: it had received the journal up to there, or it had made
    /// the change itself before. After a device gets a new epoch it does not know its earlier
    /// changes any more.
    func saw(_ sequence: UInt64, by other: OperationID?) -> Bool {
        sequence <= operation.base || other.map(isOwn) ?? false
    }

    private func isOwn(_ other: OperationID) -> Bool {
        other.device == operation.id.device && other.epoch == operation.id.epoch
            && other.number < operation.id.number
    }

    // MARK: Create

    /// Decides a creation: rows 10 to 14.
    func create<T: ItemTable>(_ id: Identifier, _ creation: Creation, in table: inout T)
        throws(T.Failure) -> Verdict
    {
        if let known = try table.item(id) {
            return try createAgain(known, creation, in: &table)
        }
        let parent = try aliveDirectory(creation.placement.parent, in: &table)
        let revision =
            try creation.kind.isDocument
            ? creation.revision.mapped { (new) throws(T.Failure) in
                try received(new, in: &table)
            } : nil
        if let holder = try table.holder(of: creation.placement.key, in: parent),
            let incumbent = try table.item(holder), isSame(incumbent, creation)
        {
            try unify(creation, revision, into: incumbent, in: &table)
            return .unified(into: holder)
        }
        var item = ItemState(
            id: id, kind: creation.kind,
            target: creation.kind == .symlink ? creation.target : nil,
            placement: creation.placement, placedBy: operation.id, placedAt: operation.moment,
            placedSequence: sequence, current: revision, sequence: sequence)
        item.placement.parent = parent
        for (name, value) in creation.attributes {
            item.attributes[name] = Register(
                value: value, moment: operation.moment, sequence: sequence)
        }
        try assignName(of: &item, in: &table)
        try table.put(item)
        if let revision { try table.record(revision, of: id) }
        return item.isBounced ? .bounced : .applied
    }

    /// The item exists already. Either the creation is a repetition, or it comes from a copied
    /// journal and says something else, which must not be lost.
    private func createAgain<T: ItemTable>(
        _ known: ItemState, _ creation: Creation, in table: inout T
    ) throws(T.Failure) -> Verdict {
        if known.kind.isDocument, let revision = creation.revision,
            try !isKnown(revision.id, of: known, in: &table)
        {
            let verdict = try edit(known.id, revision, in: &table)
            try update(known.id, to: creation, in: &table)
            return verdict
        }
        var item = known
        if case .trashed(let batch, let gone) = known.life {
            // If the device had seen the deletion, it wants the item again. If not, it only repeats
            // what was true before the deletion.
            if saw(gone, by: batch) {
                try reviveChain(known.id, in: &table)
                item = try table.item(known.id) ?? known
            } else {
                try table.resend(known.id, sequence)
            }
        } else {
            try update(known.id, to: creation, in: &table)
            item = try table.item(known.id) ?? known
        }
        if item.id != operation.item { return .unified(into: item.id) }
        return item.isBounced ? .bounced : .applied
    }

    /// Since the journal was copied, the device may have moved the item and changed its attributes.
    /// The newer placement and the newest attributes win (rows 16 and 24). A repetition is not
    /// newer than itself, so it changes nothing.
    private func update<T: ItemTable>(
        _ id: Identifier, to creation: Creation, in table: inout T
    ) throws(T.Failure) {
        guard id == operation.item, var item = try table.item(id), item.life.isAlive else { return }
        let wanted = creation.placement
        let parent = try table.canonical(wanted.parent)
        if item.placedAt < operation.moment,
            item.placement.parent != parent || item.placement.name != wanted.name
        {
            _ = try move(id, wanted, base: .unknown, in: &table)
            item = try table.item(id) ?? item
        }
        guard item.take(creation.attributes, operation.moment, sequence) else { return }
        item.sequence = sequence
        try table.put(item)
    }

    private func isSame(_ incumbent: ItemState, _ creation: Creation) -> Bool {
        guard incumbent.kind == creation.kind else { return false }
        switch creation.kind {
        case .directory: return true
        case .symlink: return incumbent.target == creation.target
        case .file, .package:
            return creation.revision != nil
                && incumbent.current?.content == creation.revision?.content
        }
    }

    private func unify<T: ItemTable>(
        _ creation: Creation, _ revision: Revision?, into incumbent: ItemState, in table: inout T
    ) throws(T.Failure) {
        var item = incumbent
        if let revision {
            item.current?.stand(for: revision)
            try table.record(revision, of: item.id)
        }
        _ = item.take(creation.attributes, operation.moment, sequence)
        item.sequence = sequence
        try table.put(item)
        try table.setAlias(of: operation.item, to: item.id)
    }

    // MARK: Move

    /// Decides a move: rows 5 and 15 to 18.
    func move<T: ItemTable>(
        _ id: Identifier, _ placement: Placement, base: OperationID, in table: inout T
    ) throws(T.Failure) -> Verdict {
        guard id != .root, let item = try table.item(id) else { return .overruled(.unknownItem) }
        if item.placedBy == operation.id { return item.isBounced ? .bounced : .applied }
        let target = try table.canonical(placement.parent)
        guard try table.item(target)?.kind == .directory else {
            return try overrule(item, .unknownItem, in: &table)
        }
        if try table.isAncestor(id, of: target) {
            return try overrule(item, .cycle, in: &table)
        }
        var moment = operation.moment
        if item.placedBy == base {
            moment.raise(above: item.placedAt)
        } else if moment < item.placedAt {
            return try overrule(item, .newerMove, in: &table)
        }
        let parent = try aliveDirectory(target, in: &table)
        // Reviving the directories above the target may have merged the target into the item
        // itself.
        guard try !table.isAncestor(id, of: parent), var moved = try table.item(id) else {
            return try overrule(item, .cycle, in: &table)
        }
        moved.placement = placement
        moved.placement.parent = parent
        // A device that used another id does not know that the item is here, so the placement does
        // not count as its own.
        moved.placedBy = operation.item == id ? operation.id : nobody
        moved.placedAt = moment
        moved.placedSequence = sequence
        moved.isBounced = false
        moved.life = .alive
        moved.sequence = sequence
        try assignName(of: &moved, in: &table)
        try table.put(moved)
        if case .trashed(let batch, _) = item.life {
            try reviveContents(of: id, batch, in: &table)
        }
        return moved.isBounced ? .bounced : .applied
    }

    /// Stands for a placement that no device has seen.
    private var nobody: OperationID { OperationID(device: .root, epoch: 0, number: sequence) }

    /// Leaves the item where it is, but takes it out of the trash, because the device wanted to
    /// keep it.
    private func overrule<T: ItemTable>(
        _ item: ItemState, _ reason: Verdict.Reason, in table: inout T
    ) throws(T.Failure) -> Verdict {
        try revive(item, in: &table)
        guard reason != .newerMove, var stays = try table.item(item.id) else {
            try table.resend(item.id, sequence)
            return .overruled(reason)
        }
        // The device believes that the item is elsewhere. If it deletes that place before it
        // receives this change, the deletion must not affect the item.
        stays.placedBy = nobody
        stays.placedSequence = sequence
        stays.sequence = sequence
        try table.put(stays)
        return .overruled(reason)
    }

    // MARK: Attributes

    /// Decides an attribute: rows 6 and 24.
    func setAttribute<T: ItemTable>(
        _ id: Identifier, _ name: String, _ value: [UInt8]?, in table: inout T
    ) throws(T.Failure) -> Verdict {
        guard var item = try table.item(id) else { return .overruled(.unknownItem) }
        var register = Register(value: value, moment: operation.moment, sequence: sequence)
        if let old = item.attributes[name] {
            // A device has seen its own values, so its later operation is newer, whatever the
            // clocks say.
            if old.sequence <= operation.base || old.moment.device == operation.moment.device {
                register.moment.raise(above: old.moment)
            } else if register.moment < old.moment {
                try table.resend(id, sequence)
                return .overruled(.newerValue)
            }
        }
        item.attributes[name] = register
        item.sequence = sequence
        try table.put(item)
        return .applied
    }
}

extension ItemState {
    /// Takes the attributes of a creation that are newer than its own. Returns whether there were
    /// some.
    fileprivate mutating func take(
        _ others: [String: [UInt8]], _ moment: Moment, _ sequence: UInt64
    ) -> Bool {
        let newer = others.filter { name, _ in
            attributes[name].map { $0.moment < moment } ?? true
        }
        for (name, value) in newer {
            attributes[name] = Register(value: value, moment: moment, sequence: sequence)
        }
        return !newer.isEmpty
    }
}

extension Moment {
    /// Makes this moment newer than that of the change it is based on, whatever the clocks say.
    mutating func raise(above other: Moment) {
        if time <= other.time { time = other.time == .max ? .max : other.time + 1 }
    }

    /// Makes this moment older than another one.
    mutating func lower(below other: Moment) {
        if time >= other.time { time = other.time == .min ? .min : other.time - 1 }
    }
}

extension Optional {
    func mapped<Result, Failure: Error>(_ body: (Wrapped) throws(Failure) -> Result)
        throws(Failure) -> Result?
    {
        guard let self else { return nil }
        return try body(self)
    }
}

extension ItemTable {
    /// Sends an item through the feed once more, because the device believes that its own state of
    /// the item is the hub's.
    package mutating func resend(_ id: Identifier, _ sequence: UInt64) throws(Failure) {
        guard var item = try item(id), item.sequence != sequence else { return }
        item.sequence = sequence
        try put(item)
    }

    package mutating func resendAll(_ item: ItemState, _ sequence: UInt64) throws(Failure) {
        var open = [item.id]
        var seen: Set<Identifier> = []
        while let next = open.popLast() {
            guard seen.insert(next).inserted, let item = try self.item(next), item.life.isAlive
            else { continue }
            try resend(next, sequence)
            if item.kind == .directory { open += try children(of: next) }
        }
    }

    /// The id of the item that `id` has been unified into, if any, else `id`.
    package mutating func canonical(_ id: Identifier) throws(Failure) -> Identifier {
        var (id, seen) = (id, Set<Identifier>())
        while seen.insert(id).inserted, let next = try alias(of: id) { id = next }
        return id
    }

    /// Whether `id` is `other` or a directory above it. Items in the trash count, too.
    mutating func isAncestor(_ id: Identifier, of other: Identifier) throws(Failure) -> Bool {
        if id == .root || id == other { return true }
        var seen: Set<Identifier> = [.root]
        var next = other
        while seen.insert(next).inserted, let item = try item(next) {
            next = item.placement.parent
            if next == id { return true }
        }
        return false
    }
}
