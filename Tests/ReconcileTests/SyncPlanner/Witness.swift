import Model

@testable import Reconcile

extension Operation {
    var brief: String {
        let words =
            switch change {
            case .create(let new):
                "create \(new.placement.name) in \(new.placement.parent.low) \(new.kind)"
            case .edit(let new): "edit \(new.id.low) on \(new.parents.map(\.low))"
            case .move(let to, let base):
                "move to \(to.name) in \(to.parent.low), base \(base.number)"
            case .resolve(let ids, let new): "resolve \(ids.map(\.low)) \(new?.id.low ?? 0)"
            default: "\(change)"
            }
        return
            "    hub: \(id.device.low)/\(id.epoch)/\(id.number) \(item.low) base \(base): \(words)"
    }
}

extension Adjustment {
    var brief: String {
        let words = steps.map { step in
            switch step {
            case .contents(let revision): "contents \(revision.id.low)"
            case .conflicts(let added, let settled):
                "conflicts +\(added.map(\.id.low)) -\(settled.map(\.low))"
            case .move(let parent, let name): "move to \(name) in \(parent.low)"
            case .make:
                "make \(remote.name) in \(remote.placement.parent.low) "
                    + "\(remote.current?.id.low ?? 0)"
            default: "\(step)"
            }
        }
        return "\(item.low) \(words)"
    }
}

extension DeviceJournal {
    /// Describes an item that takes a name which another item has left on this device, but not at
    /// the hub. The hub would give it its spare name.
    func overtaking(_ operations: [Operation]) -> String? {
        for operation in operations {
            guard let placement = operation.change.placement else { continue }
            for (id, mirror) in mirrors where id != operation.item && unsent.contains(id) {
                guard let base = mirror.base, base.image.isAlive, base.isOf(state),
                    base.image.parent == placement.parent, base.image.name == placement.name,
                    let image = images[id],
                    !image.isAlive || image.parent != placement.parent
                        || image.name != placement.name
                else { continue }
                return "\(operation.item.low) takes a name that \(id.low) has to leave"
            }
        }
        return nil
    }

    /// Describes contents that are to be sent while others of the same item are on their way, which
    /// the hub may refuse.
    func hurrying(_ operations: [Operation]) -> String? {
        let waiting = outbox.filter { $0.operation.change.revision != nil }.map(\.item)
        for operation in operations
        where operation.change.revision != nil && waiting.contains(operation.item) {
            return "contents of \(operation.item.low) are sent before others have arrived"
        }
        return nil
    }
}

/// Remembers what users did, and checks the results.
struct Witness {
    private(set) var fault: String?
    private(set) var coverage: [String: Int] = [:]
    private var made: [Revision] = []
    private var superseded: Set<Identifier> = []
    private var deleted: Set<Identifier> = []
    private var goneContents: Set<Digest> = []
    private var applied: Set<OperationID> = []
    private var hadAccident = false
    private var hadLoss = false
    private var deletions: [OperationID: [ItemState]] = [:]
    /// The hub's table before the operation that is being applied.
    private var before = Catalogue()
    /// A hash of everything that was sent to the hub.
    private(set) var trace: UInt64 = 0xcbf2_9ce4_8422_2325

    mutating func blame(_ text: String) { if fault == nil { fault = text } }
    mutating func count(_ what: String) { coverage[what, default: 0] += 1 }

    mutating func see(_ deed: Deed) {
        if let new = deed.made { made.append(new) }
        superseded.formUnion(deed.superseded)
        deleted.formUnion(deed.deleted)
        let gone = Set(deed.superseded + deed.deleted)
        goneContents.formUnion(made.filter { gone.contains($0.id) }.map(\.content))
    }

    /// - Parameter mayBeKnown: Whether another device may have told the hub of a created item.
    mutating func see(
        _ operation: Operation, _ verdict: Verdict, _ table: Catalogue, mustApply: Bool,
        mayBeKnown: Bool
    ) {
        for byte in operation.encoded { trace = (trace ^ UInt64(byte)) &* 0x100_0000_01b3 }
        // An item that was unified before, and that is created again from the trash, is the unified
        // item.
        let isAgain = table.toldAliases.count { $0 == operation.item } > 1
        if case .create(let new) = operation.change, !hadAccident, !isAgain, !mayBeKnown {
            var table = table
            let parent = table.item(table.canonical(operation.item))?.placement.parent
            if parent != table.canonical(new.placement.parent) {
                blame("\(operation.item.low) is not where it was made")
            }
        }
        if !applied.insert(operation.id).inserted, !hadAccident {
            blame("operation \(operation.id.number) is applied twice")
        }
        if mustApply, verdict != .applied, verdict != .overruled(.alreadyGone) {
            blame("they take turns, and yet \(verdict): \(operation.change)")
        }
        switch verdict {
        case .applied: break
        case .overruled(let reason): count(reason.rawValue)
        case .bounced: count("bounced")
        case .unified: count("unified")
        case .conflict: count("conflict")
        }
    }

    /// Contents that only this device has must not be replaced by what comes from the hub.
    mutating func mayReplace(_ revision: Identifier, _ table: Catalogue) {
        if table.revision(revision) == nil, !superseded.contains(revision),
            !deleted.contains(revision), !hadAccident
        {
            guard let one = made.first(where: { $0.id == revision }), !isGone(one) else { return }
            let content = one.content
            if table.all.contains(where: { $0.versions.contains { $0.content == content } }) {
                return
            }
            blame("version \(revision.low), which only this device had, is overwritten")
        }
    }

    /// Only changes that a user of this device made may be sent.
    mutating func mayTell(
        _ operations: [Operation], _ touched: Set<Identifier>, _ table: Catalogue
    ) {
        guard !hadAccident else { return }
        var table = table
        let known = Set(touched.map { table.canonical($0) })
        for operation in operations where !known.contains(table.canonical(operation.item)) {
            blame("told, and nobody did it: \(operation.item.low) \(operation.change)")
        }
    }

    /// An operation of a device that nobody uses may only repeat what the hub has.
    mutating func mustChangeNothing(_ operation: Operation, _ after: Catalogue) {
        guard before.all != after.all else { return }
        blame("a device that nobody uses has changed something: \(operation.brief)")
    }

    // MARK: Deletions

    /// If an item is deleted on this device in the state that the hub has, it must be deleted at
    /// the hub, unless it changes in the meantime.
    mutating func expect(
        _ operations: [Operation], of journal: DeviceJournal, _ table: Catalogue
    ) {
        for operation in operations {
            guard case .delete = operation.change else { continue }
            var (open, all): ([Identifier], [Identifier]) = ([operation.item], [])
            while let next = open.popLast() {
                all.append(next)
                open += table.children(of: next).filter {
                    table.item($0)?.life.isAlive == true && !all.contains($0)
                }
            }
            let isShown = all.allSatisfy { id in
                guard let item = table.item(id) else { return false }
                return item.life.isAlive && item.sequence <= journal.state.cursor
                    && journal.mirrors[id]?.remote == nil
            }
            if isShown { deletions[operation.id] = all.compactMap(table.item) }
        }
    }

    mutating func willJudge(_ table: Catalogue) { before = table }

    /// - Parameter verdict: The verdict on the deletion that was expected, if nothing of it has
    ///   changed.
    mutating func judge(_ operation: Operation, _ verdict: Verdict, _ after: Catalogue) {
        defer { before = after }
        guard let items = deletions.removeValue(forKey: operation.id), !hadAccident else { return }
        let ids = Set(items.map(\.id))
        let isSame =
            items.allSatisfy { before.item($0.id) == $0 }
            && items.allSatisfy { item in
                before.children(of: item.id).allSatisfy {
                    ids.contains($0) || before.item($0)?.life.isAlive != true
                }
            }
        guard isSame else { return }
        count("deleted as it was seen")
        if verdict != .applied {
            blame("\(operation.item.low) was deleted as it was seen, and yet \(verdict)")
        }
    }

    /// Contents that existed only on a lost disk are lost.
    mutating func forget(except held: Set<Identifier>, restored: Bool) {
        made.removeAll { !held.contains($0.id) }
        hadAccident = true
        if !restored { hadLoss = true }
    }

    /// Whether the revision was replaced or deleted by somebody who had seen it, or has equal
    /// bytes.
    private func isGone(_ one: Revision) -> Bool {
        superseded.contains(one.id) || deleted.contains(one.id)
            || goneContents.contains(one.content)
    }

    mutating func judge(_ table: Catalogue) {
        var (ids, contents) = (Set<Identifier>(), Set<Digest>())
        for item in table.all where item.life.isAlive {
            for version in item.versions {
                ids.formUnion([version.id] + version.equals)
                contents.insert(version.content)
            }
            if !hadLoss {
                for version in item.conflicts {
                    let later = made.first {
                        $0.parents.contains(version.id) && table.revision($0.id) != nil
                    }
                    guard let later else { continue }
                    blame("\(item.id.low) has \(version.id.low) beside \(later.id.low)")
                }
            }
        }
        for one in made where !ids.contains(one.id) && !contents.contains(one.content) {
            if isGone(one) { continue }
            blame("version \(one.id.low) is lost")
        }
    }
}

/// Difficult circumstances of a device.
enum Hardship: String, CaseIterable, Sendable {
    /// Some items cannot be applied to the tree before the end.
    case stuckItems
    /// The hub sometimes refuses contents, and accepts them in the end.
    case quota
    /// Devices cannot read the contents of some conflict versions before the end.
    case missingContents
    /// The hub cannot take the contents of some conflict versions for a while.
    case largeConflicts
    /// Where a crash would happen, a device is signed out of the hub or signed in again.
    case signsOut
    /// Where a crash would happen, a device is signed out, and signed in to the other hub.
    case changesHub
    /// The hub comes back from a backup, also where only one device has a user.
    case restoresHub
    /// Where a crash would happen, a device gets a copy of another one's store.
    case copiesStore
    /// The store of a device comes back from a backup, also where only that device has a user.
    case rollsBack
    /// Some programs replace a version that they have not seen.
    case replacesUnseen
}

extension Set<Hardship> {
    /// Whether something on this device alone prevents that an item is applied.
    func block(_ item: Identifier, _ device: Int) -> Bool {
        contains(.stuckItems) && (Int(item.low) + 2 * device) % 5 == 0
    }

    /// Whether this device cannot read the contents of a conflict version.
    func hide(_ revision: Identifier, _ device: Int) -> Bool {
        contains(.missingContents) && (revision.low / 7 + UInt64(device)) % 8 != 0
    }
}
