import HubProtocol
import Model
import Reconcile

/// Pages of the journal for the members of a folder. They have the positions of the volume's
/// journal, and of its entries only those of the folder, and of what has left it.
struct FolderChanges {
    let transaction: any LedgerTransaction
    let folder: SharedFolder
    /// The entries that one page looks at. Fewer are sent.
    var lookedAt = 16_384

    fileprivate struct Entry {
        enum Kind {
            case item
            case alias(of: Identifier)
            case gone(ItemKind)
        }

        let sequence: UInt64
        let id: Identifier
        let bytes: Int
        let kind: Kind
    }

    /// As `LedgerTransaction.changes`. A page may be empty although others follow.
    func page(
        after: UInt64, limit: Int, withoutTrashUpTo gone: UInt64, mayBeLarge: Bool
    ) throws -> ChangesPage? {
        let (entries, horizon) = try entries(after: after, gone: gone)
        var page: [Entry] = []
        var (bytes, end, isCut) = (0, after, false)
        for group in entries.chunked() {
            let more = group.reduce(0) { $0 + $1.bytes }
            if page.count + group.count > limit || bytes + more > HubLimits.pageBytes {
                guard page.isEmpty else {
                    isCut = true
                    break
                }
                if more > HubLimits.pageBytes, !mayBeLarge { return nil }
            }
            page += group
            bytes += more
            end = group[group.startIndex].sequence
        }
        return ChangesPage(
            changes: try page.compactMap(change), next: isCut ? end : horizon)
    }

    /// The entries of the folder up to a position, in the journal's order.
    ///
    /// - Returns: The position; nil if it is the journal's end.
    private func entries(after: UInt64, gone: UInt64) throws -> ([Entry], UInt64?) {
        let horizon = try horizon(after: after, gone: gone)
        let end = horizon ?? UInt64(Int64.max)
        var scope = FolderScope(transaction, folder)
        var found: [Entry] = []
        for row in try transaction.rows(
            """
            SELECT sequence, id, parent, length(state) FROM items
            WHERE volume = $1 AND sequence > $2 AND sequence <= $3 AND (alive = 1 OR sequence > $4)
            ORDER BY sequence
            """, [.id(folder.volume), .count(after), .count(end), .count(gone)])
        {
            let id = try row.id(1)
            guard id != folder.directory, try scope.holds(row.id(2)) else { continue }
            found.append(
                Entry(
                    sequence: try row.count(0), id: id, bytes: Int(try row.integer(3)), kind: .item)
            )
        }
        for row in try transaction.rows(
            "SELECT sequence, id, target FROM aliases "
                + "WHERE volume = $1 AND sequence > $2 AND sequence <= $3",
            [.id(folder.volume), .count(after), .count(end)])
        {
            let target = try row.id(2)
            guard try scope.contains(target) else { continue }
            found.append(
                Entry(
                    sequence: try row.count(0), id: try row.id(1), bytes: 32,
                    kind: .alias(of: target)))
        }
        for departure in try DepartureTable(transaction, folder).rows(
            after: max(after, gone), upTo: end)
        where try !scope.contains(departure.item) {
            found.append(
                Entry(
                    sequence: departure.sequence, id: departure.item, bytes: 128,
                    kind: .gone(departure.kind)))
        }
        return (
            found.sorted {
                ($0.sequence, $0.id.high, $0.id.low) < ($1.sequence, $1.id.high, $1.id.low)
            }, horizon
        )
    }

    /// The position up to which there are about as many entries as one page looks at; nil if there
    /// are no more.
    private func horizon(after: UInt64, gone: UInt64) throws -> UInt64? {
        let (volume, limit) = (SQLValue.id(folder.volume), Int64(lookedAt))
        func last(_ query: String, _ arguments: [SQLValue]) throws -> UInt64? {
            // The entries of one position are in one page.
            try transaction.row(
                "SELECT sequence FROM \(query) ORDER BY sequence LIMIT 1 OFFSET \(limit - 1)",
                arguments)?.count(0)
        }
        return try [
            last(
                "items WHERE volume = $1 AND sequence > $2 AND (alive = 1 OR sequence > $3)",
                [volume, .count(after), .count(gone)]),
            last("aliases WHERE volume = $1 AND sequence > $2", [volume, .count(after)]),
            last(
                "departures WHERE volume = $1 AND folder = $2 AND sequence > $3",
                [volume, .id(folder.id), .count(max(after, gone))]),
        ].compactMap(\.self).min()
    }

    private func change(_ entry: Entry) throws -> ItemChange? {
        switch entry.kind {
        case .item:
            guard let item = try transaction.item(entry.id, in: folder.volume) else { return nil }
            return .item(FolderScope(transaction, folder).shown(item))
        case .alias(let target): return .alias(entry.id, of: target)
        case .gone(let kind): return .item(.departed(entry.id, kind, at: entry.sequence))
        }
    }
}

extension ItemState {
    /// What devices of a folder's members are told of an item that has left the folder: the same as
    /// of one that was deleted, but neither its name nor what it is now.
    fileprivate static func departed(_ id: Identifier, _ kind: ItemKind, at sequence: UInt64)
        -> ItemState
    {
        let key = NameKey(id.bytes)
        let batch = OperationID(device: .root, epoch: 1, number: sequence)
        return ItemState(
            id: id, kind: kind, target: kind == .symlink ? "-" : nil,
            placement: Placement(
                parent: .root, name: "\(id)", key: key, spare: "\(id)", spareKey: key),
            placedBy: batch, placedAt: Moment(time: 0, device: .root), placedSequence: sequence,
            life: .trashed(batch: batch, sequence: sequence), sequence: sequence)
    }
}

extension [FolderChanges.Entry] {
    /// The entries of each position together.
    fileprivate func chunked() -> [ArraySlice<Element>] {
        var (groups, start) = ([ArraySlice<Element>](), startIndex)
        while start < endIndex {
            let end = self[start...].firstIndex { $0.sequence != self[start].sequence } ?? endIndex
            groups.append(self[start..<end])
            start = end
        }
        return groups
    }
}
