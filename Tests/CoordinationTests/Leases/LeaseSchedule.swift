import Model
import Support

@testable import Coordination

/// A hub and some devices, whose programs open and close documents, in simulated time. Messages are
/// slow, late or lost; devices are cut off, stopped or killed; the hub loses its memory; wall
/// clocks are set. The same seed gives the same schedule.
struct LeaseSchedule: RandomSchedule {
    typealias Shown = LeaseTable.Lease

    enum Message {
        case telling(LeaseTable.Telling, answers: UInt64)
        case told(UInt64)
        case failed(UInt64)
        case fetch(Int)
        case fetched(Int, [Shown], UInt64)
        case fetchFailed(Int)
        /// A line of the feed that was opened under this number.
        case hint(feed: Int, revision: UInt64?, isBeat: Bool)
    }

    enum Happening {
        case toHub(from: Int, Message)
        case toDevice(Int, life: Int, Message)
        case wake(Int, life: Int)
        case beat, hubWakes
        case connect(Int)
        case resume(Int)
        case heal(Int)
        case close(Int, Identifier, life: Int)
        case disturb
    }

    struct Device {
        var id: Identifier
        var process: Identifier
        var life = 0
        var holder = LeaseHolder()
        var view = LeaseView<Shown>()
        /// The clock's distance from the simulated time, and that of the wall clock from the clock.
        var offset: Int64
        var wall: Int64 = 0
        /// What programs have open, and since when.
        var open: [Identifier: Int64] = [:]
        var closed: [Identifier: Int64] = [:]
        var isArmed = true
        var isStopped = false
        var isCutOff = false
        var feed = 0
        var isListening = false
        /// What came while the process was stopped.
        var held: [Happening] = []
        var lastTelling: Int64?
        var lastFetch: Int64?
        /// The request that has no answer yet, and the number of the last one.
        var fetch: Int?
        var fetches = 0
        /// When the hub lost its memory, or was told by another process of the device.
        var mayBeForgotten = true
        var lastNumber: UInt64 = 0
        var everLooked: Set<Identifier> = []
        var confirmed: Set<Identifier> = []
        var nextWake: Int64?
    }

    let bug: LeaseBug?
    var random: SeededRandom
    var now: Int64 = 0
    var devices: [Device]
    var table = LeaseTable()
    var hubOffset: Int64 = 0, hubWall: Int64 = 0
    var queue: [(time: Int64, order: Int, what: Happening)] = []
    var order = 0
    var requests = 0
    var isCalm = false
    var fault: String?

    static let volume = Identifier(high: 1, low: 1), account = Identifier(high: 2, low: 2)
    static let nobody = Identifier(high: 0, low: 0)
    static let documents = (1...3).map { Identifier(high: 3, low: $0) }
    static let second: Int64 = 1_000_000_000
    /// The longest time until a message arrives, and until a request counts as failed.
    static let late = 30 * second, patience = 5 * second

    init(seed: UInt64, bug: LeaseBug? = nil) {
        self.bug = bug
        random = SeededRandom(seed: seed)
        devices = []
        for number in UInt64(1)...3 {
            let process = Identifier(high: 5, low: number)
            devices.append(
                Device(
                    id: Identifier(high: 4, low: number), process: process,
                    offset: Int64(random.below(1_000_000)) * Self.second))
        }
        hubOffset = Int64(random.below(1_000_000)) * Self.second
    }

    // MARK: Running

    /// Returns what is wrong; nil if nothing is.
    mutating func run() -> String? {
        add(.beat, in: Self.second)
        add(.hubWakes, in: Self.second)
        for index in devices.indices { add(.connect(index), in: Int64(random.below(1000))) }
        for _ in 0..<60 { add(.disturb, in: Int64(random.below(300)) * Self.second) }
        for _ in 0..<20 { add(.disturb, in: Int64(random.below(3000)) * 100_000_000) }
        run(until: 300 * Self.second)
        calmDown()
        run(until: 480 * Self.second)
        checkAgreement()
        for index in devices.indices {
            for id in devices[index].open.keys.sorted(by: { $0.low < $1.low }) {
                close(index, id)
            }
        }
        run(until: 640 * Self.second)
        checkAgreement()
        let before = requests
        run(until: 700 * Self.second)
        if requests != before { fail("requests although nothing is open") }
        for device in devices where device.holder.wakeTime != nil || device.view.wakeTime != nil {
            fail("device \(device.id.low) does not rest")
        }
        return fault
    }

    private mutating func run(until end: Int64) {
        while fault == nil, let next = queue.indices.min(by: { before(queue[$0], queue[$1]) }),
            queue[next].time <= end
        {
            let (time, _, what) = queue.remove(at: next)
            now = time
            happen(what)
            checkReliance()
            checkViews()
        }
        now = end
    }

    private func before(
        _ one: (time: Int64, order: Int, what: Happening),
        _ other: (time: Int64, order: Int, what: Happening)
    ) -> Bool { (one.time, one.order) < (other.time, other.order) }

    mutating func add(_ what: Happening, in delay: Int64) {
        order += 1
        queue.append((now + delay, order, what))
    }

    mutating func fail(_ text: String) {
        fault = fault ?? "at \(Double(now) / 1e9) s: \(text)"
    }

    private mutating func calmDown() {
        isCalm = true
        for index in devices.indices {
            if devices[index].isStopped { happen(.resume(index)) }
            happen(.heal(index))
            if random.oneIn(2) { open(index, for: 1000 * Self.second) }
        }
    }

    // MARK: Clocks

    func clock(_ index: Int) -> Int64 {
        let device = devices[index]
        return now + device.offset + (bug == .usesTheDevicesWallClock ? device.wall : 0)
    }

    var hubClock: Int64 {
        now + hubOffset + (bug == .usesTheHubsWallClock ? hubWall : 0)
    }

    // MARK: What happens

    private mutating func happen(_ what: Happening) {
        switch what {
        // What programs do waits, too, while the daemon is stopped.
        case .toDevice(let index, let life, _), .wake(let index, let life),
            .close(let index, _, let life):
            guard devices[index].life == life else { return }
            if devices[index].isStopped { return devices[index].held.append(what) }
        default: break
        }
        switch what {
        case .toHub(let index, let message): serve(message, for: index)
        case .toDevice(let index, _, let message): receive(message, index)
        case .wake(let index, _): wake(index)
        case .beat:
            for index in devices.indices { hint(index, isBeat: true) }
            add(.beat, in: 15 * Self.second)
        case .hubWakes:
            if bug != .keepsForEver { apply(table.step(.woken, at: hubClock)) }
            add(.hubWakes, in: Self.second)
        case .connect(let index): connect(index)
        case .resume(let index):
            devices[index].isStopped = false
            let held = devices[index].held
            devices[index].held = []
            for what in held { happen(what) }
            wake(index)
        case .heal(let index):
            devices[index].isCutOff = false
            if !devices[index].isListening {
                add(.connect(index), in: Int64(random.below(1 << 30)))
            }
        case .close(let index, let id, _): close(index, id)
        case .disturb: if !isCalm { disturb() }
        }
    }

    private mutating func connect(_ index: Int) {
        guard !devices[index].isCutOff, !devices[index].isListening else { return }
        devices[index].isListening = true
        devices[index].feed += 1
        hint(index, isBeat: true)
    }

    mutating func hint(_ index: Int, isBeat: Bool) {
        let device = devices[index]
        let revision = table.revision(of: Self.volume, except: device.id)
        guard device.isListening, !device.isCutOff else { return }
        // A feed is one connection, so its lines arrive in order.
        let line = Message.hint(feed: device.feed, revision: revision, isBeat: isBeat)
        add(.toDevice(index, life: device.life, line), in: 1_000_000)
    }

    private mutating func disturb() {
        let index = random.below(devices.count)
        switch random.below(12) {
        case 0...3: open(index, for: Int64(random.below(90)) * Self.second)
        case 4: open(index, for: Int64(random.below(45)) * 1_000_000)
        case 5:
            guard !devices[index].isStopped else { return }
            for id in devices[index].open.keys.sorted(by: { $0.low < $1.low }) {
                close(index, id)
            }
        case 6:
            guard !devices[index].isStopped else { return }
            devices[index].isStopped = true
            add(.resume(index), in: Int64(random.below(180)) * Self.second)
        case 7:
            devices[index].isCutOff = true
            devices[index].isListening = false
            add(.heal(index), in: Int64(random.below(120)) * Self.second)
        case 8: kill(index)
        case 9:
            table = LeaseTable()
            for index in devices.indices {
                devices[index].mayBeForgotten = true
                devices[index].isListening = false
                add(.connect(index), in: Int64(random.below(1 << 30)))
            }
        case 10: devices[index].wall += Int64(random.below(172_800) - 86_400) * Self.second
        default: hubWall += Int64(random.below(172_800) - 86_400) * Self.second
        }
    }

    private mutating func kill(_ index: Int) {
        guard !devices[index].isStopped else { return }
        for (id, _) in devices[index].open { devices[index].closed[id] = now }
        let old = devices[index]
        var new = Device(
            id: old.id, process: Identifier(high: 6, low: random.next()), offset: old.offset)
        (new.life, new.wall, new.closed) = (old.life + 1, old.wall, old.closed)
        (new.isCutOff, new.feed) = (old.isCutOff, old.feed)
        devices[index] = new
        add(.connect(index), in: Int64(random.below(1 << 30)))
    }

    // MARK: Programs

    private mutating func open(_ index: Int, for time: Int64) {
        guard !devices[index].isStopped else { return }
        let id = Self.documents[random.below(Self.documents.count)]
        guard devices[index].open[id] == nil else { return }
        let closed = devices[index].closed[id]
        // A gap that no look may have seen is none.
        let isSame = closed.map { now - $0 <= LeaseTerms.settling } ?? false
        devices[index].open[id] = isSame ? closed! - LeaseTerms.settling : now
        add(.close(index, id, life: devices[index].life), in: time)
        poke(index)
    }

    private mutating func close(_ index: Int, _ id: Identifier) {
        guard devices[index].open.removeValue(forKey: id) != nil else { return }
        devices[index].closed[id] = now
        poke(index)
    }

    private mutating func poke(_ index: Int) {
        guard devices[index].isArmed, !devices[index].isStopped else { return }
        devices[index].isArmed = false
        apply(devices[index].holder.step(.changed, at: clock(index)), index)
    }

    private mutating func wake(_ index: Int) {
        // A process that was stopped wakes late, and then finds out what has happened.
        devices[index].nextWake = nil
        let time = clock(index)
        if let due = devices[index].holder.wakeTime, due <= time {
            apply(devices[index].holder.step(.woken, at: time), index)
        }
        if bug != .showsForEver, let due = devices[index].view.wakeTime, due <= time {
            applyView(devices[index].view.step(.woken, at: time), index)
        }
        if bug == .looksOnlyOnce { devices[index].isArmed = false }
        schedule(index)
    }

    mutating func schedule(_ index: Int) {
        let device = devices[index]
        var times = [device.holder.wakeTime, device.view.wakeTime].compactMap(\.self)
        if bug == .showsForEver { times = [device.holder.wakeTime].compactMap(\.self) }
        guard let due = times.min() else { return }
        let delay = max(0, due - clock(index))
        guard device.nextWake.map({ now + delay < $0 }) ?? true else { return }
        devices[index].nextWake = now + delay
        add(.wake(index, life: device.life), in: delay)
    }
}
