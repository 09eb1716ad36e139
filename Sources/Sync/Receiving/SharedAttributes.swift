import HubProtocol
import Journal
import Model
import Reconcile
import Volume

extension ItemState {
    /// The state without attributes that devices do not share; an older or hostile hub may send
    /// them anyway.
    var withSharedAttributes: ItemState {
        var state = self
        if let bytes = attributes["mode"]?.value, bytes.count == 2 {
            let mode = SharedMode.bits(of: UInt16(bytes[0]) << 8 | UInt16(bytes[1]))
            state.attributes["mode"]?.value = [UInt8(mode >> 8), UInt8(mode & 0xFF)]
        }
        state.attributes = state.attributes.filter { name, register in
            Register.objection(to: name, register.value) == nil
        }
        return state
    }
}

extension AttributeList {
    /// Creates the list of those attributes of an item that are extended attributes of its file,
    /// and its owner.
    init(travelling attributes: [String: [UInt8]]) {
        self.init(
            attributes.filter { $0.key.hasPrefix("x:") }.map {
                Attribute(name: Array($0.key.dropFirst(2).utf8), value: $0.value)
            }, owner: attributes[OwnerName.attribute].flatMap { OwnerName($0) },
            isOwnerOnFile: Accounts.ofThisMachine != nil)
    }

    /// The list after the hub's changes. An attribute that is not on the file then was refused by
    /// the file system.
    func agreed(_ changes: [String: [UInt8]?]) -> AttributeList {
        let set = AttributeList(travelling: changes.compactMapValues(\.self))
        let changed = Set(changes.keys.map { Array($0.dropFirst(2).utf8) })
        let kept = attributes.filter { $0.isOnFile || !changed.contains($0.name) }
        var list = AttributeList(kept).lacking(of: set)
        if changes[OwnerName.attribute] == nil {
            (list.owner, list.isOwnerOnFile) = (owner, isOwnerOnFile)
        }
        return list
    }
}

extension TreeChange {
    init(_ changes: [String: [UInt8]?], _ state: ItemState, of kind: Item.Kind) {
        self.init()
        for (name, value) in changes {
            switch (name, value) {
            case ("mode", let bytes?) where bytes.count == 2:
                mode = UInt16(bytes[0]) << 8 | UInt16(bytes[1])
            case ("modified", let bytes?): modified = integer(bigEndian: bytes)
            case ("modified", nil): modified = state.current?.note.modified
            case (OwnerName.attribute, _):
                owner = FileOwner(value.flatMap { OwnerName($0) })
                includesContents = owner != nil && kind == .package
            case (_, let value?) where name.hasPrefix("x:"):
                set.append(
                    AttributeList.Attribute(name: Array(name.dropFirst(2).utf8), value: value))
            case (_, nil) where name.hasPrefix("x:"):
                removed.append(Array(name.dropFirst(2).utf8))
            default: break
            }
        }
    }
}
