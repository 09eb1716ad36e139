import HubProtocol
import Model
import Reconcile
import Support

@testable import Hub

/// Two devices and a hub that does large operations in steps. What happens between the steps is
/// chosen by a seed: requests, pages of the feed, upkeep, lost connections and stops of the hub.
struct StepSchedule {
    private struct Done {
        let entry: OperationEntry
        let result: OperationResult
    }

    /// A document or directory that must come back, because a directory was restored.
    private struct Promise {
        let item: Identifier
        /// The directories between it and the root, and itself.
        let chain: Set<Identifier>
        /// The position of the restore in the journal.
        let sequence: UInt64
    }

    private var random: SeededRandom
    private var hub: SteppedHub
    private var source: StepSource
    private var devices: [StepDevice] = []
    /// The request of each device that it waits for.
    private var awaited: [Int: Int] = [:]
    /// The answers by devices and numbers.
    private var done: [OperationID: Done] = [:]
    private var promises: [Promise] = []
    private(set) var fault: String?

    var counts: [String: Int] { hub.counts }

    init(seed: UInt64, plant: StepPlant?, _ transaction: any LedgerTransaction) throws {
        random = SeededRandom(seed: seed)
        hub = try SteppedHub(transaction, plant: plant)
        source = StepSource(hasLarge: random.oneIn(12))
        for index in 0..<2 { devices.append(StepDevice(try hub.enrol(index))) }
    }

    private mutating func blame(_ text: String) {
        if fault == nil { fault = text }
    }

    mutating func run() throws {
        try begin()
        for _ in 0..<(60 + random.below(120)) where fault == nil {
            try act()
            try checkSums()
        }
        try rest()
        guard fault == nil else { return }
        try checkSums()
        try checkItems()
    }

    /// Both devices know a tree with some large directories.
    private mutating func begin() throws {
        var directories = [Identifier.root]
        for count in 0..<22 {
            let parent = random.pick(Array(directories.suffix(4)))
            if count % 3 == 0 {
                devices[0].create(.directory, nil, nil, in: parent, &source, hub.time)
                directories += devices[0].outbox.suffix(1).map(\.item)
            } else {
                let (content, revision) = source.contents(
                    of: devices[0].caller, parents: [], at: hub.time)
                devices[0].create(.file, revision, content, in: parent, &source, hub.time)
            }
        }
        try rest()
    }

    // MARK: What happens

    private mutating func act() throws {
        hub.time += Timestamp.span(seconds: Int64(random.below(600)))
        let device = random.below(2)
        switch random.below(40) {
        case 0...7: devices[device].act(&random, &source, at: hub.time)
        case 8: devices[device].saveOften(&random, &source, at: hub.time)
        case 9...14: try send(device)
        case 15...22: try serve()
        case 23...26: try read(device, limit: 1 + random.below(6))
        case 27...29: _ = try hub.revive()
        case 30, 31: _ = try hub.thin()
        case 32, 33: _ = try hub.endUses()
        case 34: try hub.collect()
        case 35: hub.time += Timestamp.span(seconds: 7200)
        // The connection is lost.
        case 36, 37: awaited[device] = nil
        default: try stop()
        }
    }

    private mutating func send(_ device: Int) throws {
        let entries = devices[device].next
        guard awaited[device] == nil, !entries.isEmpty else { return }
        awaited[device] = try hub.receive(entries, from: device, devices[device].caller)
    }

    private mutating func serve(stops: Bool = false) throws {
        let before = try hub.items()
        for (number, outcome) in try hub.serve(&random, stops: stops).sorted(by: { $0.key < $1.key }
        ) {
            guard let device = awaited.first(where: { $0.value == number })?.key else { continue }
            awaited[device] = nil
            switch outcome {
            case .failed(let failure):
                guard [.busy, .missing].contains(failure.code) else {
                    return blame("a request failed: \(failure)")
                }
            case .answered(let results): note(results, to: device, before)
            }
        }
    }

    private mutating func note(
        _ results: [OperationResult], to device: Int, _ before: [Identifier: ItemState]
    ) {
        for result in results {
            guard let entry = devices[device].outbox.first, entry.number == result.number else {
                return blame("the answer to \(result.number) is not the next one")
            }
            devices[device].outbox.removeFirst()
            let caller = devices[device].caller
            let id = OperationID(
                device: caller.device, epoch: caller.epoch, number: entry.number)
            done[id] = Done(entry: entry, result: result)
            if case .restore = entry.change { promise(entry.item, result, before) }
        }
    }

    /// Notes what a restore must bring back, as one large transaction would do it.
    private mutating func promise(
        _ top: Identifier, _ result: OperationResult, _ before: [Identifier: ItemState]
    ) {
        guard result.verdict == .applied, case .trashed(let batch, _) = before[top]?.life else {
            return
        }
        let children = Dictionary(grouping: before.values) { $0.placement.parent }
        var open = [top]
        while let directory = open.popLast() {
            for child in children[directory] ?? [] {
                if case .trashed(let other, _) = child.life {
                    guard other == batch else { continue }
                    var (chain, next) = (Set<Identifier>(), child.id)
                    while next != .root, chain.insert(next).inserted {
                        next = before[next]?.placement.parent ?? .root
                    }
                    promises.append(
                        Promise(item: child.id, chain: chain, sequence: result.sequence))
                }
                if child.kind == .directory { open.append(child.id) }
            }
        }
    }

    private mutating func read(_ device: Int, limit: Int) throws {
        let page = try hub.page(after: devices[device].cursor, limit: limit)
        devices[device].take(page.changes)
        devices[device].cursor = page.next
    }

    /// Stops the hub, perhaps within a transaction.
    private mutating func stop() throws {
        switch random.below(6) {
        case 0: try serve(stops: true)
        case 1: _ = try hub.revive(stops: true)
        case 2: _ = try hub.thin(stops: true)
        case 3: _ = try hub.endUses(stops: true)
        case 4: try hub.collect(stops: true)
        default: break
        }
        try hub.restart()
        awaited = [:]
    }

    /// Goes on until nothing is left to do.
    private mutating func rest() throws {
        for _ in 0..<3000 {
            guard fault == nil else { return }
            for device in devices.indices { try send(device) }
            try serve()
            let isReviving = try hub.revive()
            let isThinning = try hub.thin()
            let isEnding = try hub.endUses()
            let isSending = devices.contains { !$0.outbox.isEmpty }
            guard isReviving || isThinning || isEnding || isSending || hub.isBusy else {
                return try readAll()
            }
        }
        blame("the hub does not come to rest")
    }

    private mutating func readAll() throws {
        for device in devices.indices {
            var before: UInt64
            repeat {
                before = devices[device].cursor
                try read(device, limit: 1 + random.below(6))
            } while devices[device].cursor > before
        }
    }

    // MARK: What must be true

    private mutating func checkSums() throws {
        let used = try hub.transaction.account(hub.account)?.used ?? 0
        let size = try hub.transaction.size(ofAccount: hub.account)
        if used != size { blame("the account is charged for \(used) bytes and has \(size)") }
    }

    private mutating func checkItems() throws {
        let faults = try VolumeCheck(hub.volume, hub.transaction).run().faults
        if let first = faults.first { return blame(first) }
        let items = try hub.items()
        for (index, device) in devices.enumerated() where device.known != items {
            let other = items.first { device.known[$0.key] != $0.value }?.value
            return blame(
                "device \(index) has not heard of \(other.map { "\($0)" } ?? "what is gone")")
        }
        for (id, done) in done.sorted(by: { $0.value.result.sequence < $1.value.result.sequence }) {
            try check(id, done, items)
        }
        for promise in promises { check(promise, items) }
    }

    /// Checks that what was acknowledged is there.
    private mutating func check(
        _ id: OperationID, _ done: Done, _ items: [Identifier: ItemState]
    ) throws {
        guard let verdict = done.result.verdict, verdict != .overruled(.unknownItem),
            done.entry.change.isSave
        else { return }
        if let revision = done.entry.change.revision?.id, !hub.thinned.contains(revision),
            try hub.transaction.revision(revision, in: hub.volume) == nil
        {
            return blame("version \(revision) of \(done.entry.item) is lost")
        }
        guard let item = items[done.entry.item] else {
            return blame("item \(done.entry.item) is lost")
        }
        guard case .trashed(let batch, let sequence) = item.life else { return }
        guard let deletion = self.done[batch], case .delete(let current) = deletion.entry.change
        else { return blame("\(item.id) was deleted by nobody") }
        let isSeen =
            batch.device == id.device || done.result.sequence <= deletion.entry.base
            || done.result.sequence > sequence || current == done.entry.change.revision?.id
        if !isSeen { blame("\(item.id) was deleted unseen, with a change that was acknowledged") }
    }

    private mutating func check(_ promise: Promise, _ items: [Identifier: ItemState]) {
        guard case .trashed(_, let sequence) = items[promise.item]?.life,
            sequence < promise.sequence
        else { return }
        let isOvertaken = done.values.contains {
            $0.result.sequence > promise.sequence && promise.chain.contains($0.entry.item)
                && $0.entry.change.isPlacing
        }
        if !isOvertaken { blame("\(promise.item) was not restored with its directory") }
    }
}

extension Change {
    /// Whether it makes or changes a document or directory.
    fileprivate var isSave: Bool {
        switch self {
        case .create, .edit: true
        case .move, .delete, .restore, .attribute, .resolve: false
        }
    }

    /// Whether it can take an item out of a directory, or a directory away.
    fileprivate var isPlacing: Bool {
        switch self {
        case .move, .delete: true
        case .create, .edit, .restore, .attribute, .resolve: false
        }
    }
}
