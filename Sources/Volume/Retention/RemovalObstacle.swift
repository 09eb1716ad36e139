import Journal
import Model

/// A reason why a version must stay. Whatever removes versions asks for this first.
package enum RemovalObstacle: Hashable, Sendable {
    /// This version or another one of the document is in the outbox, which is sent from the
    /// versions.
    case waitsForHub
    /// The hub does not know this version yet, or the deletion of its document.
    case notSent
    case current
    /// It was current when its document was deleted.
    case lastOfDeleted
    case conflict
    /// A conflict version was made from it, or will be merged with it as the base.
    case mergeBase
    case named(String)

    /// The end of a sentence that begins with "Version 3 of letter.txt".
    var words: String {
        switch self {
        case .waitsForHub:
            "waits to be confirmed by the hub, or another version of this document does: "
                + "run `fsctl wait --durable hub`, and forget it then."
        case .notSent: "has not been sent to the hub yet, so it cannot be forgotten."
        case .current: "is the current version of the document, so it cannot be forgotten."
        case .lastOfDeleted:
            "is the last version of a deleted document, so it is not forgotten alone; "
                + "run `fsctl purge` to remove all that the document has."
        case .conflict:
            "is in conflict with the current one; run `fsctl resolve` first."
        case .mergeBase:
            "is the version that a conflict version was made from, and is needed to merge the two; "
                + "run `fsctl resolve` first."
        case .named(let label):
            "is kept by its label “\(label)”; run `fsctl name --remove` first."
        }
    }

    /// The end of a sentence that begins with "2 versions stay: ".
    var reason: String {
        switch self {
        case .waitsForHub: "waiting to be confirmed by the hub (`fsctl wait --durable hub`)"
        case .notSent: "not sent to the hub yet (`fsctl wait --durable hub`)"
        case .current: "shown now"
        case .lastOfDeleted: "the last one of a deleted document"
        case .conflict: "in conflict (`fsctl resolve`)"
        case .mergeBase: "needed to merge a conflict (`fsctl resolve`)"
        case .named: "kept by a label (`fsctl name --remove`)"
        }
    }
}

extension Reader {
    /// Whether the hub knows an item, or is about to. Such an item keeps its row until the hub
    /// knows of its deletion.
    func isKnownToHub(_ item: Item) throws(VolumeError) -> Bool {
        // What was agreed on with a hub stays after the volume has left it.
        guard try hub.belongsToHub() else { return false }
        if try hub.mirror(item.id) != nil { return true }
        return try hub.isInOutbox(item.id)
    }

    /// Whether items, also deleted ones, are in this directory.
    func isParent(_ item: Item) throws(VolumeError) -> Bool {
        guard item.kind == .directory || item.kind == .package else { return false }
        if try !deletedItems(in: item.key).isEmpty { return true }
        return try !children(of: item.key).isEmpty
    }
}

/// Finds what prevents the removal of versions of one document.
struct RemovalCheck {
    private let item: Item
    private let isInOutbox: Bool
    private let isNotSent: Bool
    private let bases: Set<Identifier>

    init(_ item: Item, _ versions: [Version], _ reader: Reader) throws(VolumeError) {
        self.item = item
        isInOutbox = try reader.hub.isInOutbox(item.id)
        // Without this, the device and the hub agree on the item.
        let isOpen = try reader.hub.mirror(item.id).map { $0.state != .settled } ?? false
        let isUnsent = try reader.hub.isUnsent(item.key)
        isNotSent = isOpen || isUnsent
        var bases: Set<Identifier> = []
        let conflicts = versions.filter { $0.kind == .conflict }
        let lineage = conflicts.isEmpty ? nil : Lineage(versions)
        for conflict in conflicts {
            bases.formUnion(conflict.parents)
            if let current = item.current,
                let base = lineage?.base(of: current, and: conflict.id)
            {
                bases.insert(base.id)
            }
        }
        self.bases = bases
    }

    /// Returns nil if the version may be removed.
    func obstacle(to version: Version) -> RemovalObstacle? {
        if isInOutbox, !PlantedFault.purgesWhatWaits.isPlanted { return .waitsForHub }
        let isCurrent = version.kind == .current || version.id == item.current
        if isCurrent {
            return isNotSent ? .notSent : item.deleted == nil ? .current : .lastOfDeleted
        }
        if version.kind == .conflict { return .conflict }
        if bases.contains(version.id) { return .mergeBase }
        return version.label.map { .named($0) }
    }

    /// Whether the row of a deleted item may be removed. The hub is told of the deletion from that
    /// row.
    var mayRemoveRow: Bool { !isInOutbox && !isNotSent }
}
