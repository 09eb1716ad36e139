import HubProtocol
import Model
import Reconcile

/// A valid link that somebody has opened.
package struct OpenLink: Sendable {
    package let row: LinkRow
    /// The link's device, in the name of the maker. Whoever serves the link must take care that
    /// nothing but the link's document is reached with it.
    package let caller: Caller
    package let volume: VolumeRow
    /// The document.
    package let item: ItemState
}

extension VolumeLinks {
    /// Finds the link that has this token. Unknown tokens are counted together with wrong codes of
    /// the address. A token that was valid when it was used last is not.
    ///
    /// - Throws: `.notFound`, with the same sentence for all reasons; `.tooMany`.
    package func open(_ token: String, from address: String) async throws -> OpenLink {
        let (hub, time, hash) = (hub, hub.clock(), Secret.hash(linkToken: token))
        let find = {
            let found = try await hub.ledger.read { try $0.links.open(hash, at: time) }
            hub.linkTokens.note(hash, isValid: found != nil)
            guard let found else { throw VolumeLinks.unknown }
            return found
        }
        let found =
            hub.linkTokens.contain(hash)
            ? try await find()
            : try await hub.devices.countingWrong(
                "links", from: address, at: time, code: .notFound, find)
        await hub.devices.noteUse(of: found.caller, at: time) { _ in }
        return found
    }

    /// Checks a password that a visitor has sent. Wrong ones are counted together with wrong codes
    /// of the address, and those of all links of one account are checked one after another.
    ///
    /// - Throws: `.code`, `.tooMany`.
    package func check(_ password: String, of link: OpenLink, from address: String) async throws {
        guard let known = link.row.password else { return }
        let lock = hub.visitorLock
        try await hub.devices.countingWrong("passwords", from: address, at: hub.clock()) {
            guard await lock.alone(link.row.account, { known.matches(password) }) else {
                throw Failure(.code, "This password is wrong.")
            }
        }
    }

    package static let unknown = Failure(
        .notFound,
        "This link does not exist, or does not work any more. Ask the person who gave it to you.")
}

extension LinkTable {
    /// Nil if there is no such token, or the link has ended, its maker may not make it any more, or
    /// its document is deleted.
    fileprivate func open(_ token: Digest, at time: Int64) throws -> OpenLink? {
        guard let caller = try transaction.devices.caller(token, at: time),
            let row = try self[caller.device],
            let volume = try transaction.volume(row.volume),
            try transaction.membership.role(of: row.account, in: row.volume)?
                .allows(.makeLink) == true,
            let item = try item(row.item, in: row.volume),
            item.life.isAlive, item.kind.isDocument
        else { return nil }
        return OpenLink(row: row, caller: caller, volume: volume, item: item)
    }

    /// The item, or the one with which it was unified.
    func item(_ id: Identifier, in volume: Identifier) throws -> ItemState? {
        try transaction.item(transaction.alias(of: id, in: volume) ?? id, in: volume)
    }
}
