import CLinux
import Model

/// What a program did to the working tree, as far as history cares. Noted by the thread that served
/// the request, before it answers, so that the order is the one the program saw; understood later,
/// by the recorder.
package enum TreeEvent: Sendable {
    /// A new inode got a name: create, mkdir, symlink, mknod.
    case created(Spot, Trace, by: Actor)
    /// An inode got another name (link).
    case linked(Spot, Trace, by: Actor)
    /// A name went away. `stash` names where its bytes were moved, if they were.
    case removed(Spot, Trace, stash: String?, by: Actor)
    /// A name moved. `replaced` is what stood at `to`, `stash` where its bytes were moved.
    /// `unseen`: what was moved was made from these contents, not from those that were replaced.
    case renamed(
        from: Spot, to: Spot, Trace, replaced: Trace?, stash: String?, unseen: NamedBase? = nil,
        by: Actor)
    /// Two names changed places.
    case exchanged(Spot, Trace, Spot, Trace, by: Actor)
    /// A program opens a document to write in place; the contents until now are safe in the stash.
    case secured(inode: UInt64, stash: String, by: Actor)
    /// What this inode shows has replaced other contents than those that it was made from.
    case unseen(inode: UInt64, NamedBase)
    /// The last writer closed it, or it was truncated: its contents are a save if they differ.
    /// `isLate`: if the file has been replaced or removed, that came first.
    case saved(inode: UInt64, isLate: Bool, by: Actor)
    /// The last writer closed it and had changed nothing.
    case untouched(inode: UInt64)
    /// A file's last name went, and its bytes with it: they never were a save.
    case gone(inode: UInt64)
    /// A directory became, or ceased to be, a package by its attribute.
    case packaged(inode: UInt64)
    /// Permission bits, extended attributes or times were changed.
    case attributes(inode: UInt64)
    /// The items of two names changed places (not contents, as by `exchanged`).
    case swapped(Spot, Spot)
}

/// A place for a name: the inode of a directory, and the name in it.
package struct Spot: Hashable, Sendable {
    package var directory: UInt64
    package var name: Name

    package init(directory: UInt64, name: Name) {
        self.directory = directory
        self.name = name
    }
}

/// What tells one file from another in the working tree, and a changed one from an unchanged one.
package struct Trace: Hashable, Sendable {
    package var inode: UInt64
    package var mode: UInt32
    package var size: Int64
    /// Nanoseconds since 1970, at the ends of what a `Timestamp` holds for what lies beyond.
    package var modified: Int64
    package var changed: Int64

    package init(_ status: stat) {
        inode = UInt64(status.st_ino)
        mode = status.st_mode
        size = Int64(status.st_size)
        modified = Timestamp(status.st_mtim).nanoseconds
        changed = Timestamp(status.st_ctim).nanoseconds
    }

    init(inode: UInt64, mode: UInt32, size: Int64, modified: Int64, changed: Int64) {
        self.inode = inode
        self.mode = mode
        self.size = size
        self.modified = modified
        self.changed = changed
    }

    package var isDirectory: Bool { mode & 0o170000 == 0o040000 }
    package var isFile: Bool { mode & 0o170000 == 0o100000 }
    package var isSymlink: Bool { mode & 0o170000 == 0o120000 }

    /// Whether contents may differ: any write moves the change time; reading does not.
    package func differs(from other: Trace) -> Bool {
        inode != other.inode || size != other.size || changed != other.changed
            || modified != other.modified
    }
}
