import HubProtocol
import Model

/// Refuses operations whose version has the id of another version. A device sends one when it was
/// told something wrong about an item, or when somebody has made the operation up.
struct VersionIDs {
    private let transaction: any LedgerTransaction
    private let volume: Identifier
    /// What the sender sees; nil if it is the whole volume.
    private var scope: FolderScope?
    /// The versions of earlier operations of the group.
    private var named: Set<Identifier> = []

    init(_ transaction: any LedgerTransaction, volume: Identifier, _ folder: SharedFolder?) {
        self.transaction = transaction
        self.volume = volume
        scope = folder.map { FolderScope(transaction, $0) }
    }

    /// Nil also for a version that the hub has of the same item with the same contents: the
    /// operation was sent before, and applying it again changes nothing.
    mutating func refusal(of entry: OperationEntry) throws -> OperationResult.Refusal? {
        guard let revision = entry.change.revision else { return nil }
        guard named.insert(revision.id).inserted else {
            return refusal("Two operations of a group have one version.", revision.id)
        }
        guard let known = try transaction.revision(revision.id, in: volume) else { return nil }
        // Nothing tells what the version is if it is outside of the folder.
        guard try scope?.contains(version: revision.id) ?? true,
            known.content == revision.content
        else {
            return refusal("Another version has this version's id.", revision.id)
        }
        guard try item(of: revision.id) == transaction.canonical(entry.item, in: volume) else {
            return refusal("This version is another item's.", revision.id)
        }
        return nil
    }

    private func refusal(_ message: String, _ version: Identifier) -> OperationResult.Refusal {
        OperationResult.Refusal(.malformed, message, takenVersion: version)
    }

    private func item(of version: Identifier) throws -> Identifier? {
        try transaction.row(
            "SELECT item FROM revisions WHERE volume = $1 AND id = $2",
            [.id(volume), .id(version)])?.id(0)
    }
}
