import HubProtocol
import Model
import Reconcile

extension Hub {
    package var links: VolumeLinks { VolumeLinks(hub: self) }
}

/// What the hub does about links for people without an account.
package struct VolumeLinks: Sendable {
    let hub: Hub

    /// Lists the links of the volume for its owner, and for others their own.
    package func list(of id: Identifier, for caller: Caller) async throws -> ShareLinkList {
        let time = hub.clock()
        return try await hub.ledger.read { transaction in
            _ = try transaction.membership.volume(id, of: caller, for: .links)
            let links = try transaction.links.visible(in: id, to: caller)
            return ShareLinkList(links: try links.map { try transaction.links.shown($0, at: time) })
        }
    }

    /// Makes or revokes a link.
    ///
    /// - Returns: The new link and its token, or the links that are left.
    package func change(
        _ request: ShareLinkRequest, in id: Identifier, for caller: Caller
    ) async throws -> ShareLinkList {
        if let objection = request.objection { throw Failure(.malformed, objection) }
        switch request.change {
        case .make: return try await make(request, in: id, for: caller)
        case .revoke:
            try await revoke(request.id ?? .root, in: id, for: caller)
            return try await list(of: id, for: caller)
        }
    }

    private func make(
        _ request: ShareLinkRequest, in id: Identifier, for caller: Caller
    ) async throws -> ShareLinkList {
        let (time, token) = (hub.clock(), Secret.linkToken())
        guard request.ends ?? .max > time else {
            throw Failure(.malformed, "The link would end before it begins: choose a later time.")
        }
        // The hash takes long, so it is calculated only for those who may make links.
        _ = try await hub.volume(id, for: caller, to: .makeLink)
        let password: LinkPassword? =
            if let text = request.password {
                await hub.perAccountLock.alone(caller.account) { LinkPassword(of: text) }
            } else { nil }
        let link = try await hub.write(for: caller.account) { transaction in
            _ = try transaction.membership.volume(id, of: caller, for: .makeLink)
            let item = try transaction.links.document(request.item ?? .root, in: id)
            guard try transaction.links.all(in: id).count < HubLimits.links else {
                throw Failure(
                    .quota,
                    "The volume has \(HubLimits.links) links: revoke those that are not needed.")
            }
            let link = LinkRow(
                id: .random(), volume: id, item: item, account: caller.account,
                device: caller.device, edits: request.edits ?? false, made: time,
                ends: request.ends, password: password)
            try transaction.links.add(link, token: Secret.hash(linkToken: token))
            return try transaction.links.shown(link, at: time)
        }
        hub.log.info(
            "a link was made",
            metadata: ["volume": "\(id)", "link": "\(link.id)", "by": "\(caller.user)"])
        return ShareLinkList(links: [link], token: token)
    }

    private func revoke(_ link: Identifier, in id: Identifier, for caller: Caller) async throws {
        try await hub.write(for: caller.account) { transaction in
            _ = try transaction.membership.volume(id, of: caller, for: .links)
            let visible = try transaction.links.visible(in: id, to: caller)
            guard visible.contains(where: { $0.id == link }) else {
                throw Failure(
                    .notFound, "You have no link \(link) in this volume: list the links first.")
            }
            try transaction.links.remove(link)
        }
        hub.log.info(
            "a link was revoked",
            metadata: ["volume": "\(id)", "link": "\(link)", "by": "\(caller.user)"])
    }
}

extension LinkTable {
    /// The links that an account sees and may revoke, the newest first.
    fileprivate func visible(in volume: Identifier, to caller: Caller) throws -> [LinkRow] {
        let all = try all(in: volume)
        return try transaction.membership.role(of: caller.account, in: volume) == .owner
            ? all : all.filter { $0.account == caller.account }
    }

    /// The id of a document to which a link can lead.
    ///
    /// - Throws: `.notFound`, `.malformed`.
    fileprivate func document(_ id: Identifier, in volume: Identifier) throws -> Identifier {
        guard id != .root else {
            throw Failure(.malformed, "A link leads to a document, not to a volume.")
        }
        guard let item = try item(id, in: volume), item.life.isAlive else {
            throw Failure(
                .notFound,
                "The hub does not have this document: wait until it has arrived (fsctl wait).")
        }
        guard item.kind.isDocument else {
            throw Failure(.malformed, "A link leads to a document, not to a folder.")
        }
        return item.id
    }

    fileprivate func shown(_ link: LinkRow, at time: Int64) throws -> ShareLink {
        let item = try item(link.item, in: link.volume)
        let seen = try transaction.row(
            "SELECT seen FROM devices WHERE id = $1", [.id(link.id)])?.integer(0)
        return ShareLink(
            id: link.id, item: item?.id ?? link.item,
            path: try item.map { try path(of: $0, in: link.volume) } ?? "",
            maker: try transaction.account(link.account)?.name ?? "", edits: link.edits,
            hasPassword: link.password != nil, made: link.made, ends: link.ends,
            used: seen.flatMap { $0 > link.made ? $0 : nil },
            hasEnded: link.ends.map { $0 <= time } ?? false,
            isDeleted: !(item?.life.isAlive ?? false))
    }

    /// The names of the item and the folders above it; the first ones are left out of a path that
    /// is too long.
    private func path(of item: ItemState, in volume: Identifier) throws -> String {
        var (path, next, seen) = (item.name, item.placement.parent, Set([item.id]))
        while next != .root, seen.insert(next).inserted,
            let folder = try self.item(next, in: volume),
            path.utf8.count + folder.name.utf8.count < HubLimits.linkPathBytes
        {
            path = "\(folder.name)/\(path)"
            next = folder.placement.parent
        }
        return path
    }
}
