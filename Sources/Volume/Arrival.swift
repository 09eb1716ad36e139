import CLinux
import Journal
import Model
import SystemCalls

/// What the hub says of an item, as it is to be in the tree: the facts that the recorder notes when
/// it meets what was made of them.
package struct Arrival: Hashable, Sendable {
    package var item: Identifier
    /// File, directory, package or symlink.
    package var kind: Item.Kind
    /// Of a file or a package: what its name is to show. The number is given here, the kind is
    /// `current`.
    package var version: Version?
    /// Encoded; empty while it has not been fetched.
    package var manifest: [UInt8]
    /// Only its name, size and times come; of files, and of files in packages.
    package var isDataless: Bool
    /// Permission bits; nil: what a program of ours would have made.
    package var mode: UInt16?
    package var attributes: AttributeList
    /// Of a symlink.
    package var target: [UInt8]
    /// Conflict versions that are settled by its coming.
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

    package var mark: Mark { Mark(item: item, version: version?.id ?? .none) }
}

/// Which item, and which version of it, something was prepared for. Until the recorder has adopted
/// it, the backing file has that as an extended attribute (16 bytes and 16 bytes), which travels
/// with the inode; a placeholder has `AbsentMark` instead.
package struct Mark: Hashable, Sendable {
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
        guard bytes.count == Mark.length, let item = Identifier(bytes: bytes.prefix(16)),
            let version = Identifier(bytes: bytes.dropFirst(16))
        else { return nil }
        self.init(item: item, version: version)
    }

    /// Of a file or directory by any descriptor, O_PATH too.
    init?(of file: Int32) {
        var bytes = [UInt8](repeating: 0, count: Mark.length)
        guard cl_getxattr_fd(file, Mark.attribute, &bytes, bytes.count) == bytes.count else {
            return nil
        }
        self.init(bytes: bytes)
    }

    func set(on file: Int32) throws(Errno) {
        try check(cl_setxattr_fd(file, Mark.attribute, bytes, Mark.length, 0))
    }

    /// That it has none is no error.
    static func remove(from file: Int32) { _ = cl_removexattr_fd(file, attribute) }
}

extension Identifier {
    package static let none = Identifier(high: 0, low: 0)
}
