import Glibc
import Model

// The rights of versions that travel between devices, whose users have other ids.

extension SavedAccess {
    /// What other devices are told about a version's protection. Groups and access control lists
    /// stay on their device, so whom only those admit has no right elsewhere.
    ///
    /// - Parameters:
    ///   - root: The status of the volume's root directory.
    ///   - known: The document's owner, as devices and hub know it.
    package init(_ protection: Protection, root: stat, known: OwnerName?) {
        let owner = Accounts.ofThisMachine.flatMap {
            $0.shared(
                protection.owner, root: root.st_uid, directory: { root.st_uid }, known: known)
        }
        let isListed = !protection.accessList.isEmpty
        self.init(owner: owner, mode: isListed ? protection.ownerOnly.mode : protection.mode)
    }
}

extension Protection {
    /// The protection of a version that another device saved.
    ///
    /// - Parameters:
    ///   - saved: Nil from an older device. Then the version gets the document's protection.
    ///   - document: The document's protection here.
    ///   - root: The status of the volume's root directory.
    package init?(_ saved: SavedAccess?, document: Protection?, root: stat) {
        guard let saved else {
            guard let document else { return nil }
            self = document
            return
        }
        let (owner, group) = FileOwner(saved.owner)?.ids(in: root) ?? (root.st_uid, root.st_gid)
        self.init(owner: owner, group: group, mode: saved.mode)
        if let document, document.owner == owner {
            self.group = document.group
            // A list admits users who are not known elsewhere, so it holds for what all may read.
            if mode & 0o044 == 0o044 { accessList = document.accessList }
        } else {
            // The group is not the one that could read it.
            mode &= 0o7707 | (mode & 0o7) << 3
        }
    }
}
