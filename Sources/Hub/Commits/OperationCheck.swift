import HubProtocol
import Model
import Reconcile

/// The rules for operations that do not depend on the journal. An operation that breaks one is
/// refused without the others of its request.
struct OperationCheck {
    /// Returns a sentence that says why the operation is refused; nil if it is valid.
    static func objection(to entry: OperationEntry) -> String? {
        if entry.item == .root { return "The volume's root cannot be changed." }
        if let objection = objection(to: entry.change, of: entry.item) { return objection }
        switch (entry.change.revision, entry.content) {
        case (nil, nil): return nil
        case (nil, _?): return "The operation has contents, but its change has no version."
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

    /// Directories that devices show or use under these names: old versions, conflict versions, and
    /// a place where changes from the hub are prepared.
    private static let ownNames: Set = [".versions", ".conflicts", ".concord-incoming"]

    private static func objection(to placement: Placement, of item: Identifier) -> String? {
        for name in [placement.name, placement.spare] where ownNames.contains(name) {
            return "The name \(name) is reserved."
        }
        return placement.objection(of: item)
    }

    private static func objection(to creation: Creation, of item: Identifier) -> String? {
        if let objection = objection(to: creation.placement, of: item) { return objection }
        if creation.revision != nil, !creation.kind.isDocument {
            return "Only a document can have contents."
        }
        // Only an empty file may have no version yet.
        if creation.kind == .package, creation.revision == nil {
            return "A package must be created with its contents."
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
