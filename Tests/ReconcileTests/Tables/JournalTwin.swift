import Journal
import Model

@testable import Reconcile
@testable import Sync

/// A device's journal in SQLite beside the one in memory. Writes go to both, and each question of
/// the exchange is asked of both.
final class JournalTwin {
    /// A planted fault of the tables, to show that it would be found.
    enum Plant: String, CaseIterable, Sendable {
        case keepsTheOutbox, readdressesNothing, forgetsNoRemote, stuckIsNotDue
    }

    private let journal: Transaction
    private let account: Account
    private let clock = HubClock()
    private let plant: Plant?
    /// The first answer that differed.
    private(set) var fault: String?
    private var shown: [Identifier: Image] = [:]
    private var unsent: Set<Identifier> = []
    private var session: Session?
    private var treeChanges = -1

    init(_ journal: Transaction, device: Identifier, plant: Plant? = nil) throws {
        self.journal = journal
        self.plant = plant
        account = Account(
            address: try HubAddress("http://localhost:1"), token: "", user: "", account: .root,
            device: device, deviceName: "", volume: .root, volumeName: "",
            keys: VolumeKeys(
                chunks: Array(repeating: 0, count: 32), names: Array(repeating: 0, count: 32)))
    }

    /// A new one for each call, so that it keeps nothing of what it has read.
    private var table: JournalTable {
        JournalTable(journal: journal, account: account, clock: clock, tree: -1)
    }

    private func blame(_ text: String) { if fault == nil { fault = "the journal: \(text)" } }

    private func attempt(_ what: String, _ body: () throws -> Void) {
        guard fault == nil else { return }
        do { try body() } catch { blame("\(what): \(error)") }
    }

    // MARK: What the exchange asks and writes

    func compare<Answer: Equatable>(
        _ what: String, _ expected: Answer, with device: DeviceJournal,
        _ ask: (inout JournalTable) throws -> Answer
    ) {
        attempt(what) {
            try show(device)
            var table = table
            let answer = try ask(&table)
            if answer != expected { blame("\(what) is \(answer), and not \(expected)") }
        }
    }

    func write(
        _ what: String, with device: DeviceJournal, _ body: (inout JournalTable) throws -> Void
    ) {
        attempt(what) {
            try show(device)
            var table = table
            try body(&table)
            try table.flush()
        }
    }

    func emptyOutbox(with device: DeviceJournal) {
        write("the outbox", with: device) { [plant] table in
            // An old fault: -1 was bound for the largest number.
            if plant == .keepsTheOutbox { return }
            try table.emptyOutbox()
        }
    }

    func forgetRemotes(with device: DeviceJournal) {
        if plant == .forgetsNoRemote { return }
        write("forgetting what the hub said", with: device) { try $0.forgetRemotes() }
    }

    func add(unsent id: Identifier, changed times: ChangeTimes, with device: DeviceJournal) {
        write("adding unsent", with: device) { try $0.addUnsent(id, changed: times) }
        if device.images[id] != nil { unsent.insert(id) }
    }

    func remove(unsent id: Identifier, with device: DeviceJournal) {
        write("removing unsent", with: device) { try $0.removeUnsent(id) }
        unsent.remove(id)
    }

    func firstDue(_ table: inout JournalTable) throws -> UInt64? {
        guard plant == .stuckIsNotDue else { return try table.firstDue() }
        return try journal.hub.firstMirror(.due)
    }

    /// - Parameter after: The state in memory after the change.
    func reidentify(
        _ id: Identifier, as other: Identifier, from before: DeviceJournal,
        to after: DeviceJournal
    ) {
        let outbox = plant == .readdressesNothing ? try? journal.hub.outbox(limit: .max) : nil
        write("giving another id", with: before) { try $0.reidentify(id, as: other) }
        attempt("giving another id") {
            if let outbox {
                try journal.removeOutbox(upTo: UInt64(Int64.max))
                for row in outbox { try journal.append(row) }
            }
            (shown, unsent, treeChanges) = (after.images, after.unsent, after.treeChanges)
            try compareAll(after)
        }
    }

    func compareAll(with device: DeviceJournal) {
        attempt("all of it") { try compareAll(device) }
    }

    /// Compares everything in both.
    private func compareAll(_ device: DeviceJournal) throws {
        try show(device)
        let table = table
        for (id, image) in device.images {
            let answer = try table.local(id)?.asAsked
            if answer != device.shown(id)?.asAsked {
                blame("\(id.low) is \(String(describing: answer)), and not \(image)")
            }
            if try table.mirror(id) != device.mirrors[id] { blame("the mirror of \(id.low)") }
            if try table.isUnsent(id) != device.unsent.contains(id) { blame("unsent \(id.low)") }
        }
        let outbox = try journal.hub.outbox(limit: .max)
        if outbox.map(\.number) != device.outbox.map(\.operation.id.number)
            || outbox.map(\.item) != device.outbox.map(\.item)
            || outbox.map(\.operation) != device.outbox.map(\.operation.encoded)
        {
            blame("the outbox has \(outbox.map(\.number))")
        }
        let due = try [MirrorRow.State.due, .stuck].flatMap {
            try journal.hub.mirrors($0, limit: .max)
        }
        .sorted { ($0.sequence, $0.id.low) < ($1.sequence, $1.id.low) }.map(\.id)
        if due != device.due { blame("due are \(due.map(\.low))") }
    }

    // MARK: The tree

    /// Begins again with the device's present state, because it was rolled back.
    func begin(with device: DeviceJournal) {
        attempt("beginning") {
            try journal.leaveHub()
            for id in try journal.hub.mirrorIDs(after: .root, limit: .max) {
                try journal.removeMirror(id)
            }
            try journal.removeMirror(.root)
            var items: [Item] = []
            try journal.forEachItem { if $0.key != Item.root { items.append($0) } }
            for var item in items {
                for version in try journal.versions(of: item.key) {
                    try journal.remove(version: version.id)
                }
                (item.parent, item.deleted) = (Item.root, 0)
                try journal.update(item)
            }
            for item in items { try journal.removeRow(item.key) }
            (shown, unsent, session, treeChanges) = ([:], [], nil, -1)
            try show(device)
            let table = table
            for (id, mirror) in device.mirrors { try table.setMirror(id, mirror) }
            for (item, operation) in device.outbox {
                try journal.append(
                    OutboxRow(
                        number: operation.id.number, item: item, operation: operation.encoded))
            }
            try compareAll(device)
        }
    }

    /// Writes what users, programs and the applier have done since the last call.
    private func show(_ device: DeviceJournal) throws {
        if session != device.state {
            session = device.state
            let table = table
            table.set(device.state)
            try table.flush()
        }
        guard treeChanges != device.treeChanges else { return }
        treeChanges = device.treeChanges
        let changed = device.ids.filter { device.images[$0] != shown[$0] }
        // Names are unique at any time, and two items may have exchanged theirs.
        for id in changed {
            guard var item = try journal.item(id: id), item.deleted == nil else { continue }
            item.name = Name("~\(item.key)")
            try journal.update(item)
        }
        for id in changed { try place(id, device, []) }
        for id in changed { try show(device.images[id]!, id, device) }
        shown = device.images
        for id in device.unsent.symmetricDifference(unsent) {
            guard let key = try journal.key(of: id) else { continue }
            if device.unsent.contains(id) {
                try journal.addUnsent(key)
            } else {
                try journal.removeUnsent(key)
            }
        }
        unsent = device.unsent
    }

    /// Inserts an item with a temporary name in a directory that exists.
    private func place(_ id: Identifier, _ device: DeviceJournal, _ above: Set<Identifier>) throws {
        guard let image = device.images[id], try journal.key(of: id) == nil, !above.contains(id)
        else { return }
        if image.parent != .root { try place(image.parent, device, above.union([id])) }
        try journal.insert(
            Item(
                id: id, parent: Item.root, name: Name("~\(id)"), kind: Item.Kind(image.kind)))
    }

    private func show(_ image: Image, _ id: Identifier, _ device: DeviceJournal) throws {
        guard var item = try journal.item(id: id) else { return }
        item.parent = try table.key(of: image.parent) ?? Item.root
        item.name = Name(image.name)
        item.kind = Item.Kind(image.kind)
        item.deleted = image.isAlive ? nil : 1
        item.mode = image.attributes["mode"].map { UInt16($0[0]) << 8 | UInt16($0[1]) } ?? 0
        let others = image.attributes.filter { $0.key.hasPrefix("x:") }.map {
            AttributeList.Attribute(name: Array($0.key.dropFirst(2).utf8), value: $0.value)
        }
        item.attributes = AttributeList(others).encoded
        item.current = image.revision
        for revision in image.conflicts + [image.revision].compactMap(\.self) {
            try record(revision, of: &item, device)
        }
        try journal.update(item)
        let conflicts = Set(try journal.conflicts(of: item.key))
        for gone in conflicts.subtracting(image.conflicts) { try journal.setKind(gone, .history) }
        for new in Set(image.conflicts).subtracting(conflicts) {
            try journal.setKind(new, .conflict)
        }
    }

    /// Records a version together with those that it was made from.
    private func record(_ id: Identifier, of item: inout Item, _ device: DeviceJournal) throws {
        guard try journal.version(id: id) == nil, let revision = device.revisions[id] else {
            return
        }
        for parent in revision.parents { try record(parent, of: &item, device) }
        var version = Version(revision, content: .keyed(revision.content), kind: .history)
        item.latest += 1
        version.number = item.latest
        version.saved = revision.moment.time
        version.durability = .disk
        try journal.insert(version, of: item.key, manifest: [])
    }
}

extension Image {
    /// Only these fields of a deleted item are ever asked for.
    var asAsked: Image {
        guard !isAlive else { return self }
        var image = self
        (image.attributes, image.conflicts) = ([:], [])
        return image
    }
}

extension Revision {
    /// A version as a device has recorded it. The hub sends less about a version than the recording
    /// device knows.
    func asRecorded(here isHere: Bool) -> Revision {
        guard isHere else {
            let never = Moment(time: 0, device: .root)
            return Revision(id: id, parents: [], content: content, size: size, moment: never)
        }
        return Revision(id: id, parents: parents, content: content, size: size, moment: moment)
    }
}
