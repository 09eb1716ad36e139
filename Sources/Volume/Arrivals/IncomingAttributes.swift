import CLinux
import Glibc
import Model
import SystemCalls

/// What another device decides about a file of this device, and the order in which it is applied.
/// Permission bits arrive without set-user-ID and set-group-ID, and extended attributes arrive only
/// in the namespace `user`, without those of Concord itself. An owner arrives as the name of an
/// account (`FileOwner`), in mounts of root. Access control lists, capabilities and everything else
/// belong to this device.
package struct IncomingAttributes: Hashable, Sendable {
    package let mode: UInt16?
    package let set: [AttributeList.Attribute]
    package let removed: [[UInt8]]

    /// Errors that mean that the file system has no attributes, or no room for this one. They do
    /// not prevent the contents from arriving.
    private static let misfits: Set<Int32> = [EOPNOTSUPP, E2BIG, ENOSPC, ERANGE]

    /// Leaves out the attributes and mode bits that may not arrive.
    package init(
        mode: UInt16?, set: [AttributeList.Attribute] = [], removed: [[UInt8]] = []
    ) {
        self.mode = mode.map(SharedMode.bits)
        self.set = AttributeList(set).attributes
        self.removed = removed.filter(AttributeList.isSynchronized)
    }

    /// Applies them to a file or directory by any descriptor, O_PATH too. `local` is what this
    /// device gives it.
    package func apply(to file: Int32, local: LocalAttributes? = nil) throws(Errno) {
        // The owner comes first: a mode must never hold for the wrong one.
        try local?.setOwner(of: file)
        // Attributes of `user` need the right to write, which the new mode may take away.
        for name in removed {
            try Name(bytes: name).withCString { (name) throws(Errno) in
                try removeAttribute(name, of: file)
            }
        }
        for attribute in set {
            let (name, value) = (Name(bytes: attribute.name), attribute.value)
            try name.withCString { (name) throws(Errno) in
                do throws(Errno) { try setAttribute(name, value, of: file) } catch {
                    guard IncomingAttributes.misfits.contains(error.code) else { throw error }
                    // The journal keeps the value (`AttributeList.lacking`). An older value on the
                    // file would be wrong.
                    try? removeAttribute(name, of: file)
                }
            }
        }
        var status = stat()
        try check(cl_fstat(file, &status))
        let isDirectory = FileSnapshot(status).isDirectory
        try local?.setLists(of: file, isDirectory: isDirectory)
        // The mode comes last: it also bounds what the access control list grants.
        guard let mode else { return }
        var bits = mode_t(mode)
        // A directory's set-group-ID bit only says which group new files get.
        if isDirectory {
            bits |= (status.st_mode | (local?.inherited ?? 0)) & S_ISGID
        }
        try check(cl_chmod_fd(file, bits))
    }
}

/// What of a file's attributes belongs to this device: taken from the file that is replaced, or for
/// a new file from its directory, as for a file that a local program makes there.
package struct LocalAttributes {
    private var uid: uid_t
    private var gid: gid_t
    private let accessList: [UInt8]?
    /// The default list of a directory, which new files in it get.
    private let defaultList: [UInt8]?
    /// The mode of the directory in which a new directory is made.
    fileprivate let inherited: mode_t

    private static let defaultListName = "system.posix_acl_default"
    /// The size of a list with a version and the three entries of a mode: it grants nothing beyond
    /// a mode.
    private static let plainListSize = 4 + 3 * 8

    /// The attributes of a file or directory that is to be replaced.
    init(of old: Int32) throws(Errno) {
        var status = stat()
        try check(cl_fstat(old, &status))
        (uid, gid, inherited) = (status.st_uid, status.st_gid, status.st_mode)
        accessList = LocalAttributes.list(Protection.accessListName, of: old)
        defaultList = LocalAttributes.list(LocalAttributes.defaultListName, of: old)
    }

    /// The attributes of a new file or directory. Its access control list begins as the directory's
    /// default list; the mode, which the devices share, bounds it as chmod(2) does.
    init(in directory: Int32) throws(Errno) {
        var status = stat()
        try check(cl_fstat(directory, &status))
        (uid, gid, inherited) = (status.st_uid, status.st_gid, status.st_mode)
        defaultList = LocalAttributes.list(LocalAttributes.defaultListName, of: directory)
        let isPlain = (defaultList?.count ?? 0) <= LocalAttributes.plainListSize
        accessList = isPlain ? nil : defaultList
    }

    /// The same for an item whose owner other devices have told; nil changes nothing.
    func owned(by owner: OwnerName?) -> LocalAttributes {
        guard let owner, let account = FileOwner(owner) else { return self }
        var (local, directory) = (self, stat())
        (directory.st_gid, directory.st_mode) = (gid, inherited)
        (local.uid, local.gid) = account.ids(in: directory)
        return local
    }

    mutating func takeOwner(from other: LocalAttributes) {
        guard uid != other.uid else { return }
        (uid, gid) = (other.uid, other.gid)
    }

    /// The owner is not known on this machine.
    mutating func takeOverflowOwner() { (uid, gid) = Accounts.overflow }

    private static func list(_ name: String, of file: Int32) -> [UInt8]? {
        let value = (try? extendedAttribute(name, of: file)) ?? []
        return value.isEmpty ? nil : value
    }

    /// Does nothing unless this process is root: only root can change owners.
    func setOwner(of file: Int32) throws(Errno) {
        guard geteuid() == 0 else { return }
        var status = stat()
        try check(cl_fstat(file, &status))
        guard (status.st_uid, status.st_gid) != (uid, gid) else { return }
        try check(cl_chown_fd(file, uid, gid))
    }

    fileprivate func setLists(of file: Int32, isDirectory: Bool) throws(Errno) {
        if let list = accessList {
            try check(cl_setxattr_fd(file, Protection.accessListName, list, list.count, 0))
        }
        if isDirectory, let list = defaultList {
            try check(cl_setxattr_fd(file, LocalAttributes.defaultListName, list, list.count, 0))
        }
    }

    /// Gives a file the owner and lists that it would have if a program had created it in its
    /// place. The mode stays.
    func give(to file: Int32) throws(Errno) {
        var status = stat()
        try check(cl_fstat(file, &status))
        guard !FileSnapshot(status).isSymlink else { return try setOwner(of: file) }
        try IncomingAttributes(mode: FileSnapshot(status).permissions).apply(to: file, local: self)
    }
}
