/// A file, directory or symlink that the kernel knows, by number. Where it is in the tree, not a
/// descriptor, is what it costs to know it: about 200 bytes, so that a million are cheap. All
/// variables are guarded by the lock of `NodeTable`.
final class Node: @unchecked Sendable {
    struct Flags: OptionSet {
        let rawValue: UInt8
        static let directory = Flags(rawValue: 1)
        /// Its last name is gone; it lives by its descriptor alone.
        static let orphan = Flags(rawValue: 2)
        /// Its bytes were moved to the stash: what programs are told is 0 links.
        static let stashed = Flags(rawValue: 4)
        /// Made through us under a temporary or lock file's name and never renamed to another.
        static let local = Flags(rawValue: 8)
        /// Made by a program that has not closed it yet.
        static let unsaved = Flags(rawValue: 16)
        /// A directory whose descriptor was used since the clock's hand last passed.
        static let used = Flags(rawValue: 32)
        /// A mapping may still change it although every handle was released.
        static let mapped = Flags(rawValue: 64)
    }

    let id: UInt64
    let inode: UInt64
    /// Nil for the root, an orphan, and a hard-linked file whose known name went away.
    var parent: Node?
    /// Ended by NUL, to be handed to system calls as it is.
    var name: [UInt8]
    /// What the kernel will forget one day.
    var lookups: UInt64 = 0
    /// Nodes whose parent this is; they keep it known, because they are found through it.
    var children: UInt32 = 0
    var flags: Flags
    /// Of a file while it is open or has no name; of a directory while the clock keeps it.
    var descriptor: SharedDescriptor?
    var opened: OpenState?

    init(id: UInt64, inode: UInt64, parent: Node?, name: [UInt8], flags: Flags) {
        self.id = id
        self.inode = inode
        self.parent = parent
        self.name = name
        self.flags = flags
    }

    /// Its attributes may change without the kernel's FUSE side noticing, so it must not remember
    /// them.
    var isVolatile: Bool { (opened?.sharedWriters ?? 0) > 0 || flags.contains(.mapped) }

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
    /// Calls `body` with a name that ends with NUL as C wants it.
    func asCString<Result, Failure: Error>(
        _ body: (UnsafePointer<CChar>) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try withUnsafeBufferPointer { (bytes) throws(Failure) -> Result in
            try body(UnsafeRawPointer(bytes.baseAddress!).assumingMemoryBound(to: CChar.self))
        }
    }
}
