import CLinux
import Glibc
import Model
import SystemCalls

/// What another device decides about a file of this device, and the order in which it is applied.
/// Permission bits arrive without set-user-ID and set-group-ID, and extended attributes arrive only
/// in the namespace `user`, without those of Concord itself. Owner, group, access control lists,
/// capabilities and everything else belong to this device.
package struct IncomingAttributes: Hashable, Sendable {
    package let mode: UInt16?
    package let set: [AttributeList.Attribute]
    package let removed: [[UInt8]]

    /// The file system has no attributes, or no room for this one: the bytes matter more.
    private static let misfits: Set<Int32> = [EOPNOTSUPP, E2BIG, ENOSPC, ERANGE]

    /// Leaves out the attributes and mode bits that may not arrive.
    package init(
        mode: UInt16?, set: [AttributeList.Attribute] = [], removed: [[UInt8]] = []
    ) {
        self.mode = mode.map(SharedMode.bits)
        self.set = AttributeList(set).attributes
        self.removed = removed.filter(AttributeList.travels)
    }

    /// Applies them to a file or directory by any descriptor, O_PATH too. `local` is what this
    /// device gives it.
    package func apply(to file: Int32, local: LocalAttributes? = nil) throws(Errno) {
        // The owner comes first: a mode must never hold for the wrong one.
        try local?.setOwner(of: file)
        // Attributes of `user` need the right to write, which the new mode may take away.
        for name in removed {
            let result = Name(bytes: name).withCString { cl_removexattr_fd(file, $0) }
            if result < 0, result != -ENODATA { throw Errno(-result) }
        }
        for attribute in set {
            let (name, value) = (Name(bytes: attribute.name), attribute.value)
            let result = name.withCString { cl_setxattr_fd(file, $0, value, value.count, 0) }
            guard result < 0 else { continue }
            guard IncomingAttributes.misfits.contains(-result) else { throw Errno(-result) }
            // The journal keeps it (`AttributeList.lacking`). An older value is not agreed on.
            _ = name.withCString { cl_removexattr_fd(file, $0) }
        }
        try local?.setAccessList(of: file)
        // The mode comes last: it also bounds what the access control list grants.
        guard let mode else { return }
        var status = stat()
        try check(cl_fstat(file, &status))
        var bits = mode_t(mode)
        // A directory's set-group-ID bit only says which group new files get.
        if Trace(status).isDirectory {
            bits |= (status.st_mode | (local?.inherited ?? 0)) & S_ISGID
        }
        try check(cl_chmod_fd(file, bits))
    }
}

/// What of a file's attributes belongs to this device: taken from the file that is replaced, or for
/// a new file from its directory, as for a file that a local program makes there.
package struct LocalAttributes {
    private let uid: uid_t
    private let gid: gid_t
    private let accessList: [UInt8]?
    /// Of the directory in which a new directory is made.
    fileprivate let inherited: mode_t

    private static let accessListName = "system.posix_acl_access"

    /// Those of something that is replaced.
    init(of old: Int32) throws(Errno) {
        var status = stat()
        try check(cl_fstat(old, &status))
        (uid, gid, inherited) = (status.st_uid, status.st_gid, status.st_mode)
        var value = [UInt8](repeating: 0, count: 1 << 12)
        var count = cl_getxattr_fd(old, LocalAttributes.accessListName, &value, value.count)
        if count == -Int(ERANGE) {
            value = [UInt8](repeating: 0, count: 1 << 16)
            count = cl_getxattr_fd(old, LocalAttributes.accessListName, &value, value.count)
        }
        accessList = count > 0 ? Array(value.prefix(count)) : nil
    }

    /// Those of something new.
    init(in directory: Int32) throws(Errno) {
        var status = stat()
        try check(cl_fstat(directory, &status))
        (uid, gid, inherited) = (status.st_uid, status.st_gid, status.st_mode)
        accessList = nil
    }

    /// Only root can give files away.
    func setOwner(of file: Int32) throws(Errno) {
        guard geteuid() == 0 else { return }
        var status = stat()
        try check(cl_fstat(file, &status))
        guard (status.st_uid, status.st_gid) != (uid, gid) else { return }
        try check(cl_chown_fd(file, uid, gid))
    }

    fileprivate func setAccessList(of file: Int32) throws(Errno) {
        guard let accessList else { return }
        try check(
            cl_setxattr_fd(file, LocalAttributes.accessListName, accessList, accessList.count, 0))
    }
}
