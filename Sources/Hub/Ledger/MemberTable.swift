import HubProtocol
import Model

/// A volume, and the role that an account has in it.
package struct VolumeAccess: Hashable, Sendable {
    package let volume: VolumeRow
    package let role: Role
    /// The name of the account that owns the volume; nil if it is the account itself.
    package let owner: String?
    /// What the account sees of it; nil if that is all.
    var folder: SharedFolder?
    /// The name of that folder.
    var folderName: String?

    /// What the account calls it.
    package var name: String {
        guard let folderName else { return volume.name }
        // Names of files may be what names of volumes may not.
        var name = "\(volume.name)/\(folderName)".displayable
        while name.utf8.count > HubLimits.nameBytes { name.removeLast() }
        return name
    }

    var id: Identifier { folder?.id ?? volume.id }
}

/// What devices of an account must hear of when it changes.
package struct MemberStanding: Hashable, Sendable {
    package let role: Role
    /// The number of the volume's members, as far as the account sees them.
    package let members: Int
    /// The folder that the account sees; nil if it sees the whole volume.
    package let folder: Identifier?

    package init(role: Role, members: Int, folder: Identifier? = nil) {
        self.role = role
        self.members = members
        self.folder = folder
    }
}

extension LedgerTransaction {
    package var membership: MemberTable { MemberTable(transaction: self) }
}

/// Who the members of volumes are. All of the hub's access to volumes for accounts goes through
/// here.
package struct MemberTable {
    let transaction: any LedgerTransaction

    /// Returns the volume if the account is a member of all of it whose role allows the operation.
    /// What does not know of folders asks this.
    ///
    /// - Throws: As `view`; `.forbidden` for a member of a folder.
    package func volume(
        _ id: Identifier, of caller: Caller, for operation: VolumeOperation
    ) throws -> VolumeRow {
        let view = try view(id, of: caller, for: operation)
        guard view.folder == nil else { throw Role.refusalInFolder }
        return view.volume
    }

    /// Returns what the account sees of the volume if its role allows the operation. The caller
    /// must not read or change anything outside of it.
    ///
    /// - Parameter id: What the account's devices take for the volume's id.
    /// - Throws: `.notFound` for an account that is not a member, as if the volume did not exist;
    ///   `.forbidden`; `.unauthenticated` if the device was revoked or signed out since the request
    ///   began, because a long answer asks again for each of its parts.
    package func view(
        _ id: Identifier, of caller: Caller, for operation: VolumeOperation
    ) throws -> VolumeView {
        guard try transaction.devices.hasToken(caller.device) else {
            throw Failure(.unauthenticated, "The device was signed out.")
        }
        guard let view = try view(id, of: caller.account) else {
            throw Failure(
                .notFound,
                "There is no volume \(id) that you may use: list your volumes first.")
        }
        guard view.role.allows(operation) else { throw view.role.refusal(of: operation) }
        guard view.folder == nil || operation.worksInFolders else { throw Role.refusalInFolder }
        return view
    }

    private func view(_ id: Identifier, of account: Identifier) throws -> VolumeView? {
        if let volume = try transaction.volume(id) {
            guard let member = try member(account, of: id), member.folder == nil else { return nil }
            return VolumeView(volume: volume, role: member.role, folder: nil)
        }
        guard let folder = try transaction.folders.folder(id),
            let volume = try transaction.volume(folder.volume),
            let member = try member(account, of: volume.id), member.folder == id,
            try transaction.folders.isShown(folder)
        else { return nil }
        return VolumeView(volume: volume, role: member.role, folder: folder)
    }

    private func member(_ account: Identifier, of volume: Identifier) throws
        -> (role: Role, folder: Identifier?)?
    {
        let found = try transaction.row(
            "SELECT role, folder FROM members WHERE volume = $1 AND account = $2",
            [.id(volume), .id(account)])
        return try found.map { (try role($0, 0), $0.isNull(1) ? nil : try $0.id(1)) }
    }

    /// Nil if the account is not a member of the volume, or if there is no such volume. It is also
    /// the role of a member of a folder.
    package func role(of account: Identifier, in volume: Identifier) throws -> Role? {
        try member(account, of: volume)?.role
    }

    private func role(_ row: LedgerRow, _ column: Int) throws -> Role {
        guard let role = Role(rawValue: try row.text(column)) else {
            throw VolumeError(
                .newer,
                "A member's role in the hub's ledger is unknown: use the newest version of "
                    + "concord.")
        }
        return role
    }

    /// All volumes that the account may open as a whole: its own ones first, ordered by owner and
    /// name.
    package func accessible(to account: Identifier) throws -> [VolumeAccess] {
        try visible(to: account).filter { $0.folder == nil }
    }

    /// The same, and the volumes of which the account sees a folder.
    func visible(to account: Identifier) throws -> [VolumeAccess] {
        let found = try transaction.rows(
            """
            SELECT members.volume, members.role, accounts.name, members.folder FROM members
            JOIN volumes ON volumes.id = members.volume
            JOIN accounts ON accounts.id = volumes.account
            WHERE members.account = $1
            """, [.id(account)])
        return try found.compactMap { row in
            guard let volume = try transaction.volume(row.id(0)) else { return nil }
            let isOwn = volume.account == account
            var access = VolumeAccess(
                volume: volume, role: try role(row, 1), owner: isOwn ? nil : try row.text(2))
            guard !row.isNull(3) else { return access }
            guard let folder = try transaction.folders.folder(row.id(3)),
                let directory = try transaction.folders.directory(of: folder)
            else { return nil }
            (access.folder, access.folderName) = (folder, directory.name)
            return access
        }.filter { $0.role.allows(.open) }
            .sorted { ($0.owner ?? "", $0.name) < ($1.owner ?? "", $1.name) }
    }

    /// The owner first, then the others by name.
    ///
    /// - Parameter seen: The folder that the asking account sees. Only members who see something of
    ///   it are listed then.
    package func members(of volume: Identifier, in seen: SharedFolder? = nil) throws -> [Member] {
        let folders = transaction.folders
        return try transaction.rows(
            """
            SELECT accounts.name, members.role, members.since, members.folder FROM members
            JOIN accounts ON accounts.id = members.account WHERE members.volume = $1
            """, [.id(volume)]
        ).compactMap { row in
            var member = Member(
                user: try row.text(0), role: try role(row, 1), since: try row.integer(2))
            guard !row.isNull(3), let own = try folders.folder(row.id(3)) else { return member }
            let path = try folders.path(
                of: own.directory, in: volume, below: seen?.directory ?? .root)
            guard path == nil, let seen else {
                member.folder = path.map { $0.isEmpty ? nil : $0 } ?? "?"
                return member
            }
            let isAbove =
                try folders.path(
                    of: seen.directory, in: volume, below: own.directory) != nil
            return isAbove ? member : nil
        }
        .sorted { ($0.role == .owner ? "" : $0.user) < ($1.role == .owner ? "" : $1.user) }
    }

    /// The names of the members' devices, and of the accounts that they belong to.
    package func deviceNames(in volume: Identifier) throws
        -> [Identifier: (user: String, name: String)]
    {
        let found = try transaction.rows(
            """
            SELECT devices.id, accounts.name, devices.name FROM members
            JOIN accounts ON accounts.id = members.account
            JOIN devices ON devices.account = members.account WHERE members.volume = $1
            """, [.id(volume)])
        var names: [Identifier: (user: String, name: String)] = [:]
        for row in found { names[try row.id(0)] = (try row.text(1), try row.text(2)) }
        return names
    }

    /// Nil if the account is not a member of the volume.
    package func standing(of account: Identifier, in volume: Identifier) throws -> MemberStanding? {
        guard let member = try member(account, of: volume) else { return nil }
        guard let folder = member.folder else {
            return MemberStanding(role: member.role, members: try memberCount(of: volume))
        }
        let found = try transaction.row(
            """
            SELECT count(*) FROM members WHERE volume = $1 AND (folder IS NULL OR folder = $2)
            """, [.id(volume), .id(folder)])
        return MemberStanding(
            role: member.role, members: Int(try found?.integer(0) ?? 0), folder: folder)
    }

    package func memberCount(of volume: Identifier) throws -> Int {
        let found = try transaction.row(
            "SELECT count(*) FROM members WHERE volume = $1", [.id(volume)])
        return Int(try found?.integer(0) ?? 0)
    }

    /// Adds the member, or changes the role of a present one, who sees the same as before. The
    /// links of a member who may make none are removed, so that they are not valid again with a
    /// later role.
    package func setMember(
        _ account: Identifier, of volume: Identifier, _ role: Role, at time: Int64,
        seeing folder: SharedFolder? = nil
    ) throws {
        try transaction.execute(
            """
            INSERT INTO members (volume, account, role, since, folder) VALUES ($1, $2, $3, $4, $5)
            ON CONFLICT (volume, account) DO UPDATE SET role = $3
            """,
            [
                .id(volume), .id(account), .text(role.rawValue), .integer(time),
                folder.map { .id($0.id) } ?? .null,
            ])
        if !role.allows(.makeLink) {
            try transaction.links.removeAll(of: account, in: volume)
        }
    }

    package func removeMember(_ account: Identifier, of volume: Identifier) throws {
        try transaction.execute(
            "DELETE FROM members WHERE volume = $1 AND account = $2",
            [.id(volume), .id(account)])
        try transaction.links.removeAll(of: account, in: volume)
    }

    /// Carries out a request that was checked (`MemberRequest.objection`) of somebody who may make
    /// it. The account's grants in the volume end.
    ///
    /// - Throws: `.notFound`, `.taken`, `.forbidden`, `.quota`.
    func change(
        _ request: MemberRequest, of volume: VolumeRow, at time: Int64
    ) throws {
        guard let account = try transaction.account(named: request.user) else {
            throw Failure(
                .notFound,
                "There is no user \(request.user) at this hub: concord hub user add adds one.")
        }
        let before = try role(of: account.id, in: volume.id)
        guard before != .owner else { throw Role.owner.refusal(of: .leave) }
        if request.change == .add {
            guard before == nil else {
                throw Failure(
                    .taken,
                    "\(request.user) is a member already: fsctl members role changes the role.")
            }
            try checkPlace(for: account.id, in: volume)
        } else if before == nil {
            throw Failure(.notFound, "\(request.user) is not a member of this volume.")
        }
        try GrantTable(transaction, volume: volume.id).release(of: account.id)
        guard let role = request.role else {
            return try removeMember(account.id, of: volume.id)
        }
        let folder = try request.folder.map {
            try transaction.folders.share($0, in: volume.id)
        }
        try setMember(account.id, of: volume.id, role, at: time, seeing: folder)
    }

    /// A user is not asked before becoming a member. So one owner can take only a part of the
    /// places, and a user's own volumes take none.
    ///
    /// - Throws: `.quota`.
    private func checkPlace(for account: Identifier, in volume: VolumeRow) throws {
        let owners = try transaction.rows(
            """
            SELECT volumes.account FROM members JOIN volumes ON volumes.id = members.volume
            WHERE members.account = $1 AND volumes.account <> $1
            """, [.id(account)]
        ).map { try $0.id(0) }
        guard try memberCount(of: volume.id) < HubLimits.members,
            owners.count < HubLimits.members
        else {
            throw Failure(
                .quota,
                "A volume has at most \(HubLimits.members) members, and a user is a member of "
                    + "at most \(HubLimits.members) volumes of others.")
        }
        guard owners.count(where: { $0 == volume.account }) < HubLimits.membersOfOneOwner else {
            throw Failure(
                .quota,
                "A user is a member of at most \(HubLimits.membersOfOneOwner) volumes of one "
                    + "owner: remove the user from another volume first.")
        }
    }
}
