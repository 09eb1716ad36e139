import HubProtocol
import Model

/// A volume, and the role that an account has in it.
package struct VolumeAccess: Hashable, Sendable {
    package let volume: VolumeRow
    package let role: Role
    /// The name of the account that owns the volume; nil if it is the account itself.
    package let owner: String?
}

/// What devices of an account must hear of when it changes.
package struct MemberStanding: Hashable, Sendable {
    package let role: Role
    /// The number of the volume's members.
    package let members: Int

    package init(role: Role, members: Int) {
        self.role = role
        self.members = members
    }
}

extension LedgerTransaction {
    package var membership: MemberTable { MemberTable(transaction: self) }
}

/// Who the members of volumes are. All of the hub's access to volumes for accounts goes through
/// here.
package struct MemberTable {
    let transaction: any LedgerTransaction

    /// Returns the volume if the account is a member whose role allows the operation.
    ///
    /// - Throws: `.notFound` for an account that is not a member, as if the volume did not exist;
    ///   `.forbidden`; `.unauthenticated` if the device was revoked or signed out since the request
    ///   began, because a long answer asks again for each of its parts.
    package func volume(
        _ id: Identifier, of caller: Caller, for operation: VolumeOperation
    ) throws -> VolumeRow {
        guard try transaction.devices.hasToken(caller.device) else {
            throw Failure(.unauthenticated, "The device was signed out.")
        }
        guard let volume = try transaction.volume(id),
            let role = try role(of: caller.account, in: id)
        else {
            throw Failure(
                .notFound,
                "There is no volume \(id) that you may use: list your volumes first.")
        }
        guard role.allows(operation) else { throw role.refusal(of: operation) }
        return volume
    }

    /// Nil if the account is not a member of the volume, or if there is no such volume.
    package func role(of account: Identifier, in volume: Identifier) throws -> Role? {
        let found = try transaction.row(
            "SELECT role FROM members WHERE volume = $1 AND account = $2",
            [.id(volume), .id(account)])
        return try found.map { try role($0, 0) }
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

    /// All volumes that the account may open: its own ones first, ordered by owner and name.
    package func accessible(to account: Identifier) throws -> [VolumeAccess] {
        let found = try transaction.rows(
            """
            SELECT members.volume, members.role, accounts.name FROM members
            JOIN volumes ON volumes.id = members.volume
            JOIN accounts ON accounts.id = volumes.account
            WHERE members.account = $1
            """, [.id(account)])
        return try found.compactMap { row in
            guard let volume = try transaction.volume(row.id(0)) else { return nil }
            let isOwn = volume.account == account
            return VolumeAccess(
                volume: volume, role: try role(row, 1), owner: isOwn ? nil : try row.text(2))
        }.filter { $0.role.allows(.open) }
            .sorted { ($0.owner ?? "", $0.volume.name) < ($1.owner ?? "", $1.volume.name) }
    }

    /// The owner first, then the others by name.
    package func members(of volume: Identifier) throws -> [Member] {
        try transaction.rows(
            """
            SELECT accounts.name, members.role, members.since FROM members
            JOIN accounts ON accounts.id = members.account WHERE members.volume = $1
            """, [.id(volume)]
        ).map { Member(user: try $0.text(0), role: try role($0, 1), since: try $0.integer(2)) }
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
        guard let role = try role(of: account, in: volume) else { return nil }
        return MemberStanding(role: role, members: try memberCount(of: volume))
    }

    package func memberCount(of volume: Identifier) throws -> Int {
        let found = try transaction.row(
            "SELECT count(*) FROM members WHERE volume = $1", [.id(volume)])
        return Int(try found?.integer(0) ?? 0)
    }

    /// Adds the member, or changes the role of a present one. The links of a member who may make
    /// none are removed, so that they are not valid again with a later role.
    package func setMember(
        _ account: Identifier, of volume: Identifier, _ role: Role, at time: Int64
    ) throws {
        try transaction.execute(
            """
            INSERT INTO members (volume, account, role, since) VALUES ($1, $2, $3, $4)
            ON CONFLICT (volume, account) DO UPDATE SET role = $3
            """, [.id(volume), .id(account), .text(role.rawValue), .integer(time)])
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
    /// it.
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
            let others = try transaction.row(
                "SELECT count(*) FROM members WHERE account = $1", [.id(account.id)])
            guard try memberCount(of: volume.id) < HubLimits.members,
                try others?.integer(0) ?? 0 < HubLimits.members
            else {
                throw Failure(
                    .quota,
                    "A volume has at most \(HubLimits.members) members, and a user is a member of "
                        + "at most \(HubLimits.members) volumes.")
            }
        } else if before == nil {
            throw Failure(.notFound, "\(request.user) is not a member of this volume.")
        }
        guard let role = request.role else {
            return try removeMember(account.id, of: volume.id)
        }
        try setMember(account.id, of: volume.id, role, at: time)
    }
}
