/// Extended attributes of an item that travel with it: those of the namespace `user` but our own
/// (`user.concord.…`), sorted by the bytes of their names.
package struct AttributeList: Hashable, Sendable {
    package struct Attribute: Hashable, Sendable {
        /// With `user.`, without a NUL.
        package var name: [UInt8]
        package var value: [UInt8]

        package init(name: [UInt8], value: [UInt8]) {
            self.name = name
            self.value = value
        }
    }

    package private(set) var attributes: [Attribute]

    /// Those that do not travel are left out.
    package init(_ attributes: [Attribute] = []) {
        self.attributes = attributes.filter { AttributeList.travels($0.name) }
            .sorted { $0.name.lexicographicallyPrecedes($1.name) }
    }

    package var isEmpty: Bool { attributes.isEmpty }

    package static func travels(_ name: some Collection<UInt8>) -> Bool {
        name.starts(with: prefix) && !name.starts(with: own)
    }

    private static let prefix = Array("user.".utf8)
    private static let own = Array("user.concord.".utf8)

    package func value(of name: [UInt8]) -> [UInt8]? {
        attributes.first { $0.name == name }?.value
    }
}

extension AttributeList {
    /// Equal lists, equal bytes: each name and each value behind its length (4 bytes, little
    /// endian). Nil for none, as the journal has it.
    package var encoded: [UInt8]? {
        guard !isEmpty else { return nil }
        var bytes: [UInt8] = []
        for attribute in attributes {
            for part in [attribute.name, attribute.value] {
                let length = UInt32(part.count)
                for shift in stride(from: 0, to: 32, by: 8) {
                    bytes.append(UInt8(truncatingIfNeeded: length >> UInt32(shift)))
                }
                bytes += part
            }
        }
        return bytes
    }

    /// Nil for bytes that are no such list.
    package init?(encoded bytes: [UInt8]?) {
        var rest = (bytes ?? [])[...]
        var parts: [[UInt8]] = []
        while !rest.isEmpty {
            guard rest.count >= 4 else { return nil }
            let length = rest.prefix(4).reversed().reduce(0) { $0 << 8 | Int($1) }
            rest = rest.dropFirst(4)
            guard length <= rest.count else { return nil }
            parts.append(Array(rest.prefix(length)))
            rest = rest.dropFirst(length)
        }
        guard parts.count.isMultiple(of: 2) else { return nil }
        self.init(
            stride(from: 0, to: parts.count, by: 2).map {
                Attribute(name: parts[$0], value: parts[$0 + 1])
            })
    }
}
