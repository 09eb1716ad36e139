import Model

@testable import Reconcile

/// A device's tree and journal in memory. Everything in it counts as written to the disk.
struct DeviceJournal: DeviceTable {
    var state: Session
    var images: [Identifier: Image] = [:] { didSet { treeChanges += 1 } }
    var revisions: [Identifier: Revision] = [:]
    var mirrors: [Identifier: Mirror] = [:]
    var unsent: Set<Identifier> = [] { didSet { treeChanges += 1 } }
    var times: [Identifier: ChangeTimes] = [:]
    var outbox: [(item: Identifier, operation: Operation)] = []
    /// The hub's position when this device began. What was in the trash then is left out.
    var joinedAt: UInt64 = 0
    var clock: Int64 = 0
    /// Whether its user also gives an item the name of another item, which is removed or exchanged,
    /// and makes symbolic links.
    var takesNames = false
    /// Whether programs replace documents that they have not seen (`Hardship.replacesUnseen`).
    var replacesUnseen = false
    /// Whether the hub cannot take some conflict versions for a while.
    var holdsBack = false
    /// The items that got another id.
    private(set) var renamed: [Identifier: Identifier] = [:]
    /// A copy in SQLite, for the tests that check the tables, too.
    var twin: JournalTwin?
    private(set) var treeChanges = 0

    init(device: Int, volumeEpoch: Identifier) {
        state = Session(device: .device(device), epoch: 1, volumeEpoch: volumeEpoch)
    }

    /// In the order of their ids, so that a schedule always runs alike.
    var ids: [Identifier] { images.keys.sorted { $0.low < $1.low } }
    var alive: [Identifier] { ids.filter { images[$0]!.isAlive } }
    var toSend: [Identifier] { unsent.sorted { $0.low < $1.low } }
    var due: [Identifier] {
        mirrors.filter { $0.value.state == .due || $0.value.state == .stuck }
            .map { ($0.value.since, $0.key) }
            .sorted { ($0.0, $0.1.low) < ($1.0, $1.1.low) }.map(\.1)
    }

    var underway: [Identifier] { mirrors.filter { $0.value.state == .underway }.map(\.key) }

    func session() -> Session {
        twin?.compare("the session", state, with: self) { try $0.session() }
        return state
    }
    mutating func set(_ session: Session) {
        state = session
        twin?.write("the session", with: self) { try $0.set(session) }
    }

    // MARK: The tree

    /// The item as the journal shows it.
    func shown(_ id: Identifier) -> Image? {
        guard var image = images[id] else { return nil }
        let revision = image.kind == .file && image.isAlive ? image.revision : nil
        image.modified = revision.flatMap { revisions[$0]?.note.modified }
        return image
    }

    func local(_ id: Identifier) -> Image? {
        let image = shown(id)
        twin?.compare("the image of \(id.low)", image?.asAsked, with: self) {
            try $0.local(id)?.asAsked
        }
        return image
    }

    func localChild(_ name: String, in parent: Identifier) -> Identifier? {
        let found = child(name, in: parent)
        twin?.compare("\(name) in \(parent.low)", found, with: self) {
            try $0.localChild(name, in: parent)
        }
        return found
    }

    func document(with revision: Identifier) -> Identifier? {
        images.filter { _, image in
            guard let current = image.revision else { return false }
            return image.conflicts.contains(revision) || reaches(current, revision)
        }.keys.min { $0.low < $1.low }
    }

    func child(_ name: String, in parent: Identifier) -> Identifier? {
        children(of: parent).first { images[$0]!.name == name }
    }

    func hasLocalChildren(_ parent: Identifier) -> Bool {
        let isAny = !children(of: parent).isEmpty
        twin?.compare("whether \(parent.low) holds anything", isAny, with: self) {
            try $0.hasLocalChildren(parent)
        }
        return isAny
    }

    func children(of parent: Identifier) -> [Identifier] {
        images.filter { $0.value.isAlive && $0.value.parent == parent }.keys
            .sorted { $0.low < $1.low }
    }

    /// A short text for people.
    func brief(_ id: Identifier) -> String {
        guard let image = images[id] else { return "\(id.low)" }
        let life = image.isAlive ? "" : ", gone"
        return "\(id.low) \(image.kind) \(image.name) in \(image.parent.low)\(life)"
    }

    func isAncestor(_ id: Identifier, of other: Identifier) -> Bool {
        var (next, left) = (other, images.count)
        while next != .root, left >= 0 {
            if next == id { return true }
            next = images[next]?.parent ?? .root
            left -= 1
        }
        return false
    }

    func revision(_ id: Identifier) -> Revision? {
        let revision = revisions[id]
        let isHere = revision?.recordedBy == nil
        twin?.compare("version \(id.low)", revision?.asRecorded(here: isHere), with: self) {
            try $0.revision(id)?.asRecorded(here: isHere)
        }
        return revision
    }

    mutating func setModified(_ time: Int64, of revision: Identifier) {
        revisions[revision]?.note.modified = time
        twin?.write("a time", with: self) { try $0.setModified(time, of: revision) }
    }

    func descends(_ id: Identifier, from ancestor: Identifier, of item: Identifier) -> Bool {
        let isSo = reaches(id, ancestor)
        twin?.compare("whether \(id.low) is of \(ancestor.low)", isSo, with: self) {
            try $0.descends(id, from: ancestor, of: item)
        }
        return isSo
    }

    private func reaches(_ id: Identifier, _ ancestor: Identifier) -> Bool {
        var (open, seen) = ([id], Set<Identifier>())
        while let next = open.popLast() {
            if next == ancestor { return true }
            if seen.insert(next).inserted { open += revisions[next]?.parents ?? [] }
        }
        return false
    }

    mutating func note(conflicts: [Revision], of id: Identifier) {
        twin?.write("conflict versions", with: self) { try $0.note(conflicts: conflicts, of: id) }
        add(conflicts: conflicts, to: id)
    }

    mutating func makeHistory(_ revision: Identifier, of id: Identifier) {
        twin?.write("a conflict version", with: self) {
            try $0.makeHistory(revision, of: id)
        }
        images[id]?.conflicts.removeAll { $0 == revision }
    }

    mutating func reidentify(_ id: Identifier, as other: Identifier) {
        let before = self
        planner(id, other)
        twin?.reidentify(id, as: other, from: before, to: self)
    }

    /// Exchanges two ids, as the journal does it, where items have keys of their own.
    private mutating func planner(_ id: Identifier, _ other: Identifier) {
        guard images[other]?.isAlive != true, let image = images.removeValue(forKey: id) else {
            return
        }
        images[id] = images[other]
        images[other] = image
        for known in renamed.keys where renamed[known] == id { renamed[known] = other }
        renamed[id] = other
        for child in images.keys where images[child]!.parent == id { images[child]!.parent = other }
        if unsent.remove(id) != nil { unsent.insert(other) }
        (times[id], times[other]) = (times[other], times[id])
        for place in outbox.indices where outbox[place].item == id { outbox[place].item = other }
    }

    // MARK: The mirror

    func mirror(_ id: Identifier) -> Mirror? {
        let mirror = mirrors[id]
        twin?.compare("the mirror of \(id.low)", mirror, with: self) { try $0.mirror(id) }
        return mirror
    }
    mutating func setMirror(_ id: Identifier, _ mirror: Mirror?) {
        mirrors[id] = mirror
        twin?.write("the mirror of \(id.low)", with: self) { try $0.setMirror(id, mirror) }
    }

    mutating func forgetRemotes() {
        for (id, mirror) in mirrors where mirror.remote != nil {
            mirrors[id] = mirror.base.map { Mirror(base: $0) }
        }
        twin?.forgetRemotes(with: self)
    }

    func firstDue() -> UInt64? {
        let first = mirrors.values.filter { $0.state != .settled && $0.state != .refused }
            .map(\.since).min()
        if let twin { twin.compare("the first due", first, with: self) { try twin.firstDue(&$0) } }
        return first
    }

    func notShown(limit: Int) -> [Identifier] {
        let found = mirrors.filter { $0.value.state != .settled && $0.value.state != .refused }
            .sorted { ($0.value.since, $0.key.low) < ($1.value.since, $1.key.low) }.map(\.key)
        twin?.compare("what is not shown", Set(found), with: self) {
            Set(try $0.notShown(limit: limit))
        }
        return Array(found.prefix(limit))
    }

    func agreed(on name: String, in parent: Identifier) -> [Identifier] {
        let found = mirrors.filter { _, mirror in
            guard let image = mirror.imageAtHub(in: state) else { return false }
            return image.isAlive && image.parent == parent && image.name == name
        }.keys.sorted { $0.low < $1.low }
        twin?.compare("who is \(name) in \(parent.low) at the hub", Set(found), with: self) {
            Set(try $0.agreed(on: name, in: parent))
        }
        return found
    }

    // MARK: What is to be sent

    func isUnsent(_ id: Identifier) -> Bool {
        let isSo = unsent.contains(id)
        twin?.compare("unsent \(id.low)", isSo, with: self) { try $0.isUnsent(id) }
        return isSo
    }
    mutating func addUnsent(_ id: Identifier, changed: ChangeTimes) {
        twin?.add(unsent: id, changed: changed, with: self)
        guard images[id] != nil else { return }
        unsent.insert(id)
        times[id] = changed.latest(changeTimes(id))
    }
    mutating func removeUnsent(_ id: Identifier) {
        twin?.remove(unsent: id, with: self)
        unsent.remove(id)
        times[id] = nil
    }
    func changeTimes(_ id: Identifier) -> ChangeTimes { times[id] ?? ChangeTimes() }
    func unsentAlive(limit: Int) -> [Identifier] {
        let found = toSend.filter { images[$0]!.isAlive }
        twin?.compare("unsent", Set(found), with: self) { Set(try $0.unsentAlive(limit: limit)) }
        return found
    }
    func isInOutbox(_ id: Identifier) -> Bool {
        let isSo = outbox.contains { $0.item == id }
        twin?.compare("whether \(id.low) is on its way", isSo, with: self) {
            try $0.isInOutbox(id)
        }
        return isSo
    }
    func isSendingContents(_ id: Identifier) -> Bool {
        let isSo = outbox.contains { $0.item == id && $0.operation.change.revision != nil }
        twin?.compare("whether contents of \(id.low) are on their way", isSo, with: self) {
            try $0.isSendingContents(id)
        }
        return isSo
    }
    func isHeldBack(_ conflict: Identifier) -> Bool {
        holdsBack && (Int64(conflict.low) + clock / 200) % 4 != 0
    }
    func isCreating() -> Bool {
        let isSo = outbox.contains {
            if case .create = $0.operation.change { true } else { false }
        }
        twin?.compare("whether anything is being made", isSo, with: self) { try $0.isCreating() }
        return isSo
    }
    mutating func append(_ operation: Operation) {
        outbox.append((operation.item, operation))
        twin?.write("the outbox", with: self) { try $0.append(operation) }
    }
    mutating func emptyOutbox() {
        for (item, operation) in outbox { addUnsent(item, changed: ChangeTimes(of: operation)) }
        outbox = []
        twin?.emptyOutbox(with: self)
    }
    mutating func removeOutbox(upTo number: UInt64) {
        outbox.removeAll { $0.operation.id.number <= number }
        twin?.write("the outbox", with: self) { try $0.removeOutbox(upTo: number) }
    }

    /// Whether a register has again the value that was agreed on, so that there is nothing to send.
    /// A copy of the store may still send the value that it had in between.
    func hasChangedBack(_ ids: [Identifier], _ before: DeviceJournal) -> Bool {
        ids.contains { id in
            guard let now = images[id], let then = before.images[id] else { return false }
            let base = mirrors[id]?.base?.image
            if let base, !then.isAt(now), now.isAt(base) { return true }
            return Set(then.attributes.keys).union(now.attributes.keys).contains {
                then.attributes[$0] != now.attributes[$0]
                    && now.attributes[$0] == base?.attributes[$0]
            }
        }
    }

    // MARK: The world

    func placement(_ name: String, in parent: Identifier) -> Placement {
        Placement(name, in: parent)
    }
    func now() -> Int64 { clock }
}
