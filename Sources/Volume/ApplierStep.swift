import Model

/// One change of the hub's, as an ordinary system call in the mount: so that inotify hears of it as
/// of any program's. What a step finds is compared at the moment of acting, under the locks of the
/// mount: where it is not what was expected, nothing is touched.
package enum ApplierStep: Hashable, Sendable {
    /// Gives what was prepared its name; never over something.
    case make(incoming: String, at: TreePlace)
    /// Puts a file that was prepared over a file.
    case replace(incoming: String, at: TreePlace, expected: Trace)
    /// Puts a package that was prepared in the place of one, which goes to the stash. `changed` is
    /// the newest change time of anything in it (`Item.changed` of the journal).
    case replacePackage(incoming: String, at: TreePlace, inode: UInt64, changed: Int64)
    /// Moves or renames an item; never over something.
    case move(from: TreePlace, inode: UInt64, to: TreePlace)
    /// Two items change places.
    case swap(TreePlace, inode: UInt64, with: TreePlace, other: UInt64)
    /// Removes a file, a symlink or an empty directory.
    case remove(at: TreePlace, expected: Trace)
    /// Takes a package away with all that is in it, as one: its contents go to the stash. `aside`
    /// is from `Volume.asideName`, `changed` as of `replacePackage`.
    case removePackage(at: TreePlace, inode: UInt64, changed: Int64, aside: String)
    case change(at: TreePlace, inode: UInt64, TreeChange)
}

/// Where something is in the tree.
package struct TreePlace: Hashable, Sendable {
    /// From the root; never empty.
    package var path: [Name]
    /// The inode of the directory that is to be found there; 0: any.
    package var directory: UInt64

    package init(_ path: [Name], directory: UInt64 = 0) {
        self.path = path
        self.directory = directory
    }
}

/// Attributes that become other ones; the rest stays.
package struct TreeChange: Hashable, Sendable {
    /// Permission bits.
    package var mode: UInt16?
    /// Nanoseconds since 1970.
    package var modified: Int64?
    package var set: [AttributeList.Attribute]
    /// Names; that one is not there is no error.
    package var removed: [[UInt8]]

    package init(
        mode: UInt16? = nil, modified: Int64? = nil, set: [AttributeList.Attribute] = [],
        removed: [[UInt8]] = []
    ) {
        self.mode = mode
        self.modified = modified
        self.set = set
        self.removed = removed
    }
}

package enum ApplierResult: Hashable, Sendable {
    case done
    /// What is there is not what was expected: the local change lives, nothing was touched.
    case changed
    /// Nothing is there, or the directory is not.
    case gone
    /// The name has something already.
    case taken
    /// A program is writing to it now: to be tried later.
    case open
    /// A database there has a log of that name beside it, which would no longer fit: to be tried
    /// later.
    case logged(Name)
    /// A directory that is not empty, a full disk, …: the kernel's words.
    case failed(String)
}

/// Who carries out steps: the mount.
package protocol Applying: Sendable {
    /// One after the other; as many results. Blocks; a step that fails does not stop the next.
    ///
    /// - Parameter together: A directory whose whole contents are kept from all other programs
    ///   until the last step is done; nil: each step has its own turn.
    func apply(_ steps: [ApplierStep], together: [Name]?) -> [ApplierResult]

    /// Nil while a program has a turn to write there, anywhere below, or above. The same number
    /// twice: none had one in between.
    func lastWrite(_ path: [Name]) -> UInt64?
}
