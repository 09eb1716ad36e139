import Model

@testable import Reconcile

/// A device's tree and journal in memory: what is in it is on disk.
struct DeviceJournal: DeviceTable {
    var state: Session
    var images: [Identifier: Image] = [:]
    var revisions: [Identifier: Revision] = [:]
    var mirrors: [Identifier: Mirror] = [:]
    var unsent: Set<Identifier> = []
    var times: [Identifier: ChangeTimes] = [:]
    var outbox: [(item: Identifier, operation: Operation)] = []
    /// Where the hub was when this device began: what was in the trash then is left out.
    var joinedAt: UInt64 = 0
    var clock: Int64 = 0
    /// What became another item.
    private(set) var renamed: [Identifier: Identifier] = [:]

    init(device: Int, volumeEpoch: Identifier) {
        state = Session(device: .device(device), epoch: 1, volumeEpoch: volumeEpoch)
    }

    /// In the order of their ids, so that a schedule is the same twice.
    var ids: [Identifier] { images.keys.sorted { $0.low < $1.low } }
    var alive: [Identifier] { ids.filter { images[$0]!.isAlive } }
    var toSend: [Identifier] { unsent.sorted { $0.low < $1.low } }
    var due: [Identifier] {
        mirrors.filter { $0.value.state == .due || $0.value.state == .stuck }
            .map { ($0.value.since, $0.key) }
            .sorted { ($0.0, $0.1.low) < ($1.0, $1.1.low) }.map(\.1)
    }

    var underway: [Identifier] { mirrors.filter { $0.value.state == .underway }.map(\.key) }

    func session() -> Session { state }
    mutating func set(_ session: Session) { state = session }

    // MARK: The tree

    func local(_ id: Identifier) -> Image? { images[id] }

    func localChild(_ name: String, in parent: Identifier) -> Identifier? {
        children(of: parent).first { images[$0]!.name == name }
    }

    func hasLocalChildren(_ parent: Identifier) -> Bool { !children(of: parent).isEmpty }

    func children(of parent: Identifier) -> [Identifier] {
        images.filter { $0.value.isAlive && $0.value.parent == parent }.keys
            .sorted { $0.low < $1.low }
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

    func revision(_ id: Identifier) -> Revision? { revisions[id] }

    func descends(_ id: Identifier, from ancestor: Identifier, of item: Identifier) -> Bool {
        var (open, seen) = ([id], Set<Identifier>())
        while let next = open.popLast() {
            if next == ancestor { return true }
            if seen.insert(next).inserted { open += revisions[next]?.parents ?? [] }
        }
        return false
    }

    /// As the journal does it, where items hang on keys of its own.
    mutating func reidentify(_ id: Identifier, as other: Identifier) {
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

    func mirror(_ id: Identifier) -> Mirror? { mirrors[id] }
    mutating func setMirror(_ id: Identifier, _ mirror: Mirror?) { mirrors[id] = mirror }

    mutating func forgetRemotes() {
        for (id, mirror) in mirrors where mirror.remote != nil {
            mirrors[id] = mirror.base.map { Mirror(base: $0) }
        }
    }

    func firstDue() -> UInt64? {
        mirrors.values.filter { $0.state != .settled && $0.state != .refused }
            .map(\.since).min()
    }

    // MARK: What is to be sent

    func isUnsent(_ id: Identifier) -> Bool { unsent.contains(id) }
    mutating func addUnsent(_ id: Identifier) { if images[id] != nil { unsent.insert(id) } }
    mutating func removeUnsent(_ id: Identifier) {
        unsent.remove(id)
        times[id] = nil
    }
    func changeTimes(_ id: Identifier) -> ChangeTimes { times[id] ?? ChangeTimes() }
    func unsentAlive(limit: Int) -> [Identifier] { toSend.filter { images[$0]!.isAlive } }
    func isInOutbox(_ id: Identifier) -> Bool { outbox.contains { $0.item == id } }
    func isCreating() -> Bool {
        outbox.contains { if case .create = $0.operation.change { true } else { false } }
    }
    mutating func append(_ operation: Operation) {
        outbox.append((operation.item, operation))
    }
    mutating func emptyOutbox() { outbox = [] }
    mutating func removeOutbox(upTo number: UInt64) {
        outbox.removeAll { $0.operation.id.number <= number }
    }

    // MARK: The world

    func placement(_ name: String, in parent: Identifier) -> Placement {
        Placement(name, in: parent)
    }
    func now() -> Int64 { clock }
}
