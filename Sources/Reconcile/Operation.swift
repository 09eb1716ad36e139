import Model

/// What a device did to one item, and what it had seen when it did.
package struct Operation: Hashable, Sendable {
    package var id: OperationID
    /// What the device made goes by the id it made it under, and its versions by theirs, until the
    /// hub's journal says that it is another one: what a device only expects may come otherwise.
    package var item: Identifier
    /// Corrected by the hub's clock; the hub brings it down to the time at which it arrived.
    package var moment: Moment
    /// All the device knew and showed: the hub's journal up to there.
    package var base: UInt64
    package var change: Change

    package init(
        id: OperationID, item: Identifier, moment: Moment, base: UInt64, change: Change
    ) {
        self.id = id
        self.item = item
        self.moment = moment
        self.base = base
        self.change = change
    }
}

package enum Change: Hashable, Sendable {
    case create(Creation)
    /// Its first parent is what the device thought current, or the conflict version it edited.
    case edit(Revision)
    /// `base`: the operation that had put the item where the device saw it.
    case move(Placement, base: OperationID)
    /// `current`: the revision that the deleter saw; what else it had seen tells `base`.
    case delete(current: Identifier?)
    /// Out of the trash, to where it was.
    case restore
    /// nil: removed.
    case attribute(String, [UInt8]?)
    /// Settles exactly these conflict versions; with new contents, or with what is current.
    case resolve([Identifier], Revision?)
}

package struct Creation: Hashable, Sendable {
    package var kind: ItemKind
    package var placement: Placement
    /// A document's first contents.
    package var revision: Revision?
    package var target: String?
    package var attributes: [String: [UInt8]]

    package init(
        kind: ItemKind, placement: Placement, revision: Revision? = nil, target: String? = nil,
        attributes: [String: [UInt8]] = [:]
    ) {
        self.kind = kind
        self.placement = placement
        self.revision = revision
        self.target = target
        self.attributes = attributes
    }
}

/// What became of an operation. None of them is an error: the journal's effects say what is so now.
package enum Verdict: Hashable, Sendable {
    case applied
    /// It lost, or part of it did, and why is in the decision table's words: a move to a newer
    /// move, a delete to an unseen edit, a move that would close a cycle.
    case overruled(Reason)
    /// The item stands under its spare name.
    case bounced
    /// The item is another one from now on: equal folders, equal files of one name.
    case unified(into: Identifier)
    /// Two versions live.
    case conflict

    package enum Reason: String, Hashable, Sendable {
        case newerMove, newerValue, cycle, unseenChange, partly, unknownItem, alreadyGone
    }
}
