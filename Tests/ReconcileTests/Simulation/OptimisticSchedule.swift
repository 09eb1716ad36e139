import Model
import Support

@testable import Reconcile

enum Step: Doing {
    case createFile, createDirectory, createPackage, createSymlink
    case edit, editConflict, resolve, resolveWithContents
    case move, delete, restore, attribute
    case push, pull, crash, clock

    static let weights = [8, 6, 2, 1, 12, 3, 3, 3, 12, 9, 3, 4, 14, 14, 2, 2]

    var isUsers: Bool {
        switch self {
        case .push, .pull, .crash, .clock: false
        default: true
        }
    }
}

/// The hub's decision, correct or with a planted bug.
protocol Judgement {
    var appliesTwice: Bool { get }
    func apply(_ operation: Operation, to table: inout Catalogue, sequence: UInt64) -> Verdict
}

struct Soundness: Judgement {
    let appliesTwice = false

    func apply(_ operation: Operation, to table: inout Catalogue, sequence: UInt64) -> Verdict {
        operation.apply(to: &table, sequence: sequence)
    }
}

/// A hub, and devices that know a part of its journal and show their own operations on top of that.
/// The same function decides on both sides what a device's operations do.
struct OptimisticSchedule<Hub: Judgement> {
    private struct Device {
        let number: Int
        var cursor = 0
        var confirmed = Catalogue()
        var view = Catalogue()
        var pending: [Operation] = []
        /// The length of the journal when the oldest of these was made.
        var aloneSince = 0
        var next: UInt64 = 1
        var skew: Int64
    }

    private let hub: Hub
    private var table = Catalogue()
    private var log: [(operation: Operation, base: Int)] = []
    private var bases: [OperationID: Int] = [:]
    private var last: [UInt64]
    private var devices: [Device]
    private(set) var ghost = Ghost()
    /// A hash of everything that was decided.
    private(set) var trace: UInt64 = 0xcbf2_9ce4_8422_2325

    init(_ hub: Hub, devices: Int) {
        self.hub = hub
        last = Array(repeating: 0, count: devices)
        self.devices = (0..<devices).map {
            Device(number: $0, skew: Int64($0 * 70 - 70))
        }
    }

    /// Returns what is wrong, or nil.
    mutating func run(_ events: [Event<Step>]) -> String? {
        for event in events {
            take(event)
            if let text = disorder(in: devices[event.device].view) { ghost.blame("view: " + text) }
            if let fault = ghost.fault { return "\(fault) (event \(event.number))" }
        }
        let end = (events.last?.number ?? 0) + 1
        for device in devices.indices { push(device, devices[device].pending.count, at: end) }
        for device in devices.indices {
            pull(device, log.count)
            if !devices[device].pending.isEmpty { ghost.blame("an operation is left") }
            if let text = devices[device].view.difference(from: table) { ghost.blame(text) }
        }
        ghost.judgeLosses(table)
        return ghost.fault
    }

    private mutating func take(_ event: Event<Step>) {
        let who = event.device
        switch event.action {
        case .push:
            let count = event.choices[0] % (devices[who].pending.count + 1)
            push(who, count, at: event.number)
            // The answer was lost.
            if event.oneIn(5, 1) { push(who, count, at: event.number) }
        case .pull: pull(who, 1 + event.choices[0] % 8)
        case .crash:
            let shown = devices[who].view
            replay(who)
            if let text = shown.difference(from: devices[who].view) {
                ghost.blame("after a crash \(text)")
            }
        case .clock: devices[who].skew = Int64(event.choices[0] % 400) - 200
        default: if let (item, change) = act(event, devices[who].view) { make(item, change, event) }
        }
    }

    // MARK: Devices

    private func now(_ event: Event<Step>) -> Int64 {
        max(0, Int64(event.number * 10) + devices[event.device].skew)
    }

    private mutating func make(_ item: Identifier, _ change: Change, _ event: Event<Step>) {
        let who = event.device
        guard let (item, change) = named(item, change, who) else { return }
        let device = Identifier.device(who)
        let id = OperationID(device: device, epoch: 1, number: devices[who].next)
        let operation = Operation(
            id: id, item: item, moment: Moment(time: now(event), device: device),
            base: UInt64(devices[who].cursor), change: change)
        devices[who].next += 1
        if devices[who].pending.isEmpty { devices[who].aloneSince = devices[who].cursor }
        bases[id] = devices[who].aloneSince
        show(operation, who)
        devices[who].pending.append(operation)
    }

    /// Items and versions that the device has made and the hub has not confirmed are named by the
    /// device's own ids, as the exchange does it. That they are unified with others is shown, but
    /// only expected.
    ///
    /// - Returns: Nil if the change names versions that may belong to two items in the end.
    private func named(_ id: Identifier, _ change: Change, _ who: Int) -> (Identifier, Change)? {
        let pending = devices[who].pending
        var (view, confirmed) = (devices[who].view, devices[who].confirmed)
        let versions = view.item(id)?.versions ?? []
        var items: Set<Identifier> = []
        func own(_ version: Identifier) -> Identifier {
            let shown = versions.first { $0.isNamed(version) }
            let maker = pending.last { operation in
                operation.change.revision.map { shown?.isNamed($0.id) ?? false } ?? false
            }
            items.insert(confirmed.canonical(maker?.item ?? id))
            return maker?.change.revision?.id ?? version
        }
        switch change {
        case .edit(var revision):
            revision.parents = revision.parents.map(own)
            return (items.first ?? id, .edit(revision))
        case .resolve(let settled, var revision):
            let parents = revision?.parents.map(own) ?? []
            revision?.parents = parents
            let change = Change.resolve(settled.map(own), revision)
            return items.count == 1 ? (items.first ?? id, change) : nil
        default:
            let made = pending.last { $0.change.creates && view.canonical($0.item) == id }
            return (made?.item ?? id, change)
        }
    }

    private mutating func show(_ operation: Operation, _ who: Int) {
        let sequence = UInt64(1) << 40 + operation.id.number
        _ = hub.apply(operation, to: &devices[who].view, sequence: sequence)
    }

    private mutating func replay(_ who: Int) {
        devices[who].view = devices[who].confirmed
        for operation in devices[who].pending { show(operation, who) }
    }

    private mutating func pull(_ who: Int, _ count: Int) {
        let end = min(log.count, devices[who].cursor + count)
        while devices[who].cursor < end {
            let (operation, _) = log[devices[who].cursor]
            devices[who].cursor += 1
            _ = hub.apply(
                operation, to: &devices[who].confirmed, sequence: UInt64(devices[who].cursor))
            if operation.id.device == .device(who) {
                devices[who].pending.removeAll { $0.id == operation.id }
            }
        }
        replay(who)
    }

    private mutating func push(_ who: Int, _ count: Int, at time: Int) {
        for operation in devices[who].pending.prefix(count) {
            if operation.id.number <= last[who], !hub.appliesTwice { continue }
            last[who] = max(last[who], operation.id.number)
            commit(operation, Int64(time * 10))
        }
    }

    private mutating func commit(_ operation: Operation, _ time: Int64) {
        var operation = operation
        operation.moment.time = min(operation.moment.time, time)
        let before = table
        let base = bases[operation.id] ?? 0
        let isAlone = log[base...].allSatisfy { $0.operation.id.device == operation.id.device }
        log.append((operation, base))
        let verdict = hub.apply(operation, to: &table, sequence: UInt64(log.count))
        ghost.judge(operation, verdict, from: before, to: table, isAlone: isAlone)
        for byte in operation.encoded + Array("\(verdict)".utf8) {
            trace = (trace ^ UInt64(byte)) &* 0x100_0000_01b3
        }
    }
}

extension Change {
    fileprivate var creates: Bool { if case .create = self { true } else { false } }
}

// MARK: Users

private let names = ["a", "b", "c.txt", "d.txt"]

/// What a user does who sees this state.
func act(_ event: Event<Step>, _ view: Catalogue) -> (Identifier, Change)? {
    let alive = view.all.filter { $0.life.isAlive }
    switch event.action {
    case .createFile: return creation(event, .file, view, alive)
    case .createDirectory: return creation(event, .directory, view, alive)
    case .createPackage: return creation(event, .package, view, alive)
    case .createSymlink: return creation(event, .symlink, view, alive)
    case .edit:
        guard let item = event.choose(0, alive.filter { $0.kind.isDocument }) else { return nil }
        return (item.id, .edit(revision(event, [item.current!.id], item)))
    case .editConflict:
        guard let item = event.choose(0, alive.filter { !$0.conflicts.isEmpty }),
            let version = event.choose(1, item.conflicts)
        else { return nil }
        return (item.id, .edit(revision(event, [version.id], item)))
    case .resolve:
        guard let item = event.choose(0, alive.filter { !$0.conflicts.isEmpty }) else { return nil }
        let settled = event.oneIn(2, 1) ? item.conflicts : Array(item.conflicts.prefix(1))
        return (item.id, .resolve(settled.map(\.id), nil))
    case .resolveWithContents:
        guard let item = event.choose(0, alive.filter { !$0.conflicts.isEmpty }) else { return nil }
        let settled = item.conflicts.map(\.id)
        let parents = [item.current!.id] + (event.oneIn(2, 1) ? settled : [])
        return (item.id, .resolve(settled, revision(event, parents, item)))
    case .move:
        guard let item = event.choose(0, alive),
            let placement = freePlace(event, view, alive, for: item.id)
        else { return nil }
        return (item.id, .move(placement, base: item.placedBy))
    case .delete:
        guard let item = event.choose(0, alive) else { return nil }
        return (item.id, .delete(current: item.current?.id))
    case .restore:
        let trashed = view.all.filter { !$0.life.isAlive && view.alias(of: $0.id) == nil }
        return event.choose(0, trashed).map { ($0.id, .restore) }
    case .attribute:
        guard let item = event.choose(0, alive) else { return nil }
        let value = event.oneIn(4, 2) ? nil : [UInt8(event.number & 0xFF)]
        return (item.id, .attribute(event.oneIn(2, 1) ? "mode" : "x:a", value))
    case .push, .pull, .crash, .clock: return nil
    }
}

private func freePlace(
    _ event: Event<Step>, _ view: Catalogue, _ alive: [ItemState], for id: Identifier?
) -> Placement? {
    var view = view
    let directories = [.root] + alive.filter { $0.kind == .directory }.map(\.id)
    guard let parent = event.choose(1, directories), let name = event.choose(2, names) else {
        return nil
    }
    let placement = Placement(name, in: parent)
    if let id, view.isAncestor(id, of: parent) { return nil }
    let holder = view.holder(of: placement.key, in: parent)
    return holder == nil || holder == id ? placement : nil
}

private func creation(
    _ event: Event<Step>, _ kind: ItemKind, _ view: Catalogue, _ alive: [ItemState]
) -> (Identifier, Change)? {
    guard let placement = freePlace(event, view, alive, for: nil) else { return nil }
    return (
        .item(event.number),
        .create(
            Creation(
                kind: kind, placement: placement,
                revision: kind.isDocument ? revision(event, [], nil) : nil,
                target: kind == .symlink ? "t\(event.choices[3] % 2)" : nil,
                attributes: event.oneIn(3, 3) ? ["mode": [UInt8(event.number & 0xFF)]] : [:]))
    )
}

/// Some contents are made more than once.
private func revision(_ event: Event<Step>, _ parents: [Identifier], _ item: ItemState?) -> Revision
{
    var content = 1_000 + event.number
    if event.oneIn(3, 3) { content = event.choices[3] % 2 }
    var digest = Digest.content(content)
    if event.oneIn(8, 2), let other = item?.conflicts.first { digest = other.content }
    return Revision(
        id: .revision(event.number), parents: parents, content: digest, size: 1,
        moment: Moment(
            time: Int64(event.number * 10), device: .device(event.device)))
}
