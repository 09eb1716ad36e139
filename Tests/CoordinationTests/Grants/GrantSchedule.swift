import Model
import Support

@testable import Coordination

/// Two hubs of one ledger and three devices, which edit documents under grants, in simulated time.
/// Messages are slow, late or lost; devices are cut off, stopped, killed or gone for ever; hubs are
/// restarted; wall clocks are set. The same seed gives the same schedule.
struct GrantSchedule: RandomSchedule {
    enum Request {
        case take(UInt64, Identifier)
        case resume(UInt64, Identifier, UInt64)
        case renew(UInt64, Identifier, UInt64)
        case release(UInt64, Identifier, UInt64)
        case commit(Edit)
    }

    enum Happening {
        case toHub(Int, from: Int, GrantRow.Holder, Request)
        /// The transaction of a take, after the hub has looked at the row.
        case transaction(from: Int, GrantRow.Holder, UInt64, Identifier, ended: GrantRow?, Int)
        case toDevice(Int, life: Int, GrantHolder.Event)
        case committed(Int, edit: Int)
        case wake(Int, life: Int)
        case beat(Int)
        case save(Int, Edit)
        case disturb
        case resume(Int)
        case heal(Int)
    }

    struct Edit {
        var id: Int
        var document: Identifier
        /// Nil if it was made without a claim.
        var token: UInt64?
    }

    struct Hub {
        var watch = GrantWatch()
        var offset: Int64
        var wall: Int64 = 0
        /// Only for a planted bug: the grants in its memory.
        var rows: [Identifier: GrantRow] = [:]
    }

    struct Device {
        var id: Identifier
        var process: Identifier
        var life = 0
        var holder = GrantHolder()
        var offset: Int64
        var isStopped = false
        var isCutOff = false
        /// It never comes back.
        var isGone = false
        /// What came while the process was stopped.
        var waiting: [Happening] = []
        var wanted: Set<Identifier> = []
        /// What was saved, and the hub has not confirmed. It is on the disk.
        var outbox: [Edit] = []
        /// The tokens under which it has documents, which are on the disk, too.
        var tokens: [Identifier: UInt64] = [:]
        /// Only for planted bugs: until when it relies on a token.
        var relied: [Identifier: (token: UInt64, until: Int64)] = [:]
        var asked: [UInt64: Int64] = [:]
    }

    /// What the schedule itself knows about the grants of a document.
    struct Known {
        var token: UInt64 = 0
        var device: Identifier?
        var isHeld = false
    }

    let bug: GrantBug?
    var random: SeededRandom
    var now: Int64 = 0
    var hubs: [Hub] = []
    var devices: [Device] = []
    var queue: [(time: Int64, order: Int, what: Happening)] = []
    var order = 0
    var edits = 0
    var isCalm = false
    var fault: String?

    // The ledger.
    var head: UInt64 = 0
    var rows: [Identifier: GrantRow] = [:]
    var current: [Identifier: [Edit]] = [:]
    var conflicts: Set<Int> = []
    var known: [Identifier: Known] = [:]

    static let second: Int64 = 1_000_000_000
    static let documents = (1...2).map { Identifier(high: 3, low: $0) }

    init(seed: UInt64, bug: GrantBug? = nil) {
        self.bug = bug
        random = SeededRandom(seed: seed)
        for _ in 0..<2 { hubs.append(Hub(offset: Int64(random.next() % 1_000_000) * Self.second)) }
        for number in UInt64(1)...3 {
            devices.append(
                Device(
                    id: Identifier(high: 1, low: number),
                    process: Identifier(high: 2, low: number * 1000),
                    offset: Int64(random.next() % 1_000_000) * Self.second))
        }
    }

    // MARK: Running

    mutating func run() -> String? {
        for index in devices.indices { add(.beat(index), after: below(15)) }
        add(.disturb, after: 1)
        run(until: 600 * Self.second)
        if fault == nil { calmDown() }
        return fault
    }

    private mutating func run(until end: Int64) {
        while fault == nil, let next = queue.indices.min(by: { before($0, $1) }),
            queue[next].time <= end
        {
            let event = queue.remove(at: next)
            now = max(now, event.time)
            happen(event.what)
            if fault == nil { check() }
        }
        now = max(now, end)
    }

    private func before(_ a: Int, _ b: Int) -> Bool {
        (queue[a].time, queue[a].order) < (queue[b].time, queue[b].order)
    }

    /// Everything works again, except what is gone for ever. Then each document must be granted.
    private mutating func calmDown() {
        isCalm = true
        for index in devices.indices where !devices[index].isGone {
            devices[index].isCutOff = false
            if devices[index].isStopped { happen(.resume(index)) }
            for document in Self.documents { want(index, document, false) }
        }
        run(until: now + 60 * Self.second)
        guard fault == nil, let one = devices.indices.first(where: { !devices[$0].isGone }) else {
            return
        }
        for document in Self.documents { want(one, document, true) }
        run(until: now + 240 * Self.second)
        for document in Self.documents where token(one, document) == nil {
            fault = fault ?? "nobody else wants a document, and it is not granted"
        }
        if devices.contains(where: { !$0.isGone && !$0.outbox.isEmpty }) {
            fault = fault ?? "a save does not arrive"
        }
    }

    mutating func add(_ what: Happening, after seconds: Int64) {
        order += 1
        queue.append((now + seconds * Self.second + Int64(order), order, what))
    }

    mutating func below(_ count: UInt64) -> Int64 { Int64(random.next() % count) }
    mutating func chance(_ percent: UInt64) -> Bool { random.next() % 100 < percent }

    // MARK: What is true

    /// The token under which a device begins to edit a document now.
    func token(_ index: Int, _ document: Identifier) -> UInt64? {
        let device = devices[index]
        if bug == .reliesTooLong || bug == .countsFromTheAnswer {
            return device.relied[document].flatMap {
                now + device.offset < $0.until ? $0.token : nil
            }
        }
        return device.holder.token(for: document, at: now + device.offset)
    }

    /// A device that is stopped does nothing, so it relies on nothing.
    private mutating func check() {
        for document in Self.documents {
            let relying = devices.indices.filter {
                !devices[$0].isStopped && !devices[$0].isGone && token($0, document) != nil
            }
            if relying.count > 1 { fault = "two devices rely on one document" }
            for index in relying {
                guard let row = known[document], row.device == devices[index].id else {
                    fault = "device \(index) relies on what another has"
                    continue
                }
                // An earlier process of the device may have asked, too.
                let isOwn = rows[document]?.holder.process == devices[index].process
                if isOwn, !row.isHeld { fault = "device \(index) relies on what was released" }
            }
        }
    }

    mutating func issue(_ token: UInt64, of document: Identifier, to device: Identifier) {
        if token <= known[document]?.token ?? 0 { fault = "a token is not higher than the last" }
        known[document] = Known(token: token, device: device, isHeld: true)
    }

    /// An edit has become the current version of its document.
    mutating func becameCurrent(_ edit: Edit, of device: Identifier) {
        let grant = known[edit.document] ?? Known()
        if let token = edit.token {
            if token != grant.token || device != grant.device {
                fault = "an edit under an old or false token became the current version"
            }
        } else if grant.isHeld, grant.device != device {
            fault = "an edit without a claim overwrote the holder's"
        }
        current[edit.document, default: []].append(edit)
    }
}
