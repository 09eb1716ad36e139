import Model

/// A directory that is open, and a name in it: what the namespace verbs of a volume work on. Valid
/// during one call.
package struct Place {
    /// O_PATH will do.
    package let descriptor: Int32
    package let inode: UInt64
    package let name: UnsafePointer<CChar>

    package init(descriptor: Int32, inode: UInt64, name: UnsafePointer<CChar>) {
        self.descriptor = descriptor
        self.inode = inode
        self.name = name
    }

    package var spot: Spot { Spot(directory: inode, name: Name(cString: name)) }
}

/// What the mount knows of a file that the tree does not tell.
package struct Traits: OptionSet, Sendable {
    package let rawValue: UInt8
    package init(rawValue: UInt8) { self.rawValue = rawValue }

    /// Made under a temporary or lock file's name and never given another: nothing of it is worth
    /// keeping.
    package static let local = Traits(rawValue: 1)
    /// Made by a program that still has it open for the first time: no save yet.
    package static let unsaved = Traits(rawValue: 2)
}
