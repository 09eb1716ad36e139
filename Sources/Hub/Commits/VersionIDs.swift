import HubProtocol
import Model

/// Refuses operations whose version has the id of another version. A device sends one when it was
/// told something wrong about an item, or when somebody has made the operation up.
struct VersionIDs {
    /// The versions of earlier operations of the group.
    private var named: Set<Identifier> = []

    init() {}

    /// Nil also for a version that the hub has of the same item with the same contents: the
    /// operation was sent before, and applying it again changes nothing.
    mutating func refusal(
        of entry: OperationEntry, in table: inout LedgerTable
    ) throws -> OperationResult.Refusal? {
        guard let revision = entry.change.revision else { return nil }
        let (transaction, volume) = (table.transaction, table.volume)
        guard named.insert(revision.id).inserted else {
            return refusal("Two operations of a group have one version.", revision.id)
        }
        guard let known = try transaction.revision(revision.id, in: volume) else { return nil }
        // Nothing tells what the version is if it is outside of the folder.
        guard try table.sees(version: revision.id),
            known.content == revision.content
        else {
            return refusal("Another version has this version's id.", revision.id)
        }
        let item = try transaction.row(
            "SELECT item FROM revisions WHERE volume = $1 AND id = $2",
            [.id(volume), .id(revision.id)])?.id(0)
        guard try item == transaction.canonical(entry.item, in: volume) else {
            return refusal("This version is another item's.", revision.id)
        }
        return nil
    }

    private func refusal(_ message: String, _ version: Identifier) -> OperationResult.Refusal {
        OperationResult.Refusal(.malformed, message, takenVersion: version)
    }
}
