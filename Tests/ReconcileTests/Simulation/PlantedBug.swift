import Model

@testable import Reconcile

/// Bugs that a decision like this one could have. The schedules must find each of them.
enum PlantedBug: String, CaseIterable, Sendable {
    case deletesWhatItHasNotSeen
    case deletesUnseenConflictVersions
    case deletesUnseenThingsInside
    case deletesWhatWasMoved
    case leavesOrphans
    case deleteBeatsEdit
    case deleteIgnoresOwnEdits
    case closesCycles
    case dropsTheLoser
    case mixesContents
    case lastArrivalIsCurrent
    case trustsAnyClock
    case equalContentsConflict
    case forgetsEquals
    case editOfAConflictAddsOne
    case settlesAll
    case settlesNothing
    case givesANameTwice
    case newcomerTakesTheName
    case bouncesWithoutNeed
    case mergesFoldersOnMove
    case mergeLosesWhatIsInside
    case losesAliases
    case olderMoveWins
    case olderValueWins
    case revivesSiblings
    case leavesTheParentInTheTrash
    case restoresWithoutContents
    case restoresOtherBatches
    case appliesTwice
}

/// The decision with one of the bugs.
struct Tampered: Judgement {
    let bug: PlantedBug

    var appliesTwice: Bool { bug == .appliesTwice }

    func apply(_ operation: Operation, to table: inout Catalogue, sequence: UInt64) -> Verdict {
        let before = table
        if let verdict = instead(operation, &table, sequence) { return verdict }
        var tampered = TamperedTable(bug: bug, operation: operation, table: table)
        let verdict = tamper(operation, before).apply(to: &tampered, sequence: sequence)
        table = tampered.table
        afterwards(operation, before, &table)
        return verdict
    }

    // MARK: What it hears

    private func tamper(_ operation: Operation, _ before: Catalogue) -> Operation {
        var (operation, table) = (operation, before)
        let item = before.item(table.canonical(operation.item))
        switch (bug, operation.change) {
        case (.deletesWhatItHasNotSeen, .delete), (.olderValueWins, .attribute):
            operation.base = .max
        case (.olderMoveWins, .move(let placement, let base)):
            operation.change = .move(placement, base: item?.placedBy ?? base)
        case (.editOfAConflictAddsOne, .edit(var revision)):
            revision.parents = revision.parents.filter { item?.current?.isNamed($0) == true }
            operation.change = .edit(revision)
        case (.settlesAll, .resolve(_, let revision)):
            operation.change = .resolve(item?.conflicts.map(\.id) ?? [], revision)
        case (.settlesNothing, .resolve(_, let revision)):
            operation.change = .resolve([], revision)
        default: break
        }
        return operation
    }

    // MARK: What it does instead

    private func instead(
        _ operation: Operation, _ table: inout Catalogue, _ sequence: UInt64
    ) -> Verdict? {
        let id = table.canonical(operation.item)
        guard var item = table.item(id) else { return nil }
        switch (bug, operation.change) {
        case (.deleteBeatsEdit, .edit): return item.life.isAlive ? nil : .overruled(.alreadyGone)
        case (.closesCycles, .move(let placement, _)):
            let parent = table.canonical(placement.parent)
            guard table.isAncestor(id, of: parent) else { return nil }
            item.placement = placement
            item.placement.parent = parent
            table.put(item)
            return .applied
        case (.mergesFoldersOnMove, .move(let placement, _)):
            let parent = table.canonical(placement.parent)
            guard let holder = table.holder(of: placement.key, in: parent), holder != id,
                item.kind == .directory, table.item(holder)?.kind == .directory,
                !table.isAncestor(id, of: holder)
            else { return nil }
            for child in table.children(of: id) {
                var moved = table.item(child)!
                moved.placement.parent = holder
                table.put(moved)
            }
            item.life = .trashed(batch: operation.id, sequence: sequence)
            table.put(item)
            table.setAlias(of: id, to: holder)
            return .unified(into: holder)
        default: return nil
        }
    }

    // MARK: What it adds

    private func afterwards(
        _ operation: Operation, _ before: Catalogue, _ table: inout Catalogue
    ) {
        let id = table.canonical(operation.item)
        switch (bug, operation.change) {
        case (.newcomerTakesTheName, .create), (.newcomerTakesTheName, .move):
            guard var item = table.item(id), item.isBounced,
                let holder = table.holder(of: item.placement.key, in: item.placement.parent),
                var other = table.item(holder)
            else { return }
            other.isBounced = true
            item.isBounced = false
            table.put(other)
            table.put(item)
        case (.revivesSiblings, _):
            for (old, new) in table.changed(since: before) where new.life.isAlive {
                guard let batch = old?.batch else { continue }
                for var other in table.all where other.batch == batch {
                    guard table.item(other.placement.parent)?.life.isAlive == true,
                        table.holder(of: other.nameKey, in: other.placement.parent) == nil,
                        table.alias(of: other.id) == nil
                    else { continue }
                    other.life = .alive
                    table.put(other)
                }
            }
        case (.restoresWithoutContents, .restore):
            for (old, new) in table.changed(since: before)
            where new.id != id && new.life.isAlive && !table.isAncestor(new.id, of: id) {
                if let old { table.put(old) }
            }
        default: break
        }
    }
}

/// The table that the decision reads and writes, with one of the bugs.
private struct TamperedTable: ItemTable {
    let bug: PlantedBug
    let operation: Operation
    var table: Catalogue

    private var isDelete: Bool { if case .delete = operation.change { true } else { false } }

    mutating func item(_ id: Identifier) -> ItemState? {
        guard var item = table.item(id) else { return nil }
        switch bug {
        case .deletesUnseenConflictVersions where isDelete:
            for place in item.conflicts.indices { item.conflicts[place].sequence = 0 }
        case .deletesUnseenThingsInside where isDelete && id != operation.item:
            item.placedSequence = 0
            item.current?.sequence = 0
            for place in item.conflicts.indices { item.conflicts[place].sequence = 0 }
        case .deletesWhatWasMoved where isDelete: item.placedSequence = 0
        case .deleteIgnoresOwnEdits where isDelete: item.current?.recordedBy = nil
        case .leavesTheParentInTheTrash where id != operation.item: item.life = .alive
        case .equalContentsConflict:
            for place in item.conflicts.indices {
                item.conflicts[place].content = unlike(item.conflicts[place])
            }
            if let current = item.current { item.current?.content = unlike(current) }
        case .restoresOtherBatches:
            if case .restore = operation.change, case .trashed(_, let sequence) = item.life {
                item.life = .trashed(batch: operation.id, sequence: sequence)
            }
        default: break
        }
        return item
    }

    private func unlike(_ revision: Revision) -> Digest {
        Digest(.sha256, words: (revision.id.low, 1, 1, 1))
    }

    mutating func alias(of id: Identifier) -> Identifier? {
        bug == .losesAliases ? nil : table.alias(of: id)
    }

    mutating func holder(of key: NameKey, in parent: Identifier) -> Identifier? {
        switch bug {
        case .givesANameTwice: nil
        case .bouncesWithoutNeed where key.bytes.count == 1:
            table.holder(of: key, in: parent) ?? table.children(of: parent).first
        default: table.holder(of: key, in: parent)
        }
    }

    mutating func children(of parent: Identifier) -> [Identifier] {
        if bug == .mergeLosesWhatIsInside, !isDelete { return [] }
        return table.children(of: parent)
    }

    mutating func revision(_ id: Identifier) -> Revision? {
        if bug == .trustsAnyClock, var revision = table.revision(id) {
            revision.moment.time = -1
            return revision
        }
        return table.revision(id)
    }

    mutating func put(_ item: ItemState) {
        var item = item
        let old = table.item(item.id)
        restore(&item, old)
        switch bug {
        case .leavesOrphans where isDelete && item.id != operation.item: return
        case .dropsTheLoser: item.conflicts = []
        case .forgetsEquals:
            item.current?.equals = []
            for place in item.conflicts.indices { item.conflicts[place].equals = [] }
        case .mixesContents:
            if let other = item.conflicts.first { item.current?.content = other.content }
        case .lastArrivalIsCurrent:
            var all = item.versions
            if let last = all.indices.max(by: { all[$0].sequence < all[$1].sequence }) {
                item.current = all.remove(at: last)
                item.conflicts = all
            }
        default: break
        }
        table.put(item)
    }

    /// Writes back the stored values that were only shown differently.
    private func restore(_ item: inout ItemState, _ old: ItemState?) {
        guard let old else { return }
        switch bug {
        case .deletesUnseenConflictVersions where isDelete,
            .deletesUnseenThingsInside where isDelete, .deletesWhatWasMoved where isDelete,
            .deleteIgnoresOwnEdits where isDelete:
            item.placedSequence = old.placedSequence
            (item.current, item.conflicts) = (old.current, old.conflicts)
        case .equalContentsConflict:
            for place in item.conflicts.indices { mend(&item.conflicts[place]) }
            if item.current != nil { mend(&item.current!) }
        default: break
        }
    }

    private func mend(_ revision: inout Revision) {
        if let known = table.revision(revision.id) { revision.content = known.content }
    }

    mutating func setAlias(of id: Identifier, to target: Identifier) {
        table.setAlias(of: id, to: target)
    }

    mutating func record(_ revision: Revision, of item: Identifier) {
        table.record(revision, of: item)
    }
}
