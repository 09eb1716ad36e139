import Hub
import HubProtocol
import Model
import Reconcile

/// The alive items in a directory, page by page, in the order of the keys of their names. A page is
/// small in memory, however large the directory is.
struct ChildPages: Sendable {
    let hub: Hub
    let caller: Caller
    let volume: Identifier
    let folder: Identifier
    /// The key of the last name that was read.
    private var after: [UInt8] = []
    private var isAtEnd = false

    private static let rows = 200
    private static let bytes = 1 << 20

    init(
        of folder: Identifier, in volume: Identifier, _ hub: Hub, for caller: Caller
    ) {
        (self.hub, self.caller) = (hub, caller)
        self.volume = volume
        self.folder = folder
    }

    /// Returns the next items; nil at the end.
    ///
    /// - Throws: Also if the account is no member any more.
    mutating func next() async throws -> [ItemState]? {
        guard !isAtEnd else { return nil }
        let (volume, folder, caller, after) = (volume, folder, caller, after)
        let (items, last) = try await hub.ledger.read { transaction in
            _ = try transaction.membership.volume(volume, of: caller, for: .page)
            let rows = try transaction.rows(
                """
                SELECT id, length(state), name_key FROM items
                WHERE volume = $1 AND parent = $2 AND alive = 1 AND name_key > $3
                ORDER BY name_key LIMIT $4
                """,
                [
                    .id(volume), .id(folder), .bytes(after), .integer(Int64(ChildPages.rows)),
                ])
            var (items, bytes, last) = (
                [ItemState](), 0, rows.count < ChildPages.rows ? nil : after
            )
            for row in rows {
                bytes += Int(try row.integer(1))
                if !items.isEmpty, bytes > ChildPages.bytes { break }
                last = try row.bytes(2)
                // The root has itself as its parent.
                guard try row.id(0) != .root, let item = try transaction.item(row.id(0), in: volume)
                else { continue }
                items.append(item)
            }
            let isWhole = try rows.count < ChildPages.rows && rows.last?.bytes(2) == last
            return (items, rows.isEmpty || isWhole ? nil : last)
        }
        isAtEnd = last == nil
        self.after = last ?? []
        return items
    }
}
