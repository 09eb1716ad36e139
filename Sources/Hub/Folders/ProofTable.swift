import HubProtocol
import Model

/// The chunks that a member of a folder may name in new versions: those that the account has
/// uploaded itself, and those that a version in the folder had when it asked. Otherwise the member
/// could ask by a hash whether something outside has some contents, and read them.
struct ProofTable {
    let transaction: any LedgerTransaction
    let volume: Identifier
    let account: Identifier

    init(_ transaction: any LedgerTransaction, _ volume: Identifier, of account: Identifier) {
        (self.transaction, self.volume, self.account) = (transaction, volume, account)
    }

    func has(_ chunk: Digest) throws -> Bool {
        try transaction.row(
            "SELECT 1 FROM proofs WHERE volume = $1 AND account = $2 AND chunk = $3",
            [.id(volume), .id(account), .digest(chunk)]) != nil
    }

    func add(_ chunks: some Sequence<Digest>, at time: Int64) throws {
        for chunk in chunks {
            try transaction.execute(
                """
                INSERT INTO proofs (volume, account, chunk, since) VALUES ($1, $2, $3, $4)
                ON CONFLICT (volume, account, chunk) DO UPDATE SET since = $4
                """, [.id(volume), .id(account), .digest(chunk), .integer(time)])
        }
    }

    /// Removes the proofs from before `time`. Chunks that no version names are not kept longer
    /// either.
    static func removeAll(
        before time: Int64, in volume: Identifier, _ transaction: any LedgerTransaction
    ) throws {
        try transaction.execute(
            "DELETE FROM proofs WHERE volume = $1 AND since <= $2",
            [.id(volume), .integer(time)])
    }
}
