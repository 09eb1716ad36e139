import Model

/// What is to be sent about an item.
package struct ItemDraft: Hashable, Sendable {
    package var item: Identifier
    package var changes: [Change]
    /// Where the changes place the item or restore it to; nil when they do neither.
    package var placement: Placement?
    /// The item's directory, when the hub must know that one first.
    package var waitsFor: Identifier?
    /// A version of the item is being sent, and the hub may refuse it. The next version, and
    /// attributes of contents, are drafted from the agreement that holds after the answer.
    package var isWaiting = false
    /// The item has become another kind of item, so the tree's item needs a new id first.
    package var isAnotherKind = false
    /// The draft only gives the item a temporary name.
    var isAside = false
    /// The version that the tree shows.
    var current: Identifier?
    /// The conflict versions that must be sent later (`DeviceTable.isHeldBack`).
    package internal(set) var heldBack: [Identifier] = []

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

extension ItemDraft {
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
    var timeless: Self {
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

    var isAttribute: Bool { if case .attribute = self { true } else { false } }

    /// Whether the change makes an item or a version. The attributes after it belong to that, so
    /// all of them are one group (`OperationGroup`).
    package var startsGroup: Bool {
        if case .create = self { true } else { revision != nil }
    }

    /// Whether it sets an attribute that belongs to contents (`OperationGroup`).
    package var describesContents: Bool {
        if case .attribute(let name, _) = self { Image.isOfContents(name) } else { false }
    }

    /// The names of the attributes that the change sets or removes.
    var attributes: [String] {
        switch self {
        case .create(let creation): Array(creation.attributes.keys)
        case .attribute(let name, _): [name]
        default: []
        }
    }
}
