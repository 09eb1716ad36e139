/// The extended attributes that are synchronized with an item: those of the namespace `user`,
/// except Concord's own (`user.concord.…`). They are sorted by the bytes of their names. The owner
/// that devices and hub agreed on is kept with them.
package struct AttributeList: Hashable, Sendable {
    package struct Attribute: Hashable, Sendable {
        /// The whole name: it begins with `user.` and has no NUL at the end.
        package var name: [UInt8]
        package var value: [UInt8]
        /// False for an attribute that this device and the hub agreed on but that the local file
        /// system could not store.
        package var isOnFile: Bool

        package init(name: [UInt8], value: [UInt8], isOnFile: Bool = true) {
            self.name = name
            self.value = value
            self.isOnFile = isOnFile
        }
    }

    package private(set) var attributes: [Attribute]
    /// The item's owner as other devices are told; nil if they are not told. It may be the name of
    /// an account that this device does not have.
    package var owner: OwnerName?
    /// False if the file's owner says nothing about `owner`, because this device could not set it.
    package var isOwnerOnFile = true

    /// Ignores attributes that are not synchronized.
    package init(
        _ attributes: [Attribute] = [], owner: OwnerName? = nil, isOwnerOnFile: Bool = true
    ) {
        self.owner = owner
        self.isOwnerOnFile = isOwnerOnFile
        self.attributes = attributes.filter { AttributeList.isSynchronized($0.name) }
            .sorted { $0.name.lexicographicallyPrecedes($1.name) }
    }

    package var isEmpty: Bool { attributes.isEmpty && owner == nil }

    package static func isSynchronized(_ name: some Collection<UInt8>) -> Bool {
        name.starts(with: prefix) && !name.starts(with: own)
    }

    private static let prefix = Array("user.".utf8)
    private static let own = Array("user.concord.".utf8)

    /// Adds the attributes of `agreed` that this list, read from a file, does not have. They are
    /// marked as not on the file. The owner is that of `agreed`, because a file has no name of its
    /// owner.
    package func lacking(of agreed: AttributeList) -> AttributeList {
        let own = Set(attributes.map(\.name))
        let rest = agreed.attributes.filter { !own.contains($0.name) }
        return AttributeList(
            attributes + rest.map { Attribute(name: $0.name, value: $0.value, isOnFile: false) },
            owner: agreed.owner, isOwnerOnFile: agreed.isOwnerOnFile)
    }

    /// What cannot be read from the file: the attributes that the file system could not store, and
    /// the owner's name.
    package var lacking: AttributeList {
        AttributeList(
            attributes.filter { !$0.isOnFile }, owner: owner, isOwnerOnFile: isOwnerOnFile)
    }

    package func value(of name: [UInt8]) -> [UInt8]? {
        attributes.first { $0.name == name }?.value
    }
}

extension AttributeList {
    /// The stored form: equal lists give equal bytes. Each name and each value follows its length
    /// (4 bytes, little endian); the highest bit of a name's length is set when the attribute is
    /// not on the file. The owner is stored as an attribute `owner`, which lacks the prefix of all
    /// others. An empty list is stored as nil, like the journal's NULL.
    package var encoded: [UInt8]? {
        guard !isEmpty else { return nil }
        var bytes: [UInt8] = []
        let first = owner.map {
            Attribute(name: AttributeList.ownerName, value: $0.bytes, isOnFile: isOwnerOnFile)
        }
        for attribute in [first].compactMap(\.self) + attributes {
            let flag = attribute.isOnFile ? 0 : AttributeList.missing
            for (part, flag) in [(attribute.name, flag), (attribute.value, 0)] {
                let length = UInt32(part.count) | flag
                for shift in stride(from: 0, to: 32, by: 8) {
                    bytes.append(UInt8(truncatingIfNeeded: length >> UInt32(shift)))
                }
                bytes += part
            }
        }
        return bytes
    }

    /// Returns nil when the bytes are not an encoded list.
    package init?(encoded bytes: [UInt8]?) {
        var rest = (bytes ?? [])[...]
        var parts: [[UInt8]] = []
        var isMissing: [Bool] = []
        while !rest.isEmpty {
            guard rest.count >= 4 else { return nil }
            let word = rest.prefix(4).reversed().reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
            let length = Int(word & ~AttributeList.missing)
            rest = rest.dropFirst(4)
            guard length <= rest.count else { return nil }
            parts.append(Array(rest.prefix(length)))
            isMissing.append(word & AttributeList.missing != 0)
            rest = rest.dropFirst(length)
        }
        guard parts.count.isMultiple(of: 2) else { return nil }
        let all = stride(from: 0, to: parts.count, by: 2).map {
            Attribute(name: parts[$0], value: parts[$0 + 1], isOnFile: !isMissing[$0])
        }
        let owner = all.first { $0.name == AttributeList.ownerName }
        self.init(
            all, owner: owner.flatMap { OwnerName($0.value) },
            isOwnerOnFile: owner?.isOnFile ?? true)
    }

    private static let ownerName = Array(OwnerName.attribute.utf8)

    /// This flag is set in the length of a name when the attribute is not on the file.
    private static let missing: UInt32 = 1 << 31
}
