import HubProtocol
import Model

extension Hub {
    package var members: VolumeMembers { VolumeMembers(hub: self) }
}

/// What the hub does about the members of volumes.
package struct VolumeMembers: Sendable {
    let hub: Hub

    package func list(of id: Identifier, for caller: Caller) async throws -> MemberList {
        try await hub.ledger.read { transaction in
            let view = try transaction.membership.view(id, of: caller, for: .members)
            return try transaction.membership.memberList(of: view, for: caller)
        }
    }

    /// Adds or removes a member or changes the role. It ends the feeds of the volume, so that
    /// all devices learn of it at once: those of a removed member can open none again.
    ///
    /// - Returns: The members after the change; none if the caller has left the volume.
    package func change(
        _ request: MemberRequest, in id: Identifier, for caller: Caller
    ) async throws -> MemberList {
        let time = hub.clock()
        if let objection = request.objection { throw Failure(.malformed, objection) }
        let operation: VolumeOperation =
            request.change == .remove && request.user == caller.user ? .leave : .changeMembers
        let who = caller.account.description
        guard hub.memberNames.begin(by: who, at: time) else {
            throw Failure(.tooMany, "Too many names of users that do not exist: wait a minute.")
        }
        let view: VolumeView
        var isUnknown = false
        defer { if !isUnknown { hub.memberNames.forgive(who, at: time) } }
        do {
            let (seen, account) = try await hub.write(for: caller.account) { transaction in
                let view = try transaction.membership.view(id, of: caller, for: operation)
                try transaction.membership.change(request, of: view.volume, at: time)
                return (view, try transaction.account(named: request.user)?.id)
            }
            view = seen
            if let account {
                hub.leases.apply(.left(account: account, volume: view.volume.id))
            }
        } catch let failure as Failure where failure.code == .notFound {
            // Otherwise a user could find out all names of users.
            isUnknown = true
            throw failure
        }
        hub.log.info(
            "a volume's members have changed",
            metadata: [
                "volume": "\(id)", "user": "\(request.user)", "change": "\(request.change)",
                "by": "\(caller.user)",
            ])
        hub.feeds.end(Failure.membersChanged) { $0.volume == view.volume.id }
        return try await hub.ledger.read { transaction in
            guard try transaction.membership.role(of: caller.account, in: view.volume.id) != nil
            else { return MemberList(members: []) }
            return try transaction.membership.memberList(of: view, for: caller)
        }
    }

    /// Opens a feed, which ends when the volume's members change.
    ///
    /// - Parameters:
    ///   - operation: `.feed`, or `.page` for a browser.
    ///   - id: What the account's devices take for the volume's id, if that is another one.
    package func openFeed(
        of volume: VolumeRow, as id: Identifier? = nil, for caller: Caller,
        _ operation: VolumeOperation, token: Digest, process: Identifier?
    ) async throws -> FeedLine {
        let id = id ?? volume.id
        let standing = try await standing(of: caller, in: id)
        let line = hub.feeds.open(
            volume.id, caller: caller, standing: standing, token: token, epoch: volume.epoch,
            process: process)
        // What changed before the feed was opened did not end it, so it is looked at again.
        do {
            line.tell(head: try await hub.view(id, for: caller, to: operation).volume.head)
            guard try await self.standing(of: caller, in: id) == standing else {
                throw Failure.membersChanged
            }
        } catch let failure as Failure {
            line.tellEnd(failure)
        } catch {
            hub.feeds.close(line)
            throw error
        }
        return line
    }

    /// The hint of a feed with the present revision of the leases. It ends the feed of a member of
    /// a folder who does not see the folder any more, because that is in the trash.
    func completed(_ next: Hint, in view: VolumeView, for caller: Caller) async -> Hint {
        var hint = next
        guard hint.ended == nil else { return hint }
        guard view.folder != nil else {
            if hint.leases != nil {
                hint.leases = hub.leases.revision(of: view.volume.id, for: caller.device)
            }
            return hint
        }
        do {
            if hint.leases != nil {
                hint.leases = try await hub.leases.revision(in: view.id, for: caller)
            } else if hint.head != nil {
                _ = try await hub.view(view.id, for: caller, to: .feed)
            }
        } catch let failure as Failure {
            return Hint(ended: failure)
        } catch {
            // The ledger cannot be read. The next heartbeat has the revision.
            hint.leases = nil
        }
        return hint
    }

    /// Opens a volume of another account; nil if the request is for one of the account itself.
    func open(_ request: VolumeRequest, for caller: Caller) async throws -> VolumeAnswer? {
        guard let owner = request.owner, owner != caller.user else { return nil }
        let access = try await hub.ledger.read {
            try $0.membership.shared(request, owner: owner, with: caller.account)
        }
        return VolumeAnswer(access, created: false)
    }

    /// The account's role in the volume and the number of members, for the answer to a device.
    func standing(of caller: Caller, in id: Identifier) async throws -> MemberStanding {
        try await hub.ledger.read { transaction in
            // This throws if the account is no member.
            let view = try transaction.membership.view(id, of: caller, for: .open)
            let standing = try transaction.membership.standing(
                of: caller.account, in: view.volume.id)
            return standing ?? MemberStanding(role: .reader, members: 0)
        }
    }
}

extension Failure {
    static let membersChanged = Failure(
        .forbidden, "The members of the volume, or their roles, have changed.")
}

extension MemberTable {
    fileprivate func memberList(of view: VolumeView, for caller: Caller) throws -> MemberList {
        MemberList(
            members: try members(of: view.volume.id, in: view.folder).map { member in
                var member = member
                member.isSelf = member.user == caller.user
                return member
            })
    }
}

extension MemberTable {
    /// A volume that another account owns and of which this account is a member.
    ///
    /// - Throws: `.notFound`, with the volumes that the account may use.
    func shared(_ request: VolumeRequest, owner: String, with account: Identifier) throws
        -> VolumeAccess
    {
        let name = request.name
        if try transaction.account(account)?.name == owner,
            let own = try transaction.volumes(of: account).first(
                where: { $0.name == name })
        {
            return VolumeAccess(volume: own, role: .owner, owner: nil)
        }
        let all = try visible(to: account)
        let offered = all.filter { $0.owner == owner }
        if let found = offered.first(where: { $0.id == request.id })
            ?? offered.first(where: { $0.name == name })
        {
            return found
        }
        let shared = all.compactMap { access in access.owner.map { ($0, access.name) } }
        let list = shared.prefix(20).map { "\"\($1)\" of \($0)" }.joined(separator: ", ")
        throw Failure(
            .notFound,
            "There is no volume \"\(name)\" of \(owner) that you may use. "
                + (shared.isEmpty
                    ? "Nobody has shared a volume with you: its owner adds you with fsctl "
                        + "members add."
                    : "You may use \(list)\(shared.count > 20 ? " and others" : "")."))
    }
}
