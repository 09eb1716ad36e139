@testable import Coordination

/// Records what is visible from outside: which requests were made, which messages were sent, and
/// which were answered. It checks each step of the machine.
struct Ledger {
    struct Ask {
        var message: Message
        var number: Int
        var isAnswered = false
        /// The presenter waited itself in the meantime, so the claim need not wait for it.
        var isExcused = false
    }

    struct Turn {
        var id: ClaimID
        var wants: [Want]
        var request: Request
        var isGranted = false
        var asks: [PresenterID: [Ask]] = [:]

        var isPlain: Bool { if case .plain = request.manner { true } else { false } }
        var isCoordinated: Bool { request.manner == .coordinated }
        var isPreparing: Bool { request.manner == .preparing }
        /// The presenters that have relinquished for this claim.
        var open: [PresenterID] {
            asks.filter { $0.value.contains { $0.message.isRelinquish } }.map(\.key)
        }

        func conflicts(_ other: Turn) -> Bool {
            id != other.id && other.isCoordinated
                && request.purposes.isDisjoint(with: other.request.purposes)
                && wants.contains { mine in other.wants.contains { Rules.conflict(mine, $0) } }
        }
    }

    struct Presenting {
        var id: PresenterID
        var presenter: Presenter
        var place: Place
        var isPackage: Bool { place.last.map { Names.isPackage[$0] } ?? false }
    }

    var turns: [Turn] = []
    var presenters: [Presenting] = []
    private(set) var fault: String?
    private var asked = 0
    private var refusal: (ClaimID, Refusal)?
    private var reacquires: [(PresenterID, ClaimID)] = []
    private var tells: [(PresenterID, Message)] = []
    /// The plain access whose time is over in this step.
    private var lapsed: ClaimID?
    private var mayRefuse: Set<ClaimID> = []

    mutating func blame(_ text: String) { if fault == nil { fault = text } }

    func turn(_ id: ClaimID) -> Turn? { turns.first { $0.id == id } }
    func presenting(_ id: PresenterID) -> Presenting? { presenters.first { $0.id == id } }

    // MARK: Events

    mutating func judge(
        _ event: Event, _ wants: [Want], _ place: (Place, Place)?, _ effects: [Effect]
    ) {
        refusal = nil
        lapsed = nil
        mayRefuse = []
        take(event, wants, place)
        for effect in effects {
            if case .told = effect {} else { excuse() }
            see(effect)
        }
        if let (id, refusal) = refusal { blame("\(id.number) is not refused: \(refusal)") }
        if let lapsed, turn(lapsed)?.isGranted == false { blame("overdue, and still waiting") }
        if !reacquires.isEmpty { blame("never reacquires: \(reacquires)") }
        if !tells.isEmpty { blame("never told: \(tells)") }
        excuse()
        checkNobodyIsForgotten()
    }

    private mutating func take(_ event: Event, _ wants: [Want], _ place: (Place, Place)?) {
        switch event {
        case .requested(let id, let request):
            guard turn(id) == nil else { return }
            let new = Turn(id: id, wants: wants, request: request)
            if request.isTry, !new.isPreparing, turns.contains(where: { new.conflicts($0) }) {
                mayRefuse.insert(id)
                if turns.contains(where: { new.conflicts($0) && $0.isGranted }) {
                    refusal = (id, .busy)
                }
            }
            turns.append(new)
        case .released(let id): if turn(id)?.isGranted == true { drop(id) }
        case .cancelled(let id): if turn(id)?.isGranted == false { refusal = (id, .cancelled) }
        case .overdue(let id): lapse(id)
        // No reader of the simulation yields.
        case .yieldExpired: break
        case .presented(let id, let presenter):
            retire(id)
            presenters.append(Presenting(id: id, presenter: presenter, place: place!.0))
        case .retired(let id): retire(id)
        case .answered(let presenter, let id, let failure): answer(presenter, id, failure)
        case .ended(let clientSession):
            for presenting in presenters where presenting.presenter.clientSession == clientSession {
                retire(presenting.id)
            }
            for turn in turns where turn.request.clientSession == clientSession { drop(turn.id) }
        case .changed(_, let by): tells = expectedChange(place!.0, by, isNew: false)
        case .appeared(_, let by): tells = expectedChange(place!.0, by, isNew: true)
        case .moved(_, _, let by): move(place!.0, place!.1, by)
        case .version(_, let change, let id): tells = expectedVersion(place!.0, change, id)
        }
    }

    private mutating func lapse(_ id: ClaimID) {
        guard let turn = turn(id), !turn.isGranted, case .plain(let goesAhead) = turn.request.manner
        else { return }
        lapsed = id
        guard !goesAhead else { return }
        if turns.contains(where: { turn.conflicts($0) && $0.isGranted }) {
            refusal = (id, .busy)
        } else if turns.contains(where: { turn.conflicts($0) && $0.id < id }) {
            mayRefuse.insert(id)
        }
    }

    private mutating func retire(_ id: PresenterID) {
        presenters.removeAll { $0.id == id }
        for index in turns.indices { turns[index].asks[id] = nil }
    }

    private mutating func answer(_ presenter: PresenterID, _ id: ClaimID, _ failure: String?) {
        guard let at = turns.firstIndex(where: { $0.id == id }), !turns[at].isGranted,
            let which = turns[at].asks[presenter]?.firstIndex(where: { !$0.isAnswered })
        else { return }
        turns[at].asks[presenter]![which].isAnswered = true
        if let failure, !turns[at].asks[presenter]![which].message.isRelinquish {
            refusal = (id, .failed(failure))
        }
    }

    private mutating func drop(_ id: ClaimID) {
        guard let turn = turn(id) else { return }
        reacquires += turn.open.map { ($0, id) }
        turns.removeAll { $0.id == id }
    }

    private mutating func move(_ from: Place, _ to: Place, _ by: Set<PresenterID>) {
        guard from != to, !Rules.isBelow(to, from) else { return }
        func moved(_ place: Place) -> Place {
            place.starts(with: from) ? to + place.dropFirst(from.count) : place
        }
        tells = expectedMove(from, to, by)
        for index in presenters.indices { presenters[index].place = moved(presenters[index].place) }
        for index in turns.indices {
            for which in turns[index].wants.indices {
                let want = turns[index].wants[which]
                // C6: a claim to replace stays at its place until it is granted.
                if want.letter == .z, want.place == from, !turns[index].isGranted { continue }
                turns[index].wants[which].place = moved(want.place)
            }
        }
    }

    // MARK: Effects

    private mutating func see(_ effect: Effect) {
        switch effect {
        case .granted(let id, let paths): seeGrant(id, paths)
        case .refused(let id, let why): seeRefusal(id, why)
        case .told(let presenter, let message): seeMessage(presenter, message)
        }
    }

    private mutating func seeGrant(_ id: ClaimID, _ paths: [Path]) {
        guard let at = turns.firstIndex(where: { $0.id == id }), !turns[at].isGranted else {
            return blame("\(id.number) is granted again, or was never asked for")
        }
        let turn = turns[at]
        if paths.map(\.names) != turn.wants.map({ Names.path($0.place).names }) {
            blame("\(id.number) is granted elsewhere: \(paths)")
        }
        if lapsed != id {
            checkTurn(turn)
            checkAllAsked(turn)
        }
        turns[at].isGranted = true
        if turn.isPreparing { drop(id) }
    }

    private mutating func seeRefusal(_ id: ClaimID, _ why: Refusal) {
        guard turn(id)?.isGranted == false else { return blame("\(id.number) is refused late") }
        if let (expected, reason) = refusal, expected == id, reason == why {
            refusal = nil
        } else if why != .busy || !mayRefuse.contains(id) {
            blame("\(id.number) is refused: \(why)")
        }
        drop(id)
    }

    private mutating func seeMessage(_ id: PresenterID, _ message: Message) {
        guard let presenting = presenting(id) else { return blame("told, and gone: \(message)") }
        if case .reacquire(let claim) = message {
            guard let at = reacquires.firstIndex(where: { $0 == (id, claim) }) else {
                return blame("reacquires \(claim.number) without having let go, or too early")
            }
            reacquires.remove(at: at)
        } else if let claim = message.claim {
            seeAsk(presenting, message, claim)
        } else {
            guard let at = tells.firstIndex(where: { $0 == (id, message) }) else {
                return blame("\(id.number) is told for no reason: \(message)")
            }
            tells.remove(at: at)
        }
    }

    private mutating func seeAsk(_ presenting: Presenting, _ message: Message, _ id: ClaimID) {
        let presenter = presenting.id
        if reacquires.contains(where: { $0.0 == presenter }) {
            blame("\(presenter.number) is asked before it has reacquired")
        }
        guard let at = turns.firstIndex(where: { $0.id == id }), !turns[at].isGranted else {
            return blame("asked for a claim that does not wait: \(message)")
        }
        let turn = turns[at]
        checkTurn(turn)
        if !duties(turn, presenting).contains(message) {
            blame("\(presenter.number) is asked what it should not be: \(message)")
        }
        let known = turn.asks[presenter] ?? []
        if known.contains(where: {
            $0.message == message || $0.message.isRelinquish && message.isRelinquish
        }) {
            blame("asked twice: \(message)")
        }
        if !message.isRelinquish, !turn.isPreparing {
            for ask in turn.asks.values.joined()
            where ask.message.isRelinquish && !isDone(ask, turn, presenter) {
                blame("\(message) before all have let go")
            }
        }
        asked += 1
        turns[at].asks[presenter, default: []].append(Ask(message: message, number: asked))
    }

    // MARK: What must hold

    private func isDone(_ ask: Ask, _ turn: Turn, _ presenter: PresenterID) -> Bool {
        if ask.isAnswered || ask.isExcused { return true }
        let owner = turn.asks.first { $0.value.contains { $0.number == ask.number } }?.key
        return ask.message.isRelinquish && owner.map(isWaiting) == true
    }

    /// Whether a presenter waits for a claim of its own.
    private func isWaiting(_ presenter: PresenterID) -> Bool {
        turns.contains { !$0.isGranted && $0.request.presenters.contains(presenter) }
    }

    /// The messages of C4 that the presenter implements, each once.
    private func duties(_ turn: Turn, _ presenting: Presenting) -> [Message] {
        guard !turn.request.presenters.contains(presenting.id) else { return [] }
        var all: [Message] = []
        for want in turn.wants where !turn.isPlain || !isCovered(want, within(turn)) {
            for message in Rules.duties(
                want, presenterAt: presenting.place, turn.id, isPreparing: turn.isPreparing)
            where presenting.presenter.hears.contains(message.capability) && !all.contains(message)
            { all.append(message) }
        }
        if all.contains(.relinquishToWriter(turn.id)) {
            all.removeAll { $0 == .relinquishToReader(turn.id) }
        }
        return all
    }

    /// What a program does under its own claim asks no presenter again.
    private func isCovered(_ want: Want, _ held: [Turn]) -> Bool {
        held.filter(\.isCoordinated).flatMap(\.wants).contains { mine in
            guard mine.letter != .r || want.letter == .r else { return false }
            if Rules.isOneUnit(mine.place, want.place) { return true }
            return mine.letter.isDeep && Rules.isBelow(want.place, mine.place)
        }
    }

    /// Exclusion and order: no conflicting claim is granted or came earlier.
    private mutating func checkTurn(_ turn: Turn) {
        guard !turn.isPreparing else { return }
        for other in turns where turn.conflicts(other) {
            if other.isGranted {
                blame("\(turn.id.number) goes on beside \(other.id.number)")
            } else if other.id < turn.id, !owes(turn, anything: true), !waitsBehind(other, by: turn)
            {
                blame("\(turn.id.number) goes before \(other.id.number)")
            }
        }
    }

    /// Whether the other claim waits only for the end of a claim under which this one is made.
    private func isMine(_ other: Turn, _ turn: Turn) -> Bool {
        within(turn).contains { other.conflicts($0) }
    }

    /// Whether the other claim waits for the end of a claim under which this one is made, directly
    /// or behind another one that does.
    private func waitsBehind(_ other: Turn, by turn: Turn) -> Bool {
        let mine = within(turn)
        guard !mine.isEmpty else { return false }
        var held = turns.filter { one in
            !one.isGranted && mine.contains { one.conflicts($0) }
        }
        var next = held
        while let one = next.popLast() {
            for later in turns
            where !later.isGranted && !held.contains(where: { $0.id == later.id }) {
                guard later.conflicts(one) else { continue }
                held.append(later)
                next.append(later)
            }
        }
        return held.contains { $0.id == other.id }
    }

    /// The granted claims that share a purpose with a request.
    private func within(_ turn: Turn) -> [Turn] {
        turns.filter {
            $0.isGranted && $0.id != turn.id
                && !$0.request.purposes.isDisjoint(with: turn.request.purposes)
        }
    }

    private mutating func checkAllAsked(_ turn: Turn) {
        for presenting in presenters {
            let asks = turn.asks[presenting.id] ?? []
            for duty in duties(turn, presenting)
            where !asks.contains(where: {
                $0.message == duty || $0.message.isRelinquish && duty.isRelinquish
            }) { blame("\(turn.id.number) is granted without \(duty) of \(presenting.id.number)") }
        }
        for (presenter, asks) in turn.asks {
            for ask in asks where !isDone(ask, turn, presenter) {
                blame("\(turn.id.number) is granted without an answer to \(ask.message)")
            }
        }
    }

    /// Whether the request's presenter owes an answer: any answer, or only one that always counts.
    private func owes(_ turn: Turn, anything: Bool) -> Bool {
        turn.request.presenters.contains { presenter in
            turns.contains { other in
                !other.isGranted
                    && other.asks[presenter]?.contains {
                        !$0.isAnswered && (anything || !$0.message.isRelinquish)
                    } == true
            }
        }
    }

    private mutating func excuse() {
        for index in turns.indices where !turns[index].isGranted {
            for (presenter, asks) in turns[index].asks where isWaiting(presenter) {
                for which in asks.indices where asks[which].message.isRelinquish {
                    turns[index].asks[presenter]![which].isExcused = true
                }
            }
        }
    }

    /// No wake-up is lost: every claim that waits, waits for another claim or for an answer.
    private mutating func checkNobodyIsForgotten() {
        for turn in turns where !turn.isGranted {
            if turn.asks.values.contains(where: { $0.contains { !$0.isAnswered } }) { continue }
            if !turn.isPreparing {
                let hurries = owes(turn, anything: false)
                let isBehind = turns.contains {
                    turn.conflicts($0)
                        && ($0.isGranted
                            || $0.id < turn.id && !(hurries && !owes($0, anything: true))
                                && !isMine($0, turn))
                }
                if isBehind { continue }
            }
            blame("\(turn.id.number) waits for nobody")
        }
    }
}
