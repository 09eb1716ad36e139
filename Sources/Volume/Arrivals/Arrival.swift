import CLinux
import Journal
import Model
import SystemCalls

/// An item as the hub describes it and as it must appear in the tree. The recorder writes these
/// facts to the journal when it finds in the tree what was prepared from them.
package struct Arrival: Hashable, Sendable {
    package var item: Identifier
    /// File, directory, package or symlink.
    package var kind: Item.Kind
    /// The current version of a file or a package. This device assigns the number; the kind is
    /// `current`.
    package var version: Version?
    /// The encoded manifest; empty if it has not been fetched.
    package var manifest: [UInt8]
    /// Only the name, size and times arrive, without contents; for files and files in packages.
    package var isDataless: Bool
    /// Permission bits; nil stands for those that a local program's new file would get.
    package var mode: UInt16?
    package var attributes: AttributeList
    /// The target of a symlink.
    package var target: [UInt8]
    /// Conflict versions that this arrival resolves.
    package var settles: [Identifier] = []

    package init(
        item: Identifier, kind: Item.Kind, version: Version? = nil, manifest: [UInt8] = [],
        isDataless: Bool = false, mode: UInt16? = nil, attributes: AttributeList = AttributeList(),
        target: [UInt8] = []
    ) {
        self.item = item
        self.kind = kind
        self.version = version
        self.manifest = manifest
        self.isDataless = isDataless
        self.mode = mode
        self.attributes = attributes
        self.target = target
    }

    package var mark: ArrivalTag { ArrivalTag(item: item, version: version?.id ?? .none) }
}

/// The arrival tag: the item and version that a file or directory was prepared for. Until the
/// recorder has adopted the file, it is stored in an extended attribute (two identifiers of 16
/// bytes), which stays with the inode through renames. A placeholder has an `PlaceholderMark`
/// instead.
package struct ArrivalTag: Hashable, Sendable {
    package var item: Identifier
    /// `Identifier.none` for directories and symlinks.
    package var version: Identifier

    package init(item: Identifier, version: Identifier) {
        self.item = item
        self.version = version
    }

    static let attribute = "user.concord.arrival"
    private static let length = 32

    var bytes: [UInt8] { item.bytes + version.bytes }

    init?(bytes: some Collection<UInt8>) {
        guard bytes.count == ArrivalTag.length, let item = Identifier(bytes: bytes.prefix(16)),
            let version = Identifier(bytes: bytes.dropFirst(16))
        else { return nil }
        self.init(item: item, version: version)
    }

    /// Reads the tag of a file or directory by any descriptor, O_PATH too.
    init?(of file: Int32) {
        var bytes = [UInt8](repeating: 0, count: ArrivalTag.length)
        guard cl_getxattr_fd(file, ArrivalTag.attribute, &bytes, bytes.count) == bytes.count else {
            return nil
        }
        self.init(bytes: bytes)
    }

    func set(on file: Int32) throws(Errno) {
        try setAttribute(ArrivalTag.attribute, bytes, of: file)
    }

    static func remove(from file: Int32) { try? removeAttribute(attribute, of: file) }
}

extension Identifier {
    package static let none = Identifier(high: 0, low: 0)
}
