import HubProtocol
import Model

/// The owners of a hub: accounts that administer it on its pages. `concord hub user owner` makes
/// an account one, so only somebody who can write the hub's directory decides about that.
package enum Owners {
    private static func fact(_ account: Identifier) -> String { "owner-\(account)" }

    package static func contains(_ account: Identifier, _ transaction: any LedgerTransaction)
        throws -> Bool
    {
        try transaction.fact(fact(account)) != nil
    }

    static func set(
        _ account: Identifier, _ isOwner: Bool, _ transaction: any LedgerTransaction
    ) throws {
        if isOwner {
            try transaction.setFact(fact(account), 1)
        } else {
            try transaction.removeFact(fact(account))
        }
    }
}

extension Administration {
    /// - Throws: `.notFound`.
    package func setOwner(_ name: String, _ isOwner: Bool) async throws {
        try await ledger.write { transaction in
            guard let account = try transaction.account(named: name) else {
                throw VolumeError(
                    .notFound, "There is no user \(name): concord hub user list shows who there is."
                )
            }
            try Owners.set(account.id, isOwner, transaction)
        }
    }
}
