import CLinux
import Glibc
import Journal
import Model
import SystemCalls

// Reads and sets the protection of files in the tree.
extension Protection {
    /// Reads the protection of a file by any descriptor, O_PATH too. If it cannot be read, only
    /// root is admitted.
    package init(of file: Int32) {
        var status = stat()
        guard cl_fstat(file, &status) >= 0 else {
            self = .unknown
            return
        }
        self.init(status)
        do throws(Errno) {
            accessList = try extendedAttribute(Protection.accessListName, of: file)
        } catch {
            guard error.code != ENODATA, error.code != EOPNOTSUPP else { return }
            // There is a list that cannot be read, so only the owner is admitted.
            self = ownerOnly
        }
    }

    /// The protection of a file without an access control list.
    package init(_ status: stat) {
        self.init(
            owner: status.st_uid, group: status.st_gid, mode: UInt16(status.st_mode & 0o7777))
    }

    /// Protects a copy like its original, because nothing else says who owns it until it is
    /// recorded. Only root can change owners.
    func apply(to copy: Int32) {
        if geteuid() == 0 { _ = cl_chown_fd(copy, owner, group) }
        _ = cl_chmod_fd(copy, mode_t(mode))
        guard !accessList.isEmpty else { return }
        _ = cl_setxattr_fd(copy, Protection.accessListName, accessList, accessList.count, 0)
    }
}

extension DocumentHistory {
    /// The versions that a user may see.
    package func visible(to user: Requester) -> DocumentHistory {
        if user.isRoot { return self }
        return with(versions.visible(to: user, of: protection))
    }

    /// The history with only these versions.
    package func with(_ indices: [Int]) -> DocumentHistory {
        var history = self
        history.versions = indices.map { versions[$0] }
        history.fileNames = indices.map { fileNames[$0] }
        return history
    }
}

extension DirectoryRoles {
    /// The protection of an item's file; nil if the tree has another file by now.
    func protection(of item: Item, _ t: Reader) throws -> Protection? {
        guard item.deleted == nil, let directory = try t.path(of: item.parent),
            let file = try? openBeneath(directory + [item.name], from: tree, flags: O_PATH),
            FileSnapshot(of: file.raw).inode == item.inode
        else { return nil }
        return Protection(of: file.raw)
    }

    /// Notes how a directory is protected from some time on.
    ///
    /// - Parameter mode: Its mode at that time, if it may have been changed since, which another
    ///   event says then.
    func noteProtection(
        of item: Item, mode: UInt16? = nil, since time: Int64, _ t: Transaction
    ) throws {
        guard item.kind == .directory, var protection = try protection(of: item, t) else { return }
        if let mode { protection.mode = mode }
        try t.setProtection(ofDirectory: item.key, protection, since: time)
    }
}
