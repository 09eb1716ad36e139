import Model

@testable import Reconcile

/// An observer that knows everything and is not part of the protocol: which revisions were ever
/// made, who superseded them, and who saw their deletion. It checks each operation in the hub's
/// journal.
struct Ghost {
    private struct Made {
        var content: Digest
        var parents: [Identifier]
        var moment: Moment
    }

    private var made: [Identifier: Made] = [:]
    private var order: [Identifier] = []
    private var superseded: Set<Identifier> = []
    private var seenGoing: Set<Identifier> = []
    private var applied: Set<OperationID> = []
    private(set) var fault: String?
    var coverage: [String: Int] = [:]

    mutating func blame(_ text: String) { if fault == nil { fault = text } }
    mutating func count(_ what: String, _ number: Int = 1) { coverage[what, default: 0] += number }

    // MARK: Each operation

    /// - Parameter isAlone: Whether no other device did anything that the operation's device had
    ///   not seen.
    mutating func judge(
        _ operation: Operation, _ verdict: Verdict, from before: Catalogue, to after: Catalogue,
        isAlone: Bool
    ) {
        if !applied.insert(operation.id).inserted { blame("\(operation.id.number) applied twice") }
        if isAlone, verdict != .applied {
            if case .restore = operation.change, verdict == .bounced {
            } else {
                blame("alone, and yet \(verdict): \(operation.change)")
            }
        }
        note(operation, before, after)
        judgeSteps(operation, verdict, before, after)
        judgeTree(after)
        judgeVersions(after)
        cover(operation, verdict, before, after)
    }

    private mutating func note(_ operation: Operation, _ before: Catalogue, _ after: Catalogue) {
        if let revision = operation.change.revision, made[revision.id] == nil {
            let recorded = after.revision(revision.id)
            made[revision.id] = Made(
                content: revision.content, parents: revision.parents,
                moment: recorded?.moment ?? operation.moment)
            order.append(revision.id)
            for parent in revision.parents {
                supersede(parent, of: operation.item, before)
                if let older = made[parent], let recorded, recorded.moment <= older.moment {
                    blame("\(revision.id.low) is older than what it was made from")
                }
            }
        }
        if case .resolve(let settled, let revision) = operation.change {
            var table = after
            let item = after.item(table.canonical(operation.item))
            for id in settled {
                // It stays if nothing else is left, or if it stands for more than was seen.
                if revision == nil,
                    let left = item?.versions.first(where: { $0.isNamed(id) }),
                    !left.equals.isEmpty || item?.conflicts == []
                {
                    continue
                }
                supersede(id, of: operation.item, before)
            }
        }
        if case .delete(let named) = operation.change {
            for (old, new) in after.changed(since: before) where old?.life.isAlive == true {
                guard new.batch == operation.id, let old else { continue }
                for version in old.versions where saw(operation, version, named) {
                    seenGoing.formUnion([version.id] + version.equals)
                }
            }
        }
    }

    private func saw(_ operation: Operation, _ version: Revision, _ named: Identifier?) -> Bool {
        version.sequence <= operation.base
            || version.recordedBy.map { isOwn($0, operation) } ?? false
            || named.map(version.isNamed) ?? false
    }

    private func isOwn(_ other: OperationID, _ operation: Operation) -> Bool {
        other.device == operation.id.device && other.epoch == operation.id.epoch
    }

    private mutating func supersede(
        _ id: Identifier, of item: Identifier, _ before: Catalogue
    ) {
        superseded.insert(id)
        var table = before
        for version in before.item(table.canonical(item))?.versions ?? []
        where version.isNamed(id) { superseded.formUnion([version.id] + version.equals) }
    }

    // MARK: What an operation may do

    private mutating func judgeSteps(
        _ operation: Operation, _ verdict: Verdict, _ before: Catalogue, _ after: Catalogue
    ) {
        var (table, later) = (before, after)
        let target = table.canonical(operation.item)
        for (old, new) in after.changed(since: before) {
            guard let old else { continue }
            if new.placedAt < old.placedAt { blame("\(new.id.low) was placed earlier now") }
            for (name, register) in old.attributes
            where new.attributes[name]!.moment < register.moment {
                blame("\(new.id.low) has an older value of \(name)")
            }
            switch (old.life.isAlive, new.life.isAlive) {
            case (true, false):
                if new.batch != operation.id || !table.isAncestor(target, of: new.id) {
                    blame("\(new.id.low) was not deleted, and is")
                }
                if old.placedSequence > operation.base, !isOwn(old.placedBy, operation) {
                    blame("\(new.id.low) is deleted by one who had not seen it there")
                }
            case (false, true): judgeRevival(operation, old, target, before, after)
            case (true, true):
                if new.id != target, new.name != old.name || isElsewhere(old, new) {
                    blame("\(new.id.low) was not moved, and is")
                }
            case (false, false): break
            }
        }
        for (id, _) in after.aliases where before.aliases[id] == nil {
            if before.item(id)?.life.isAlive == true { blame("\(id.low) is merged alive") }
        }
        judgeOrder(operation, verdict, before.item(target))
        if case .restore = operation.change, let old = before.item(target), let batch = old.batch {
            for item in before.all where item.batch == batch {
                guard later.isAncestor(target, of: item.id) else { continue }
                if later.item(item.id)!.life.isAlive || after.aliases[item.id] != nil { continue }
                blame("\(item.id.low) is not restored")
            }
        }
        if case .delete = operation.change, verdict == .applied,
            after.item(target)?.life.isAlive == true
        {
            blame("deleted, and alive")
        }
    }

    private func isElsewhere(_ old: ItemState, _ new: ItemState) -> Bool {
        old.placement.parent != new.placement.parent
    }

    private mutating func judgeRevival(
        _ operation: Operation, _ old: ItemState, _ target: Identifier, _ before: Catalogue,
        _ after: Catalogue
    ) {
        var table = after
        if table.isAncestor(old.id, of: target) { return }
        if table.isAncestor(old.id, of: table.canonical(operation.item)) { return }
        switch operation.change {
        case .move(let placement, _):
            if table.isAncestor(old.id, of: table.canonical(placement.parent)) { return }
            fallthrough
        case .restore:
            let batch = before.item(target)?.batch
            if batch != nil, old.batch == batch, table.isAncestor(target, of: old.id) { return }
        default: break
        }
        blame("\(old.id.low) comes back, and nobody asked")
    }

    /// An older value must not win over a newer one that it has not seen.
    private mutating func judgeOrder(
        _ operation: Operation, _ verdict: Verdict, _ old: ItemState?
    ) {
        guard let old else { return }
        switch operation.change {
        case .move(_, let base):
            if base != old.placedBy, operation.moment < old.placedAt,
                verdict == .applied || verdict == .bounced
            {
                blame("an older move of \(old.id.low) wins")
            }
        case .attribute(let name, _):
            guard let register = old.attributes[name], register.sequence > operation.base else {
                return
            }
            if register.moment.device != operation.id.device, operation.moment < register.moment,
                verdict == .applied
            {
                blame("an older value of \(name) wins")
            }
        default: break
        }
    }

    // MARK: What must hold always

    mutating func judgeTree(_ table: Catalogue) {
        if let text = disorder(in: table) { blame(text) }
    }

    private mutating func judgeVersions(_ table: Catalogue) {
        for item in table.all {
            let versions = item.versions
            for (place, version) in versions.enumerated() {
                for id in [version.id] + version.equals where made[id]?.content != version.content {
                    blame("\(item.id.low) has mixed contents in \(id.low)")
                }
                for other in versions[..<place] where other.content == version.content {
                    blame("\(item.id.low) has the same contents twice")
                }
                if versions.count > 1, superseded.contains(version.id) {
                    blame("\(item.id.low) has \(version.id.low) beside what came of it")
                }
            }
            if let current = item.current,
                item.conflicts.contains(where: { current.moment < $0.moment })
            {
                blame("the current version of \(item.id.low) is not the newest")
            }
        }
    }

    /// Each version that was ever made exists, or was replaced or deleted by somebody who had seen
    /// it.
    mutating func judgeLosses(_ table: Catalogue) {
        var (alive, trashed) = (Set<Identifier>(), Set<Identifier>())
        for item in table.all {
            for id in item.versions.flatMap({ [$0.id] + $0.equals }) {
                if item.life.isAlive { alive.insert(id) } else { trashed.insert(id) }
            }
        }
        for id in order where !alive.contains(id) && !superseded.contains(id) {
            if trashed.contains(id), seenGoing.contains(id) { continue }
            blame("version \(id.low) is lost, \(trashed.contains(id) ? "in the trash" : "gone")")
        }
    }

    // MARK: Coverage

    private mutating func cover(
        _ operation: Operation, _ verdict: Verdict, _ before: Catalogue, _ after: Catalogue
    ) {
        switch verdict {
        case .applied: break
        case .bounced: count("bounced")
        case .conflict: count("conflict")
        case .overruled(let reason): count(reason.rawValue)
        case .unified(let id): count(after.item(id)!.kind.isDocument ? "oneFile" : "oneFolder")
        }
        for (id, _) in after.aliases where before.aliases[id] == nil && before.item(id) != nil {
            count("merged")
        }
        for (old, new) in after.changed(since: before) {
            if old?.life.isAlive == false, new.life.isAlive { count("revived") }
            if new.isBounced, new.nameKey.bytes.count == 16 {
                count("bouncedTwice")
            }
            let equals = new.versions.reduce(0) { $0 + $1.equals.count }
            if equals > old?.versions.reduce(0, { $0 + $1.equals.count }) ?? 0 { count("equal") }
        }
    }
}

/// Describes where the table is not a tree.
func disorder(in table: Catalogue) -> String? {
    let all = table.all
    for item in all {
        var (above, left) = (item, all.count)
        while above.id != .root {
            guard let parent = table.item(above.placement.parent) else {
                return "\(above.id.low) is in nothing"
            }
            if above.life.isAlive, !parent.life.isAlive { return "\(above.id.low) is in the trash" }
            if parent.kind != .directory { return "\(above.id.low) is in a file" }
            above = parent
            left -= 1
            if left < 0 { return "\(item.id.low) is in itself" }
        }
        guard item.life.isAlive else { continue }
        for other in all where other.id.low < item.id.low && other.life.isAlive {
            if other.placement.parent == item.placement.parent, other.nameKey == item.nameKey {
                return "\(other.id.low) and \(item.id.low) have one name"
            }
        }
    }
    return nil
}
