import Support

@testable import Coordination

/// What a schedule runs: the machine, or one with a planted bug.
protocol Steppable {
    mutating func step(_ event: Event) -> [Effect]
    /// Whether nothing is left of any party.
    var isEmpty: Bool { get }
}

extension Coordination: Steppable {
    var isEmpty: Bool {
        isIdle && tables.trie.isEmpty && tables.parties.isEmpty && tables.waiters.isEmpty
            && tables.requests.isEmpty && tables.responses.isEmpty && effects.isEmpty
    }
}

/// A random sequence of events, followed by a phase in which every program behaves correctly until
/// nothing is left to do.
struct Schedule<Machine: Steppable> {
    /// Whether programs behave correctly: no failures, no crashes, and no unknown or repeated ids.
    let isGood: Bool
    var random: SeededRandom
    var machine: Machine
    var ledger = Ledger()
    private(set) var log: [String]?
    private var lastClaim: UInt64 = 0
    private var lastPresenter: UInt64 = 0
    /// The claim for which each presenter is working. These presenters do one thing after the
    /// other.
    private var errands: [PresenterID: ClaimID] = [:]
    /// The numbers of questions to save whose presenter has begun to save.
    private var begun: Set<Int> = []
    private var serial: Set<PresenterID> = []
    /// The places of most events, so that the events meet.
    private let busyPlaces: [Place]

    init(seed: UInt64, _ machine: Machine, logs: Bool = false) {
        random = SeededRandom(seed: seed)
        isGood = random.oneIn(2)
        var places: [Place] = []
        for _ in 0..<(1 + random.below(4)) { places.append(random.pick(Names.universe)) }
        busyPlaces = places
        self.machine = machine
        log = logs ? [] : nil
    }

    /// Returns what is wrong, or nil.
    mutating func run() -> String? {
        for _ in 0..<(2 + random.below(4)) { present() }
        for _ in 0..<(8 + random.below(18)) {
            act()
            if let fault = ledger.fault { return fault }
        }
        var left = 2_000
        while let next = nextOfTheGood() {
            next(&self)
            left -= 1
            if let fault = ledger.fault { return fault }
            if left == 0 { return "no end" }
        }
        if let stuck = ledger.turns.first { return "\(stuck.id.number) waits for ever" }
        for presenting in ledger.presenters { step(.retired(presenting.id)) }
        return ledger.fault ?? (machine.isEmpty ? nil : "something is left")
    }

    mutating func step(_ event: Event, _ wants: [Want] = [], _ place: (Place, Place)? = nil) {
        let effects = machine.step(event)
        log?.append("\(event)\n        → \(effects)")
        ledger.judge(event, wants, place, effects)
    }

    // MARK: Everybody behaves

    /// A random next step of a program that behaves correctly.
    private mutating func nextOfTheGood() -> ((inout Self) -> Void)? {
        var all: [(inout Self) -> Void] = []
        for presenting in ledger.presenters {
            let id = presenting.id
            if let claim = errands[id] {
                guard let turn = ledger.turn(claim) else {
                    all.append { $0.errands[id] = nil }
                    continue
                }
                if turn.isGranted { all.append { $0.step(.released(claim)) } }
                continue
            }
            let asks = unanswered(by: id)
            for (claim, ask) in serial.contains(id) ? Array(asks.prefix(1)) : asks {
                all.append { $0.respond(id, claim, ask) }
            }
        }
        let busy = Set(ledger.presenters.compactMap { errands[$0.id] })
        for turn in ledger.turns where turn.isGranted && !busy.contains(turn.id) {
            all.append { $0.step(.released(turn.id)) }
        }
        return all.isEmpty ? nil : random.pick(all)
    }

    private func unanswered(by id: PresenterID) -> [(ClaimID, Ledger.Ask)] {
        var all: [(ClaimID, Ledger.Ask)] = []
        for turn in ledger.turns where !turn.isGranted {
            // The answers for one claim come in the order of the messages.
            if let ask = turn.asks[id]?.first(where: { !$0.isAnswered }) {
                all.append((turn.id, ask))
            }
        }
        return all.sorted { $0.1.number < $1.1.number }
    }

    /// A presenter that is asked to save writes first in half of all cases.
    private mutating func respond(_ id: PresenterID, _ claim: ClaimID, _ ask: Ledger.Ask) {
        if !ask.message.isRelinquish, begun.insert(ask.number).inserted, random.oneIn(2) {
            write(id)
        } else {
            step(.answered(id, claim, failure: nil))
        }
    }

    private mutating func write(_ id: PresenterID) {
        guard let presenting = ledger.presenting(id) else { return }
        let want = Want(letter: random.oneIn(4) ? .k : .u, place: presenting.place)
        lastClaim += 1
        if serial.contains(id) { errands[id] = ClaimID(lastClaim) }
        request(ClaimID(lastClaim), [want], presenting.presenter.clientSession, of: presenting)
    }

    // MARK: Anybody does anything

    private mutating func act() {
        switch random.below(isGood ? 16 : 26) {
        case 0...4: ask()
        case 5...8: if let next = nextOfTheGood() { next(&self) }
        case 9: hurry()
        case 10: moveAlong()
        case 11: happen()
        case 12: present()
        case 13: if let id = anyPresenter(), errands[id] == nil { write(id) }
        case 14: if let turn = anyTurn(), !turn.isGranted { step(.cancelled(turn.id)) }
        case 15: if random.oneIn(3), let id = anyPresenter() { step(.retired(id)) } else { ask() }
        case 16...18: answerSomehow()
        case 19: if random.oneIn(2) { step(.ended(ClientSession(UInt64(random.below(6))))) }
        case 20: if let turn = anyTurn() { step(.released(turn.id)) }
        case 21: interfere()
        case 22: if let turn = anyTurn() { step(.cancelled(turn.id)) }
        default: ask()
        }
    }

    private mutating func anyPresenter() -> PresenterID? {
        ledger.presenters.isEmpty ? nil : random.pick(ledger.presenters).id
    }

    private mutating func anyTurn() -> Ledger.Turn? {
        ledger.turns.isEmpty ? nil : random.pick(ledger.turns)
    }

    /// Events with unknown ids, or with an id that belongs to another program.
    private mutating func interfere() {
        let claim = ClaimID(UInt64(random.below(Int(lastClaim) + 3)))
        switch random.below(6) {
        case 0: step(.released(claim))
        case 1: step(.overdue(claim))
        case 2: step(.answered(PresenterID(99), claim, failure: "who?"))
        case 3: step(.retired(PresenterID(UInt64(random.below(Int(lastPresenter) + 3)))))
        case 4: step(.ended(ClientSession(77)))
        default:
            if let turn = anyTurn() { request(turn.id, [anyWant()], ClientSession(1), of: nil) }
            if let id = anyPresenter() { present(again: id) }
        }
    }

    private mutating func answerSomehow() {
        guard let id = anyPresenter(), lastClaim > 0 else { return }
        let failure = random.oneIn(3) ? "no space" : nil
        if random.oneIn(3) {
            step(.answered(id, ClaimID(1 + random.next() % lastClaim), failure: failure))
        } else if let (claim, _) = unanswered(by: id).first {
            step(.answered(id, claim, failure: failure))
        }
    }

    private mutating func hurry() {
        if let turn = ledger.turns.last(where: { $0.isPlain && !$0.isGranted }) {
            step(.overdue(turn.id))
        }
    }

    private mutating func present(again: PresenterID? = nil) {
        if again == nil { lastPresenter += 1 }
        let id = again ?? PresenterID(lastPresenter)
        let place = anyPlace()
        let isPackage = Names.isPackage[place[place.count - 1]]
        var hears = Presenter.Capabilities.all
        if random.oneIn(3) {
            hears = Presenter.Capabilities(rawValue: UInt16(random.below(1 << 12)))
        }
        let presenter = Presenter(
            Names.path(place), isDirectory: !isPackage && random.oneIn(2), hears: hears,
            clientSession: ClientSession(UInt64(random.below(4))))
        errands[id] = nil
        if random.oneIn(2) { serial.insert(id) } else { serial.remove(id) }
        step(.presented(id, presenter), [], (place, []))
    }

    private mutating func anyPlace() -> Place {
        if !random.oneIn(4) { return random.pick(busyPlaces) }
        return random.oneIn(2) || ledger.presenters.isEmpty
            ? random.pick(Names.universe) : random.pick(ledger.presenters).place
    }

    private mutating func anyWant() -> Want {
        let letter = random.oneIn(2) ? Letter.r : random.pick(Letter.allCases)
        return Want(letter: letter, isWithoutChanges: random.oneIn(4), place: anyPlace())
    }

    private mutating func ask() {
        lastClaim += 1
        var wants = [anyWant()]
        if random.oneIn(3) { wants.append(anyWant()) }
        if random.oneIn(8) { wants.append(anyWant()) }
        let presenting = random.oneIn(4) ? anyPresenter().flatMap { ledger.presenting($0) } : nil
        // A serial presenter does this at the same time as something else, so it may only write, or
        // it would wait for another one's save.
        if let id = presenting?.id, serial.contains(id) { wants = wants.filter { $0.letter == .u } }
        guard !wants.isEmpty else { return }
        request(ClaimID(lastClaim), wants, ClientSession(UInt64(random.below(4))), of: presenting)
    }

    private mutating func request(
        _ id: ClaimID, _ wants: [Want], _ clientSession: ClientSession,
        of presenting: Ledger.Presenting?
    ) {
        var purposes: Set<Purpose> = []
        var presenters: Set<PresenterID> = []
        if let presenting {
            purposes.insert(Purpose("p\(presenting.id.number)"))
            presenters.insert(presenting.id)
        } else if random.oneIn(5) {
            purposes.insert(Purpose("c\(random.below(2))"))
        }
        var manner = Request.Manner.coordinated
        if presenting == nil || random.oneIn(5) {
            if random.oneIn(6) { manner = .preparing }
            if random.oneIn(5) { manner = .plain(goesAhead: random.oneIn(2)) }
        }
        let targets = wants.map { Request.Target($0.access, Names.path($0.place)) }
        let request = Request(
            targets, manner: manner, purposes: purposes, presenters: presenters,
            clientSession: clientSession,
            isTry: presenting == nil && random.oneIn(8))
        step(.requested(id, request), wants)
    }

    /// A move by a program that has a claim for it, or by one that asks nobody.
    private mutating func moveAlong() {
        var (from, to) = (anyPlace(), anyPlace())
        var by: Set<PresenterID> = []
        for turn in ledger.turns where turn.isGranted && turn.wants.count > 1 {
            guard let source = turn.wants.first(where: { $0.letter == .m }),
                let target = turn.wants.first(where: { $0.letter == .z })
            else { continue }
            (from, to) = (source.place, target.place)
            by = turn.request.presenters
        }
        if let turn = anyTurn(), random.oneIn(2) { from = turn.wants[0].place }
        guard to.count < 6, from.count < 6 else { return }
        step(.moved(from: Names.path(from), to: Names.path(to), by: by), [], (from, to))
    }

    private mutating func happen() {
        let place = anyPlace()
        let path = Names.path(place)
        let by = Set(random.oneIn(2) ? [anyPresenter()].compactMap { $0 } : [])
        switch random.below(3) {
        case 0: step(.changed(path, by: by), [], (place, []))
        case 1: step(.appeared(path, by: by), [], (place, []))
        default:
            step(.version(path, random.oneIn(2) ? .gained : .lost, id: "v"), [], (place, []))
        }
    }
}
