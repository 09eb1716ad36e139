import Hub
import HubProtocol
import Model
import Reconcile

/// What the ledger says of the past, beside the tables in memory as they were. After each commit it
/// compares one former position of the journal, which follows from the present one.
final class PastTwin {
    private let transaction: any LedgerTransaction
    private let past: PastTable
    private var tables: [(position: UInt64, table: Catalogue)] = []

    init(_ transaction: any LedgerTransaction, volume: Identifier) {
        self.transaction = transaction
        past = PastTable(transaction, volume: volume)
    }

    private struct Entry: Hashable {
        let id: Identifier
        let kind: ItemKind
        let name: String
        let version: Identifier?
    }

    /// Returns what is different.
    func follow(_ table: Catalogue, at head: UInt64) throws -> String? {
        if tables.last?.position != head { tables.append((head, table)) }
        let (position, then) = tables[Int(head &* 7919 % UInt64(tables.count))]
        for directory in [.root] + table.all.filter({ $0.kind == .directory }).map(\.id) {
            let expected = then.children(of: directory).compactMap { then.item($0) }
                .filter(\.life.isAlive)
                .map { Entry(id: $0.id, kind: $0.kind, name: $0.name, version: $0.current?.id) }
            let found = try entries(of: directory, at: position)
            guard found.count == expected.count, Set(found) == Set(expected) else {
                return "directory \(directory.low) at \(position), seen at \(head): \(found), "
                    + "and not \(expected)"
            }
        }
        for item in table.all {
            let place = try past.place(of: item, at: position)
            let expected = then.item(item.id).flatMap { $0.life.isAlive ? $0 : nil }
            guard place?.parent == expected?.placement.parent, place?.name == expected?.name else {
                return "the place of \(item.id.low) at \(position), seen at \(head)"
            }
        }
        return nil
    }

    private func entries(of directory: Identifier, at position: UInt64) throws -> [Entry] {
        var (found, cursor) = ([Entry](), PastCursor?.none)
        repeat {
            let page = try past.page(of: directory, at: position, after: cursor, limit: 3)
            found += try page.items.map { item in
                let version =
                    item.kind.isDocument ? try past.current(of: item.id, at: position)?.id : nil
                return Entry(id: item.id, kind: item.kind, name: item.name, version: version)
            }
            cursor = page.next
        } while cursor != nil
        return found
    }
}
