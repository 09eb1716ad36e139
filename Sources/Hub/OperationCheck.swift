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
        case .attribute(let name, let value): return objection(toAttribute: name, value)
        case .resolve(let named, _):
            return named.count > 1000 ? "A resolution names at most 1000 versions." : nil
        case .edit, .delete, .restore: return nil
        }
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
        if (creation.kind == .symlink) != (creation.target != nil) {
            return "A symbolic link is made with a target, and nothing else is."
        }
        if let target = creation.target {
            guard (1...HubLimits.targetBytes).contains(target.utf8.count), !target.contains("\0")
            else {
                return
                    "A symbolic link's target has 1 to \(HubLimits.targetBytes) bytes and no NUL."
            }
        }
        guard creation.attributes.count <= HubLimits.attributes else {
            return "An item has at most \(HubLimits.attributes) attributes."
        }
        for (name, value) in creation.attributes {
            if let objection = objection(toAttribute: name, value) { return objection }
        }
        return nil
    }

    private static func objection(to placement: Placement, of item: Identifier) -> String? {
        if placement.parent == item { return "An item is not in itself." }
        for name in [placement.name, placement.spare] {
            let isGood =
                (1...HubLimits.nameBytes).contains(name.utf8.count) && name != "." && name != ".."
                && !name.utf8.contains(UInt8(ascii: "/")) && !name.utf8.contains(0)
            guard isGood else {
                return "A name has 1 to \(HubLimits.nameBytes) bytes, no slash and no NUL, and is "
                    + "not . or .."
            }
        }
        for key in [placement.key, placement.spareKey] {
            guard (1...HubLimits.nameKeyBytes).contains(key.bytes.count) else {
                return "The key of a name has 1 to \(HubLimits.nameKeyBytes) bytes."
            }
        }
        return nil
    }

    private static func objection(toAttribute name: String, _ value: [UInt8]?) -> String? {
        switch name {
        case "mode":
            guard let value else { return nil }
            let mode = value.reduce(0) { $0 << 8 | Int($1) }
            return value.count == 2 && mode <= SharedMode.mask
                ? nil : "A mode has two bytes, up to 01777: set-ID bits stay on their device."
        case "modified":
            return value.map { $0.count == 8 } ?? true ? nil : "A time has eight bytes."
        default:
            guard name.hasPrefix("x:"), AttributeList.travels(name.utf8.dropFirst(2)),
                !name.utf8.contains(0), name.utf8.count <= HubLimits.attributeNameBytes
            else { return "There is no attribute of this name." }
            return value?.count ?? 0 <= HubLimits.attributeBytes
                ? nil : "An attribute has at most \(HubLimits.attributeBytes) bytes."
        }
    }

    private static func objection(to revision: Revision, _ content: RevisionContent) -> String? {
        guard revision.parents.count <= HubLimits.parents else {
            return "A version has at most \(HubLimits.parents) parents."
        }
        guard !revision.parents.contains(revision.id) else { return "A version is not its parent." }
        let note = revision.note
        for text in [note.deviceName, note.person, note.program, note.name]
        where text.utf8.count > HubLimits.noteBytes {
            return "A note has at most \(HubLimits.noteBytes) bytes."
        }
        guard (1...HubLimits.manifestBytes).contains(content.manifest.bytes.count) else {
            return "A manifest has 1 to \(HubLimits.manifestBytes) bytes."
        }
        guard content.chunks.ids.count <= HubLimits.chunksPerRevision,
            Set(content.chunks.ids).count == content.chunks.ids.count
        else { return "A version names a chunk twice, or too many of them." }
        return nil
    }
}
