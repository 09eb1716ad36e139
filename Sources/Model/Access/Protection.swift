/// Who owns something and who else may read it: owner, group, permission bits and access control
/// list. A version keeps the protection that its document had while the version was current.
package struct Protection: Hashable, Sendable {
    package var owner: UInt32
    package var group: UInt32
    /// Permission bits.
    package var mode: UInt16
    /// The name of the extended attribute that holds a file's access control list (acl(5)).
    package static let accessListName = "system.posix_acl_access"

    /// The value of that attribute. It is empty when the mode alone decides.
    package var accessList: [UInt8]

    package init(owner: UInt32, group: UInt32, mode: UInt16, accessList: [UInt8] = []) {
        self.owner = owner
        self.group = group
        self.mode = mode & 0o7777
        self.accessList = accessList
    }

    /// Used when nothing is known: only root may read.
    package static let unknown = Protection(owner: 0, group: 0, mode: 0o600)

    /// The same owner with the same rights, and no rights for anybody else.
    package var ownerOnly: Protection {
        Protection(owner: owner, group: group, mode: mode & 0o7700)
    }

    /// Whether everybody who may read `other` may certainly read this, too. May be false although
    /// it is so.
    package func isAtLeastAsOpen(as other: Protection) -> Bool {
        let readers = other.mode & 0o044
        return owner == other.owner && accessList == other.accessList && readers & ~mode == 0
            && (group == other.group || readers == 0)
    }

    /// The protection of a version of a package that contains this file or directory. A version
    /// has one owner and one group, so what somebody else keeps private in a package leaves its
    /// versions to root alone, and what another group may read leaves them to the owner.
    package func covering(_ part: Protection, isDirectory: Bool) -> Protection {
        let reading: UInt16 = isDirectory ? 0o5 : 0o4
        if part.mode & reading == reading { return self }
        let isForGroup = part.mode & reading << 3 == reading << 3
        if part.owner == owner { return isForGroup && part.group != group ? ownerOnly : self }
        return isForGroup && part.group == group ? self : .unknown
    }

    /// Whether the kernel would allow that user to read a file, or list a directory, with this
    /// protection.
    package func allowsReading(by user: Requester) -> Bool { allows(4, user) }

    /// Whether the kernel would allow that user to open what is in a directory with this
    /// protection.
    package func allowsSearching(by user: Requester) -> Bool { allows(1, user) }

    private func allows(_ permission: UInt16, _ user: Requester) -> Bool {
        if user.isRoot { return true }
        if user.uid == owner { return mode & permission << 6 != 0 }
        guard accessList.isEmpty else {
            return AccessList(accessList)?.allows(permission, user, group: group) ?? false
        }
        return mode & (user.belongs(to: group) ? permission << 3 : permission) != 0
    }
}

/// The user who asks for something, with all groups of that user.
package struct Requester: Hashable, Sendable {
    package var uid: UInt32
    package var gid: UInt32
    package var groups: [UInt32]

    package init(uid: UInt32, gid: UInt32, groups: [UInt32] = []) {
        self.uid = uid
        self.gid = gid
        self.groups = groups
    }

    package static let root = Requester(uid: 0, gid: 0)

    package var isRoot: Bool { uid == 0 }

    package func belongs(to group: UInt32) -> Bool { gid == group || groups.contains(group) }
}

extension Version {
    /// Whether a user may know of this version and read it: every view of the past and of conflicts
    /// asks here. The version's own protection has to allow it. A user who is not the version's
    /// owner must also be allowed to read the document as it is now, so that making a document
    /// private makes its past private, too, and must have been able to reach the version then, so
    /// that opening a directory opens only what is in it now. A version whose owner was not
    /// recorded is visible to the document's owner alone.
    ///
    /// - Parameter span: When the version was the current one, in nanoseconds since 1970.
    package func isVisible(
        to user: Requester, of document: DocumentProtection, during span: ClosedRange<Int64>
    ) -> Bool {
        if user.isRoot { return true }
        guard let protection else { return user.uid == document.now.owner }
        guard
            protection.allowsReading(by: user) || PlantedFault.forgetsFormerModes.isPlanted
        else { return false }
        return user.uid == protection.owner
            || document.now.allowsReading(by: user)
                && document.directories.admitted(user, during: span)
    }

    /// The same for a version of which only the time of its save is known.
    package func isVisible(to user: Requester, of document: DocumentProtection) -> Bool {
        isVisible(to: user, of: document, during: saved...saved)
    }

    /// The protection with which the version is shown in a directory of old versions.
    package func shownProtection(of document: Protection) -> Protection {
        protection ?? document.ownerOnly
    }
}

extension [Version] {
    /// The indices of the versions that a user may see. These are all versions of a document, the
    /// oldest first.
    package func visible(to user: Requester, of document: DocumentProtection) -> [Int] {
        if user.isRoot { return indices.map(\.self) }
        var visible: [Int] = []
        // A version is current until the next one is saved, and a conflict version stays.
        var end = Int64.max
        for index in indices.reversed() {
            let version = self[index]
            let isConflict = version.kind == .conflict
            let span = version.saved...Swift.max(version.saved, isConflict ? .max : end)
            if version.isVisible(to: user, of: document, during: span) { visible.append(index) }
            if !isConflict { end = version.saved }
        }
        return visible.reversed()
    }
}

/// The value of `system.posix_acl_access` as the kernel encodes it: a version number, then entries
/// of a tag, permissions and an id. All numbers are little endian.
private struct AccessList {
    private enum Tag: UInt16 {
        case owner = 1
        case user = 2
        case owningGroup = 4
        case group = 8
        case mask = 16
        case others = 32
    }

    private var entries: [(tag: Tag, permissions: UInt16, id: UInt32)] = []

    /// Returns nil when the bytes are not a valid list.
    init?(_ bytes: [UInt8]) {
        func number(_ range: Range<Int>) -> UInt32 {
            bytes[range].reversed().reduce(0) { $0 << 8 | UInt32($1) }
        }
        guard bytes.count >= 4, bytes.count % 8 == 4, number(0..<4) == 2 else { return nil }
        for start in stride(from: 4, to: bytes.count, by: 8) {
            guard let tag = Tag(rawValue: UInt16(number(start..<start + 2))) else { return nil }
            entries.append(
                (tag, UInt16(number(start + 2..<start + 4)), number(start + 4..<start + 8)))
        }
    }

    /// Decides for a user who is not the owner, by the rules of acl(5).
    func allows(_ permission: UInt16, _ user: Requester, group: UInt32) -> Bool {
        let mask = entries.first { $0.tag == .mask }?.permissions ?? 7
        if let entry = entries.first(where: { $0.tag == .user && $0.id == user.uid }) {
            return entry.permissions & mask & permission != 0
        }
        let groups = entries.filter {
            $0.tag == .owningGroup && user.belongs(to: group)
                || $0.tag == .group && user.belongs(to: $0.id)
        }
        guard groups.isEmpty else {
            return groups.contains { $0.permissions & mask & permission != 0 }
        }
        return entries.contains { $0.tag == .others && $0.permissions & permission != 0 }
    }
}
