import HubProtocol
import Model
import Reconcile

/// One page of the items and aliases that changed after a position of the journal, in the journal's
/// order.
package struct ChangesPage: Sendable {
    package var changes: [ItemChange]
    /// The position from which the next page continues; nil on the last page.
    package var next: UInt64?
}

extension LedgerTransaction {
    /// Returns the changes with `after < sequence`: at most `limit`, and about as many bytes as a
    /// page may have. All changes of one sequence number are in the same page, and each page has at
    /// least one. Items that went to the trash up to `gone` are left out.
    package func changes(
        in volume: Identifier, after: UInt64, limit: Int, withoutTrashUpTo gone: UInt64
    ) throws -> ChangesPage {
        try changes(
            in: volume, after: after, limit: limit, withoutTrashUpTo: gone, mayBeLarge: true)
            ?? ChangesPage(changes: [], next: nil)
    }

    /// - Parameter mayBeLarge: If false, the result is nil if a single operation has changed more
    ///   than fits a page.
    func changes(
        in volume: Identifier, after: UInt64, limit: Int, withoutTrashUpTo gone: UInt64,
        mayBeLarge: Bool
    ) throws -> ChangesPage? {
        let sizes = try changedSizes(in: volume, after: after, limit: limit, gone: gone)
        var (end, sum, isCut) = (after, 0, sizes.count >= limit)
        for (index, change) in sizes.enumerated() {
            sum += change.bytes
            guard sum <= HubLimits.pageBytes else {
                isCut = true
                break
            }
            let isLast = index + 1 == sizes.count
            if isLast ? sizes.count < limit : sizes[index + 1].sequence > change.sequence {
                end = change.sequence
            }
        }
        guard isCut else {
            return ChangesPage(
                changes: try changes(in: volume, after: after, upTo: .max, gone: gone), next: nil)
        }
        if end == after, let first = sizes.first?.sequence {
            guard mayBeLarge else { return nil }
            end = first
        }
        return ChangesPage(
            changes: try changes(in: volume, after: after, upTo: end, gone: gone), next: end)
    }

    /// Returns the sizes of the changes in the journal's order without reading their states.
    private func changedSizes(
        in volume: Identifier, after: UInt64, limit: Int, gone: UInt64
    ) throws -> [(sequence: UInt64, bytes: Int)] {
        let items = try rows(
            """
            SELECT sequence, length(state) FROM items
            WHERE volume = $1 AND sequence > $2 AND (alive = 1 OR sequence > $3)
            ORDER BY sequence, id LIMIT $4
            """, [.id(volume), .count(after), .count(gone), .integer(Int64(limit))]
        ).map { (sequence: try $0.count(0), bytes: Int(try $0.integer(1))) }
        let aliases = try rows(
            """
            SELECT sequence FROM aliases WHERE volume = $1 AND sequence > $2
            ORDER BY sequence, id LIMIT $3
            """, [.id(volume), .count(after), .integer(Int64(limit))]
        ).map { (sequence: try $0.count(0), bytes: 32) }
        guard !aliases.isEmpty else { return items }
        return Array((items + aliases).sorted { $0.sequence < $1.sequence }.prefix(limit))
    }

    private func changes(
        in volume: Identifier, after: UInt64, upTo: UInt64, gone: UInt64
    ) throws -> [ItemChange] {
        var found: [(UInt64, ItemChange)] = try rows(
            """
            SELECT sequence, id, state FROM items
            WHERE volume = $1 AND sequence > $2 AND sequence <= $3 AND (alive = 1 OR sequence > $4)
            ORDER BY sequence, id
            """, [.id(volume), .count(after), .count(upTo), .count(gone)]
        ).map {
            let sequence = try $0.count(0)
            return (sequence, .item(try state($0.bytes(2), $0.id(1), sequence: sequence)))
        }
        let aliases = try rows(
            """
            SELECT sequence, id, target FROM aliases
            WHERE volume = $1 AND sequence > $2 AND sequence <= $3 ORDER BY sequence, id
            """, [.id(volume), .count(after), .count(upTo)]
        ).map { (try $0.count(0), ItemChange.alias(try $0.id(1), of: try $0.id(2))) }
        if !aliases.isEmpty {
            found.append(contentsOf: aliases)
            found.sort { $0.0 < $1.0 }
        }
        return found.map(\.1)
    }
}
