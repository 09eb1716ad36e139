import HubProtocol
import Model
import Reconcile

/// What no item may be, whatever the journal says: such an operation is refused alone.
struct OperationCheck {
    /// Why it is refused, in a sentence.
    static func objection(to entry: OperationEntry) -> String? {
        if entry.item == .root { return "Nothing changes the volume's root." }
        if let objection = objection(to: entry.change, of: entry.item) { return objection }
        switch (entry.change.revision, entry.content) {
        case (nil, nil): return nil
        case (nil, _?): return "There are contents without a version."
        case (_?, nil): return "The version's manifest and chunks are missing."
        case (let revision?, let content?): return objection(to: revision, content)
        }
    }

    private static func objection(to change: Change, of item: Identifier) -> String? {
        switch change {
        case .create(let creation): return objection(to: creation, of: item)
        case .move(let placement, _): return objection(to: placement, of: item)
        case .attribute(let name, let value): return Register.objection(to: name, value)
        case .resolve(let named, _):
            return named.count > 1000 ? "A resolution names at most 1000 versions." : nil
        case .edit, .delete, .restore: return nil
        }
    }

    /// Devices show old versions under these names, and prepare in the last one what arrives.
    private static let ownNames: Set = [".versions", ".conflicts", ".concord-incoming"]

    private static func objection(to placement: Placement, of item: Identifier) -> String? {
        for name in [placement.name, placement.spare] where ownNames.contains(name) {
            return "The name \(name) is one that devices keep for themselves."
        }
        return placement.objection(of: item)
    }

    private static func objection(to creation: Creation, of item: Identifier) -> String? {
        if let objection = objection(to: creation.placement, of: item) { return objection }
        if creation.revision != nil, !creation.kind.isDocument {
            return "Only a document is made with contents."
        }
        // An empty file may have none yet.
        if creation.kind == .package, creation.revision == nil {
            return "A package is made with its contents."
        }
        if let objection = creation.kind.objection(toTarget: creation.target) { return objection }
        guard creation.attributes.count <= HubLimits.attributes else {
            return "An item has at most \(HubLimits.attributes) attributes."
        }
        for (name, value) in creation.attributes {
            if let objection = Register.objection(to: name, value) { return objection }
        }
        return nil
    }

    private static func objection(to revision: Revision, _ content: RevisionContent) -> String? {
        if let objection = revision.objection { return objection }
        guard (1...HubLimits.manifestBytes).contains(content.manifest.bytes.count) else {
            return "A manifest has 1 to \(HubLimits.manifestBytes) bytes."
        }
        guard content.chunks.ids.count <= HubLimits.chunksPerRevision,
            Set(content.chunks.ids).count == content.chunks.ids.count
        else { return "A version names a chunk twice, or too many of them." }
        return nil
    }
}
