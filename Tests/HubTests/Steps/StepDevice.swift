import HubProtocol
import Model
import Reconcile
import Support

@testable import Hub

/// A device in a schedule: what it knows by the feed, and what it has not sent or has had no answer
/// to.
struct StepDevice {
    let caller: Caller
    private(set) var known: [Identifier: ItemState] = [:]
    var cursor: UInt64 = 0
    /// The operations without an answer, in the order of their numbers.
    var outbox: [OperationEntry] = []
    /// Whether the hub has a request of the device.
    var isWaiting = false
    private var number: UInt64 = 0
    /// The version of each document that the device has saved and not read in the feed.
    private var saved: [Identifier: Identifier] = [:]

    init(_ caller: Caller) { self.caller = caller }

    mutating func take(_ changes: [ItemChange]) {
        for case .item(let item) in changes {
            known[item.id] = item
            if item.current?.id == saved[item.id] { saved[item.id] = nil }
        }
    }

    private func sorted(_ isWanted: (Life) -> Bool) -> [ItemState] {
        known.values.filter { isWanted($0.life) }.sorted {
            $0.id.bytes.lexicographicallyPrecedes($1.id.bytes)
        }
    }

    private var alive: [ItemState] {
        sorted(\.isAlive)
    }

    private func directory(_ random: inout SeededRandom) -> Identifier {
        let all = alive.filter { $0.kind == .directory }.map(\.id)
        return all.isEmpty || random.oneIn(4) ? .root : random.pick(all)
    }

    private func isBelow(_ id: Identifier, _ top: Identifier) -> Bool {
        var (next, seen) = (id, Set<Identifier>())
        while next != .root, seen.insert(next).inserted {
            if next == top { return true }
            next = known[next]?.placement.parent ?? .root
        }
        return false
    }

    // MARK: What the user does

    /// Makes a change of the items that the device knows; nothing if there is nothing to change.
    mutating func act(_ random: inout SeededRandom, _ source: inout StepSource, at time: Int64) {
        let files = alive.filter { $0.kind == .file }
        let directories = alive.filter { $0.kind == .directory }
        let trash = sorted { !$0.isAlive }
        switch random.below(16) {
        case 0...4:
            let (content, revision) = source.contents(of: caller, parents: [], at: time)
            create(.file, revision, content, in: directory(&random), &source, time)
        case 5, 6: create(.directory, nil, nil, in: directory(&random), &source, time)
        case 7...9:
            guard !files.isEmpty else { return }
            let file = random.pick(files)
            let parent = saved[file.id] ?? file.current?.id
            let (content, revision) = source.contents(
                of: caller, parents: parent.map { [$0] } ?? [], at: time)
            saved[file.id] = revision.id
            add(file.id, .edit(revision), content, time)
        case 10:
            guard !files.isEmpty else { return }
            let file = random.pick(files)
            add(file.id, .delete(current: file.current?.id), nil, time)
        case 11, 12:
            guard !directories.isEmpty else { return }
            add(random.pick(directories).id, .delete(current: nil), nil, time)
        case 13:
            guard !trash.isEmpty else { return }
            add(random.pick(trash).id, .restore, nil, time)
        case 14:
            guard !alive.isEmpty else { return }
            let (item, parent) = (random.pick(alive), directory(&random))
            guard !isBelow(parent, item.id) else { return }
            add(
                item.id, .move(source.placement(in: parent), base: item.placedBy), nil, time)
        default:
            guard !alive.isEmpty else { return }
            let value = [UInt8](repeating: 1, count: random.below(40))
            add(random.pick(alive).id, .attribute("x:user.a", value), nil, time)
        }
    }

    mutating func create(
        _ kind: ItemKind, _ revision: Revision?, _ content: RevisionContent?,
        in parent: Identifier, _ source: inout StepSource, _ time: Int64
    ) {
        let creation = Creation(
            kind: kind, placement: source.placement(in: parent), revision: revision)
        add(source.id(), .create(creation), content, time)
    }

    /// The same document is saved again and again.
    mutating func saveOften(
        _ random: inout SeededRandom, _ source: inout StepSource, at time: Int64
    ) {
        let files = alive.filter { $0.kind == .file }
        guard !files.isEmpty else { return }
        let file = random.pick(files)
        for _ in 0..<12 {
            let parent = saved[file.id] ?? file.current?.id
            let (content, revision) = source.contents(
                of: caller, parents: parent.map { [$0] } ?? [], at: time)
            saved[file.id] = revision.id
            add(file.id, .edit(revision), content, time)
        }
    }

    private mutating func add(
        _ item: Identifier, _ change: Change, _ content: RevisionContent?, _ time: Int64
    ) {
        number += 1
        let operation = Operation(
            id: OperationID(device: caller.device, epoch: caller.epoch, number: number),
            item: item, moment: Moment(time: time, device: caller.device), base: cursor,
            change: change)
        outbox.append(OperationEntry(operation, content: content))
    }

    /// The operations of the next request. A restore is sent alone, so that the state before it is
    /// known.
    var next: [OperationEntry] {
        guard let first = outbox.first else { return [] }
        if case .restore = first.change { return [first] }
        return Array(
            outbox.prefix {
                if case .restore = $0.change { return false }
                return true
            })
    }
}

/// Ids, names and contents of a schedule, each of them once.
struct StepSource {
    private var count: UInt64 = 0
    /// The chunks of large versions, which all have the same.
    let large: [Digest]
    /// Chunks that several versions have.
    private let shared = (0..<6).map { Digest.sha256([1, UInt8($0)]) }
    /// Whether some versions have so many chunks that their uses are counted in steps.
    let hasLarge: Bool

    init(hasLarge: Bool) {
        self.hasLarge = hasLarge
        large = (0..<VersionTable.partChunks + 1).map {
            Digest.sha256([2, UInt8($0 & 255), UInt8($0 >> 8)])
        }
    }

    mutating func id() -> Identifier {
        count += 1
        return Identifier(high: 7, low: count)
    }

    mutating func placement(in parent: Identifier) -> Placement {
        count += 1
        let name = "n\(count &* 7919 % 1000) \(count)"
        return Placement(
            parent: parent, name: name, key: NameKey(Array(name.utf8)), spare: name + "s",
            spareKey: NameKey(Array((name + "s").utf8)))
    }

    mutating func contents(
        of caller: Caller, parents: [Identifier], at time: Int64
    ) -> (RevisionContent, Revision) {
        count += 1
        let own = Digest.sha256([3] + withUnsafeBytes(of: count) { Array($0) })
        let isLarge = hasLarge && count.isMultiple(of: 9)
        let chunks = isLarge ? large : [shared[Int(count % 6)], own]
        let revision = Revision(
            id: Identifier(high: 8, low: count), parents: parents, content: own, size: 10,
            moment: Moment(time: time, device: caller.device))
        return (
            RevisionContent(manifest: Array("manifest \(count)".utf8), chunks: chunks), revision
        )
    }
}
