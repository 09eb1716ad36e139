import CLinux
import Glibc
import Model
import SystemCalls

/// What a change from the hub makes of a file's owner.
package enum FileOwner: Hashable, Sendable {
    /// The owner and group of the directory that contains the file.
    case ofDirectory
    case account(uid: UInt32, gid: UInt32)

    /// The owner for a name from another device. Nil unless this process is root, because only root
    /// can change owners.
    package init?(_ name: OwnerName?) {
        guard let accounts = Accounts.ofThisMachine else { return nil }
        self = name.map(accounts.owner(named:)) ?? .ofDirectory
    }

    /// The ids for a file in `directory`. As for a file that the owner creates there, the group is
    /// that of the directory if this has the set-group-ID bit.
    func ids(in directory: stat) -> (uid: uid_t, gid: gid_t) {
        guard case .account(let uid, let gid) = self else {
            return (directory.st_uid, directory.st_gid)
        }
        let isShared = directory.st_mode & S_ISGID != 0 && uid != Accounts.overflow.uid
        return (uid, isShared ? directory.st_gid : gid)
    }

    /// Gives a file or directory, by any descriptor, to its new owner. A file that belongs to that
    /// user already keeps its group.
    ///
    /// - Parameters:
    ///   - directory: The directory that contains it.
    ///   - includingContents: Whether everything in it that has its owner gets the same new owner.
    ///     What others have in a package stays theirs.
    package func give(_ file: Int32, in directory: Int32, includingContents: Bool) throws(Errno) {
        var parent = stat()
        try check(cl_fstat(directory, &parent))
        let (uid, gid) = ids(in: parent)
        var status = stat()
        try check(cl_fstat(file, &status))
        try FileOwner.give(file, from: status.st_uid, uid, gid, includingContents)
    }

    /// The owner of a directory is changed after what is in it, so that an interrupted change can
    /// be repeated.
    private static func give(
        _ file: Int32, from former: uid_t, _ uid: uid_t, _ gid: gid_t, _ includingContents: Bool
    ) throws(Errno) {
        var status = stat()
        try check(cl_fstat(file, &status))
        if includingContents, FileSnapshot(status).isDirectory {
            var names: [Name] = []
            try forEachName(in: file) { names.append($0) }
            for name in names {
                let inner: Descriptor
                do throws(Errno) {
                    inner = try openBeneath([name], from: file, flags: O_PATH)
                } catch {
                    if error.isMissing { continue }
                    throw error
                }
                try give(inner.raw, from: former, uid, gid, true)
            }
        }
        if status.st_uid == former, former != uid { try check(cl_chown_fd(file, uid, gid)) }
    }
}
