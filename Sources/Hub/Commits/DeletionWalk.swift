import HubProtocol
import Model
import Reconcile

/// The deletion of a directory with very many items, in several transactions. It has the effect of
/// single deletions by the same device of the items in the directory, each before its directory,
/// and decides each item as `Operation.apply` does. Other devices may change items between the
/// transactions: what the device has not seen, and the directories above it, stay.
///
/// If the hub stops, the device sends the operation again, and the walk continues with what is
/// left. All deleted items have the same batch, so they can be restored together.
struct DeletionWalk: Sendable {
    private struct Level: Sendable {
        let directory: Identifier
        /// The device has not seen the directory, so everything in it stays.
        let isUnseen: Bool
        var isKept: Bool
        /// The items that are handled next, the first one last.
        var next: [Identifier] = []
        /// The key of the last name that was read.
        var after = NameKey([])
    }

    private let operation: Operation
    /// The revision that the deletion names.
    private let current: Identifier?
    private var levels: [Level]
    private var hasDeleted = false

    /// Nil if the operation deletes so little that one transaction can do it. A device that still
    /// uses an old id of the directory is told once more that it has another id.
    ///
    /// - Throws: `OperationBound` if that id cannot be used. Nothing was changed then, and what
    ///   follows throws none.
    init?(_ operation: Operation, in table: inout LedgerTable) throws {
        guard case .delete(let current) = operation.change else { return nil }
        let top = try table.canonical(operation.item)
        guard top != .root, let item = try table.item(top), item.kind == .directory,
            item.life.isAlive, try table.hasMore(than: table.steps.deleted, in: top)
        else { return nil }
        if top != operation.item { try table.setAlias(of: operation.item, to: top) }
        self.operation = operation
        self.current = current
        let isUnseen = !operation.hasSeen(item, current: current)
        levels = [Level(directory: top, isUnseen: isUnseen, isKept: isUnseen)]
    }

    /// Continues until the table has done this work.
    ///
    /// - Returns: The verdict; nil if something is left to do.
    mutating func go(in table: inout LedgerTable, until limit: Int) throws -> Verdict? {
        repeat {
            guard var level = levels.last else { return .overruled(.alreadyGone) }
            if level.next.isEmpty {
                let page = try table.aliveChildren(
                    of: level.directory, after: level.after, limit: table.steps.read)
                level.next = page.map(\.id).reversed()
                level.after = page.last?.key ?? level.after
            }
            guard let child = level.next.popLast() else {
                if let verdict = try leave(in: &table) { return verdict }
                continue
            }
            levels[levels.count - 1] = level
            try handle(child, in: level, &table)
        } while table.work < limit
        return nil
    }

    private mutating func handle(
        _ id: Identifier, in level: Level, _ table: inout LedgerTable
    ) throws {
        // It may have been moved or deleted since its id was read.
        guard let item = try table.item(id), item.life.isAlive,
            item.placement.parent == level.directory
        else { return }
        let isUnseen = level.isUnseen || !operation.hasSeen(item, current: nil)
        if isUnseen {
            levels[levels.count - 1].isKept = true
            // The device believes that everything is deleted, so it must receive again what is
            // left.
            try table.resend(id, table.sequence)
        }
        if item.kind == .directory {
            levels.append(Level(directory: id, isUnseen: isUnseen, isKept: isUnseen))
        } else if !isUnseen {
            try delete(item, &table)
        }
    }

    /// Decides a directory after everything in it.
    ///
    /// - Returns: The verdict if it is the one that the operation names.
    private mutating func leave(in table: inout LedgerTable) throws -> Verdict? {
        let level = levels.removeLast()
        let isTop = levels.isEmpty
        guard let item = try table.item(level.directory), item.life.isAlive else {
            return isTop ? .overruled(.alreadyGone) : nil
        }
        if level.isUnseen, !isTop { return nil }
        let isKept =
            try level.isKept || !operation.hasSeen(item, current: isTop ? current : nil)
            || !table.aliveChildren(of: item.id, after: NameKey([]), limit: 1).isEmpty
        if !isKept {
            try delete(item, &table)
        } else {
            try table.resend(item.id, table.sequence)
            if !isTop { levels[levels.count - 1].isKept = true }
        }
        guard isTop else { return nil }
        return isKept ? .overruled(hasDeleted ? .partly : .unseenChange) : .applied
    }

    private mutating func delete(_ item: ItemState, _ table: inout LedgerTable) throws {
        var item = item
        item.life = .trashed(batch: operation.id, sequence: table.sequence)
        item.sequence = table.sequence
        try table.put(item)
        hasDeleted = true
    }
}
