import Foundation
import Hub
import HubProtocol
import Hummingbird
import Model

/// The page of a hub's owner: accounts with their quotas, storage and health.
struct HubPage {
    private let session: Session
    private let hub: Hub

    /// - Throws: `.notFound` if the account is no owner: others do not learn of the page.
    init(_ session: Session) throws(Failure) {
        guard session.isOwner else {
            throw Failure(
                .notFound, "There is no such page. The volumes are on the start page.")
        }
        self.session = session
        hub = session.hub
    }

    private struct View {
        let frame: Frame
        let token: String
        let accounts: [AccountView]
        let code: Code?
        let done: String?
        let facts: [Fact]
        let isDamaged: Bool
        let plot: Plot?
    }

    private struct AccountView {
        let name: String
        let used: String
        let part: Int?
        /// The quota in gigabytes as the form has it; empty for none.
        let gigabytes: String
        let volumes: Int64
        let devices: Int64
        let quotaForm: String
        let inviteForm: String
        let number: Int
    }

    private struct Code {
        let of: String
        let code: String
    }

    private struct Fact {
        let term: String
        let value: String
    }

    private struct Plot {
        let picture: String
        let caption: String
    }

    func answer() async throws -> Response {
        try await page(done: try session.call.query["done"] == nil ? nil : "The change is made.")
    }

    private func page(code: Code? = nil, done: String? = nil) async throws -> Response {
        let (rows, damaged, times, days) = try await hub.ledger.read { transaction in
            (
                try transaction.accountRows(limit: PageLimits.accounts),
                try transaction.row(
                    "SELECT count(*) FROM chunks WHERE state = 2 AND uses > 0", [])?.integer(0)
                    ?? 0,
                try MaintenanceTimes(transaction), try StorageHistory(transaction).all()
            )
        }
        let (packs, quarantined) = (
            try await hub.blobs.packs(), try await hub.blobs.quarantinedPacks()
        )
        let system = try? FileManager.default.attributesOfFileSystem(
            forPath: hub.directory.path)
        let free = (system?[.systemFreeSize] as? NSNumber)?.uint64Value
        let facts = [
            Fact(
                term: "Stored",
                value: "\(Shown.size(packs.values.reduce(0, +))) in "
                    + Shown.count(packs.count, "pack", "packs")),
            Fact(term: "Free on the disk", value: free.map { Shown.size($0) } ?? "unknown"),
            Fact(term: "Open feeds", value: "\(hub.feeds.count)"),
            Fact(term: "Damaged chunks that versions need", value: "\(damaged)"),
            Fact(term: "Packs in quarantine", value: "\(quarantined.count)"),
            Fact(
                term: "Last collection of unused chunks",
                value: times.collected.map { ShownTime($0).text } ?? "not yet"),
            Fact(
                term: "Last backup (concord hub backup)",
                value: times.backedUp.map { ShownTime($0).text } ?? "never"),
        ]
        let view = View(
            frame: Frame(title: "This hub", session), token: session.formToken,
            accounts: rows.enumerated().map { account($0.element, $0.offset) }, code: code,
            done: done, facts: facts, isDamaged: damaged > 0,
            plot: StoragePlot(days).map {
                Plot(picture: PagePath.plotAddress, caption: $0.caption)
            })
        return Answer.page("hub", view)
    }

    func plot() async throws -> Response {
        let days = try await hub.ledger.read { try StorageHistory($0).all() }
        guard let plot = StoragePlot(days) else {
            throw Failure(.notFound, "What is stored is known of less than two days.")
        }
        return plot.answer()
    }

    private func account(_ row: AccountRow, _ number: Int) -> AccountView {
        let account = row.account
        return AccountView(
            name: Shown.name(account.name), used: Shown.size(account.used),
            part: account.quota.map {
                $0 == 0 ? 100 : Int(min(100, Double(account.used) / Double($0) * 100))
            },
            gigabytes: account.quota.map { HubPage.gigabytes($0) } ?? "", volumes: row.volumes,
            devices: row.devices, quotaForm: PagePath.account(account.id, .quota),
            inviteForm: PagePath.account(account.id, .invite), number: number)
    }

    private static let gigabyte: Double = 1_000_000_000

    private static func gigabytes(_ bytes: UInt64) -> String {
        let value = Double(bytes) / gigabyte
        return value == value.rounded() ? "\(UInt64(value))" : "\(value)"
    }

    // MARK: Forms

    func setQuota(of account: Identifier) async throws -> Response {
        let text = try await session.form()["gigabytes"] ?? ""
        var quota: UInt64?
        if !text.isEmpty {
            guard let value = Double(text), value >= 0, value <= 1_000_000_000 else {
                throw Failure(
                    .malformed, "A quota is a number of gigabytes; an empty field means no limit.")
            }
            quota = UInt64(value * HubPage.gigabyte)
        }
        let new = quota
        try await hub.write(for: session.caller.account) { transaction in
            _ = try HubPage.account(account, transaction)
            try transaction.setQuota(of: account, new)
        }
        return Answer.redirect(to: PagePath.hubAddress + "?done=quota")
    }

    /// Shows a new code. It is in this answer only.
    func invite(_ account: Identifier) async throws -> Response {
        _ = try await session.form()
        let (code, expires) = (Secret.code(), hub.clock() + Timestamp.span(seconds: 7 * 86_400))
        let name = try await hub.write(for: session.caller.account) { transaction in
            let known = try HubPage.account(account, transaction)
            try transaction.devices.addInvite(
                Secret.hash(code: code), account: account, expires: expires)
            return known.name
        }
        hub.log.notice(
            "an owner made a code on a page",
            metadata: ["owner": "\(session.caller.user)", "for": "\(name)"])
        return try await page(code: Code(of: Shown.name(name), code: code))
    }

    private static func account(
        _ id: Identifier, _ transaction: any LedgerTransaction
    ) throws -> Account {
        guard let account = try transaction.account(id) else {
            throw Failure(.notFound, "There is no such account.")
        }
        return account
    }
}

private struct AccountRow: Sendable {
    let account: Account
    let volumes: Int64
    let devices: Int64
}

extension LedgerTransaction {
    fileprivate func accountRows(limit: Int) throws -> [AccountRow] {
        try accounts().prefix(limit).map { account in
            let volumes = try row(
                "SELECT count(*) FROM volumes WHERE account = $1", [.id(account.id)])
            let devices = try self.devices.entries(of: account.id).filter { !$0.isRevoked }
            return AccountRow(
                account: account, volumes: try volumes?.integer(0) ?? 0,
                devices: Int64(devices.count))
        }
    }
}
