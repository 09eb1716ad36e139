import Model

/// One change from the hub, carried out as an ordinary system call in the mount, so that inotify
/// reports it like a change by any program. What is in the tree is compared with what the step
/// expects while the mount's locks are held; if it differs, nothing is touched.
package enum ApplierStep: Hashable, Sendable {
    /// Renames a prepared item to its place; fails if the name exists.
    case make(incoming: String, at: TreePlace)
    /// Renames a prepared file over an existing file.
    case replace(incoming: String, at: TreePlace, expected: FileSnapshot)
    /// Exchanges a prepared package with an existing one, whose contents go to the stash. `changed`
    /// is the newest change time of anything in the existing package (`Item.changed` of the
    /// journal).
    case replacePackage(incoming: String, at: TreePlace, inode: UInt64, changed: Int64)
    /// Moves or renames an item; fails if the new name exists.
    case move(from: TreePlace, inode: UInt64, to: TreePlace)
    /// Exchanges two items.
    case swap(TreePlace, inode: UInt64, with: TreePlace, other: UInt64)
    /// Removes a file, a symlink or an empty directory.
    case remove(at: TreePlace, expected: FileSnapshot)
    /// Removes a package with everything in it, in one step; its contents go to the stash. `aside`
    /// is a name from `Arrivals.asideName`, `changed` is as for `replacePackage`.
    case removePackage(at: TreePlace, inode: UInt64, changed: Int64, aside: String)
    case change(at: TreePlace, inode: UInt64, TreeChange)
}

/// A path in the tree.
package struct TreePlace: Hashable, Sendable {
    /// The components from the root; never empty.
    package var path: [Name]
    /// The expected inode of the parent directory; 0 accepts any.
    package var directory: UInt64

    package init(_ path: [Name], directory: UInt64 = 0) {
        self.path = path
        self.directory = directory
    }
}

/// New values of some attributes; all others stay.
package struct TreeChange: Hashable, Sendable {
    /// Permission bits.
    package var mode: UInt16?
    /// Nanoseconds since 1970.
    package var modified: Int64?
    package var set: [AttributeList.Attribute]
    /// Names of extended attributes to remove; a missing one is no error.
    package var removed: [[UInt8]]
    package var owner: FileOwner?
    /// Whether the owner changes for everything in the directory, too, as in a package.
    package var includesContents = false

    package init(
        mode: UInt16? = nil, modified: Int64? = nil, set: [AttributeList.Attribute] = [],
        removed: [[UInt8]] = [], owner: FileOwner? = nil
    ) {
        self.mode = mode
        self.modified = modified
        self.set = set
        self.removed = removed
        self.owner = owner
    }
}

package enum ApplierResult: Hashable, Sendable {
    case done
    /// The item is not as expected: the local change is kept and nothing was touched.
    case changed
    /// The item or its directory does not exist.
    case gone
    /// The name exists already.
    case taken
    /// A program is writing to the item; try again later.
    case open
    /// A database log of this name lies there and would not fit the new contents; try again later.
    case logged(Name)
    /// Another error, such as a directory that is not empty or a full disk, in the kernel's words.
    case failed(String)
}

/// Carries out steps; implemented by the mount.
package protocol Applying: Sendable {
    /// Carries out steps one after the other and returns one result for each. Blocks. A failed step
    /// does not stop the following ones.
    ///
    /// - Parameter together: A directory whose contents no other program may access until the last
    ///   step is done; nil lets each step take its own claim.
    func apply(_ steps: [ApplierStep], together: [Name]?) -> [ApplierResult]

    /// A number that changes with each coordinated write at, above or below the path: equal numbers
    /// mean that there was none in between. Nil while a program holds a claim to write there.
    func lastWrite(_ path: [Name]) -> UInt64?
}
