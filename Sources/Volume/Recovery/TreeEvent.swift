import CLinux
import Model

/// A change of the working tree by a program. The thread that serves the request appends the event
/// before it answers, so events have the order that programs saw. The recorder processes them
/// later.
package enum TreeEvent: Sendable {
    /// A new inode got a name: create, mkdir, symlink, mknod. `isWriting`: its creator is opening
    /// it for writing, and `saved` or `untouched` follows.
    case created(DirectoryEntry, FileSnapshot, isWriting: Bool = false, by: Actor)
    /// An inode got another name (link).
    case linked(DirectoryEntry, FileSnapshot, by: Actor)
    /// A name was removed. `stash` is the stash file to which its bytes were moved, if they were.
    /// `isUnsaved`: its creator had not closed it, as far as was known.
    case removed(
        DirectoryEntry, FileSnapshot, stash: String?, isUnsaved: Bool = false, by: Actor)
    /// A name was moved. `replaced` is the item that had the name `to`, `stash` the stash file to
    /// which its bytes were moved. `unseen` is set if the moved file was made from these contents
    /// and not from those that it replaced.
    case renamed(
        from: DirectoryEntry, to: DirectoryEntry, FileSnapshot, replaced: FileSnapshot?,
        stash: String?, unseen: NamedBase? = nil,
        by: Actor)
    /// The contents of two names were exchanged.
    case exchanged(DirectoryEntry, FileSnapshot, DirectoryEntry, FileSnapshot, by: Actor)
    /// A program opened a file for writing whose contents until now need not be kept.
    case opened(inode: UInt64)
    /// The last writer closed such a file without having changed it.
    case closed(inode: UInt64)
    /// A program opened a document for writing in place; its contents until now are in the stash.
    case secured(inode: UInt64, stash: String, by: Actor)
    /// The inode's present contents replaced contents other than those that they were made from.
    case unseen(inode: UInt64, NamedBase)
    /// The last writer closed the file, or the file was truncated: if its contents differ, they are
    /// a save. `isLate`: if the file has been replaced or removed, that happened before the save.
    case saved(inode: UInt64, isLate: Bool, by: Actor)
    /// The last writer closed the file without having changed it.
    case untouched(inode: UInt64)
    /// A file's last name was removed together with its bytes, which never were a save.
    case gone(inode: UInt64)
    /// A directory became a package, or ceased to be one, by its attribute.
    case packaged(inode: UInt64)
    /// Permission bits, extended attributes or times were changed. If a directory's owner, mode or
    /// access control list were, it is protected like this now.
    case attributes(inode: UInt64, Protection? = nil)
    /// The items of two names were exchanged, not their contents as with `exchanged`.
    case swapped(DirectoryEntry, DirectoryEntry)

    var changesNames: Bool {
        switch self {
        case .created, .linked, .removed, .renamed, .exchanged, .swapped: true
        case .opened, .closed, .secured, .unseen, .saved, .untouched, .gone, .packaged, .attributes:
            false
        }
    }

    /// The stash file to which former contents were moved or copied, if they were.
    var stash: String? {
        switch self {
        case .removed(_, _, let stash, _, _), .renamed(_, _, _, _, let stash, _, _): stash
        case .secured(_, let stash, _): stash
        default: nil
        }
    }
}

/// A directory entry: the inode of a directory, and a name in it.
package struct DirectoryEntry: Hashable, Sendable {
    package var directory: UInt64
    package var name: Name

    package init(directory: UInt64, name: Name) {
        self.directory = directory
        self.name = name
    }
}

/// A file snapshot: the attributes that identify a file of the working tree and show whether it has
/// changed.
package struct FileSnapshot: Hashable, Sendable {
    package var inode: UInt64
    package var mode: UInt32
    package var size: Int64
    /// Nanoseconds since 1970, limited to the range of `Timestamp`.
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

    /// Whether contents may differ. Each write moves the change time; reading does not.
    package func differs(from other: FileSnapshot) -> Bool {
        inode != other.inode || size != other.size || changed != other.changed
            || modified != other.modified
    }
}
