import Model

/// An open directory and a name in it, which the namespace verbs of a volume work on. Valid during
/// one call.
package struct Place {
    /// A descriptor of the directory; O_PATH is sufficient.
    package let descriptor: Int32
    package let inode: UInt64
    package let name: UnsafePointer<CChar>

    package init(descriptor: Int32, inode: UInt64, name: UnsafePointer<CChar>) {
        self.descriptor = descriptor
        self.inode = inode
        self.name = name
    }

    package var spot: DirectoryEntry { DirectoryEntry(directory: inode, name: Name(cString: name)) }
}

/// Facts about a file that the mount knows and the tree does not show.
package struct Traits: OptionSet, Sendable {
    package let rawValue: UInt8
    package init(rawValue: UInt8) { self.rawValue = rawValue }

    /// The file was created under the name of a temporary or lock file and never had another: its
    /// contents need not be kept.
    package static let local = Traits(rawValue: 1)
    /// The program that created the file still has it open for the first time: it is no save yet.
    package static let unsaved = Traits(rawValue: 2)
}
