import Model

/// What a device did to one item, and what it had seen before.
package struct Operation: Hashable, Sendable {
    package var id: OperationID
    /// The id under which the device knows the item. The device keeps its own ids for what it has
    /// created, items and versions, until the hub's journal says that they are others: what a
    /// device only expects may turn out differently.
    package var item: Identifier
    /// The time by the hub's clock. The hub lowers it to the time of arrival if it is later.
    package var moment: Moment
    /// The position in the hub's journal up to which the device knew and showed everything.
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
    /// The first parent is the version that was current on the device, or the conflict version that
    /// was edited.
    case edit(Revision)
    /// `base` is the operation that had placed the item where the device saw it.
    case move(Placement, base: OperationID)
    /// `current` is the revision that the device saw. What else it had seen follows from
    /// `Operation.base`.
    case delete(current: Identifier?)
    /// Takes the item out of the trash, to its former place.
    case restore
    /// Nil removes the attribute.
    case attribute(String, [UInt8]?)
    /// Settles exactly these conflict versions, with new contents or with the current ones.
    case resolve([Identifier], Revision?)
}

package struct Creation: Hashable, Sendable {
    package var kind: ItemKind
    package var placement: Placement
    /// The first contents of a document.
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

/// What the hub decided about an operation. No verdict is an error: the feed says what the state is
/// now.
package enum Verdict: Hashable, Sendable {
    case applied
    /// The operation lost, completely or partly. The reason refers to the decision table: a move
    /// lost to a newer move, a deletion to an unseen edit, or a move would have made a cycle.
    case overruled(Reason)
    /// The item has its spare name.
    case bounced
    /// The item was unified with another one: equal directories, or equal files of the same name.
    case unified(into: Identifier)
    /// The item has one more live version than before: they are in conflict.
    case conflict

    package enum Reason: String, Hashable, Sendable {
        case newerMove, newerValue, cycle, unseenChange, partly, unknownItem, alreadyGone
    }
}
