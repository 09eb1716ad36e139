import Journal
import Model

/// Why a version has to stay among those of its document. Whatever removes versions asks for this
/// first.
package enum RemovalObstacle: Hashable, Sendable {
    /// It, or another version of the document, is in the outbox: what is there is sent with the
    /// version's contents.
    case waitsForHub
    /// The hub has not been told of it, or of the deletion of its document.
    case untold
    case current
    case conflict
    /// A conflict version was made from it, or is merged on top of it.
    case mergeBase
    case named(String)

    /// Behind "Version 3 of letter.txt".
    var words: String {
        switch self {
        case .waitsForHub:
            "waits to be confirmed by the hub, or another version of this document does: "
                + "forget it afterwards (`fsctl wait --durable hub` waits for that)."
        case .untold: "has not been sent to the hub yet, so it cannot be forgotten."
        case .current: "is what the document shows now, so it cannot be forgotten."
        case .conflict: "is in conflict with the current one: `fsctl resolve` settles that first."
        case .mergeBase:
            "is what a conflict version was made from, and is needed to merge the two: "
                + "`fsctl resolve` settles the conflict first."
        case .named(let label):
            "is kept as “\(label)”: `fsctl name --remove` takes that name away first."
        }
    }

    /// Behind "Stays: 3 versions, ".
    var reason: String {
        switch self {
        case .waitsForHub: "waiting to be confirmed by the hub (`fsctl wait --durable hub`)"
        case .untold: "not sent to the hub yet (`fsctl wait --durable hub`)"
        case .current: "shown now"
        case .conflict: "in conflict (`fsctl resolve`)"
        case .mergeBase: "needed to merge a conflict (`fsctl resolve`)"
        case .named: "kept by a label (`fsctl name --remove`)"
        }
    }
}

extension Reader {
    /// Whether the hub has been told of an item, or is being told now. Such an item keeps its row
    /// until the hub has been told of its deletion.
    func isKnownToHub(_ item: Item) throws(VolumeError) -> Bool {
        if try mirror(item.id) != nil { return true }
        return try isInOutbox(item.id)
    }
}

/// What keeps the versions of one document from being removed.
struct RemovalCheck {
    private let item: Item
    private let isInOutbox: Bool
    private let isUntold: Bool
    private let bases: Set<Identifier>

    init(_ item: Item, _ versions: [Version], _ reader: Reader) throws(VolumeError) {
        self.item = item
        isInOutbox = try reader.isInOutbox(item.id)
        // Else what hub and device agreed on is the last word.
        let isOpen = try reader.mirror(item.id).map { $0.state != .settled } ?? false
        let isUnsent = try reader.isUnsent(item.key)
        isUntold = isOpen || isUnsent
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

    /// Nil: it may go.
    func obstacle(to version: Version) -> RemovalObstacle? {
        if isInOutbox { return .waitsForHub }
        let isCurrent = version.kind == .current || version.id == item.current
        if isCurrent { return isUntold ? .untold : .current }
        if version.kind == .conflict { return .conflict }
        if bases.contains(version.id) { return .mergeBase }
        return version.label.map { .named($0) }
    }

    /// Whether the row of a deleted item may go: the deletion is told from it.
    var mayLoseRow: Bool { !isInOutbox && !isUntold }
}
