/// A file, directory or symlink that the kernel knows. It stores its place in the tree instead of a
/// descriptor, so it takes about 200 bytes, and a million nodes are affordable. All variables are
/// guarded by the lock of `NodeTable`.
final class Node: @unchecked Sendable {
    struct Flags: OptionSet {
        let rawValue: UInt16
        static let directory = Flags(rawValue: 1)
        /// Its last name was removed; it is reached only by its descriptor.
        static let orphan = Flags(rawValue: 2)
        /// It was moved to the stash; programs are shown a link count of 0.
        static let stashed = Flags(rawValue: 4)
        /// Created through the mount under the name of a temporary or lock file and never renamed
        /// to another.
        static let local = Flags(rawValue: 8)
        /// Created by a program that has not closed it yet.
        static let unsaved = Flags(rawValue: 16)
        /// A directory whose descriptor was used since the clock's hand last passed.
        static let used = Flags(rawValue: 32)
        /// A mapping may still change it although all handles were released.
        static let mapped = Flags(rawValue: 64)
        /// The applier is replacing or removing the file, which no program was writing a moment
        /// ago. No open for writing begins until this is done.
        static let beingReplaced = Flags(rawValue: 128)
        /// It is about to lose its name, so its descriptor must stay even if a handle is released.
        static let pinned = Flags(rawValue: 256)
    }

    let id: UInt64
    let inode: UInt64
    /// Nil for the root, for an orphan, and for a hard-linked file whose known name was removed.
    var parent: Node?
    /// Ends with NUL, so that it can be passed to system calls.
    var name: [UInt8]
    /// The kernel's lookup count, which FORGET decreases.
    var lookups: UInt64 = 0
    /// The number of nodes whose parent this is. They keep this node alive, because they are found
    /// through it.
    var children: UInt32 = 0
    var flags: Flags
    /// A file's while it is open or has no name; a directory's while the clock keeps it.
    var descriptor: SharedDescriptor?
    var opened: OpenState?

    init(id: UInt64, inode: UInt64, parent: Node?, name: [UInt8], flags: Flags) {
        self.id = id
        self.inode = inode
        self.parent = parent
        self.name = name
        self.flags = flags
    }

    /// Whether its attributes may change without the FUSE part of the kernel noticing, so that they
    /// must not be cached.
    var isVolatile: Bool { (opened?.sharedWriters ?? 0) > 0 || flags.contains(.mapped) }

    /// Takes the descriptor away if the node is found by its name instead.
    func descriptorNotNeeded() -> SharedDescriptor? {
        guard opened == nil, parent != nil, flags.isDisjoint(with: [.directory, .orphan, .pinned])
        else { return nil }
        return descriptor.take()
    }

    func isNamed(_ other: UnsafePointer<CChar>) -> Bool {
        name.withUnsafeBufferPointer { mine in
            for index in 0..<mine.count {
                if mine[index] != UInt8(bitPattern: other[index]) { return false }
                if mine[index] == 0 { return true }
            }
            return false
        }
    }
}

/// The bytes of a C string with its NUL.
func terminated(_ name: UnsafePointer<CChar>) -> [UInt8] {
    var length = 0
    while name[length] != 0 { length += 1 }
    return name.withMemoryRebound(to: UInt8.self, capacity: length + 1) {
        Array(UnsafeBufferPointer(start: $0, count: length + 1))
    }
}

extension [UInt8] {
    /// Calls `body` with these bytes, which end with NUL, as a C string.
    func asCString<Result, Failure: Error>(
        _ body: (UnsafePointer<CChar>) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try withUnsafeBufferPointer { (bytes) throws(Failure) -> Result in
            try body(UnsafeRawPointer(bytes.baseAddress!).assumingMemoryBound(to: CChar.self))
        }
    }
}
