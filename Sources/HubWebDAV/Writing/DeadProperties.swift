import ChunkStore
import HubProtocol
import Model
import Reconcile

/// Properties that clients set and the hub only keeps. They are extended attributes of the item
/// (`user.webdav.…`), so they follow it to devices, and when it is moved or copied. The value of an
/// attribute is the whole element, so the attribute's name need only be unique.
enum DeadProperties {
    private static let prefix = "x:user.webdav."
    static let valueBytes = 16 << 10

    /// The name of the attribute.
    static func key(_ name: ElementName) -> String {
        let hash = Digest.sha256(Array("\(name.space)\0\(name.local)".utf8))
        return prefix + hexadecimal(hash.bytes.dropFirst().prefix(16))
    }

    /// The properties of an item, by their names. Attributes that a device has set in another form
    /// are none.
    static func all(of item: ItemState, for request: PropertyRequest) -> [ElementName: String] {
        var all: [ElementName: String] = [:]
        var wanted: Set<String>?
        if case .some(let names) = request {
            wanted = Set(names.lazy.filter { $0.space != "DAV:" }.map(key))
        }
        for (key, register) in item.attributes
        where key.hasPrefix(prefix) && wanted?.contains(key) ?? true {
            guard let value = register.value, value.count <= valueBytes,
                let element = try? ElementParser.parse(value),
                DeadProperties.key(element.name) == key,
                let text = element.serialized(atMost: valueBytes)
            else { continue }
            all[element.name] = text
        }
        return all
    }

    /// The changes after which an item has the properties of another one.
    static func changes(from old: ItemState, to new: ItemState) -> [(String, [UInt8]?)] {
        func values(_ item: ItemState) -> [String: [UInt8]] {
            item.attributes.compactMapValues(\.value).filter { $0.key.hasPrefix(prefix) }
        }
        let (before, after) = (values(old), values(new))
        return Set(before.keys).union(after.keys).sorted().filter { before[$0] != after[$0] }
            .map { ($0, after[$0]) }
    }
}
