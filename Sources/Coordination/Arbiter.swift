import Synchronization

/// Runs the coordination of one volume: it numbers the requests and presenters, and delivers each
/// effect, in order.
///
/// All callbacks (`outcome`, `listener`, `observer`) run while the arbiter's mutex is locked. They
/// must be quick and must not call the arbiter.
package final class Arbiter: Sendable {
    package enum Outcome: Sendable {
        case granted([Path])
        case refused(Refusal)
    }

    /// An event in the life of claims and presenters, for observers.
    package enum Note: Sendable {
        case waiting(process: Int32, [Path])
        case claimed(process: Int32, [Path])
        case released(process: Int32, [Path])
        case presented(process: Int32, Path)
        case retired(process: Int32, Path)
        case happened(ObservedChange, process: Int32, program: String)
    }

    /// A change in the tree.
    package enum ObservedChange: Sendable {
        case changed(Path)
        case appeared(Path)
        case removed(Path)
        case moved(from: Path, to: Path)

        var paths: [Path] {
            switch self {
            case .changed(let path), .appeared(let path), .removed(let path): [path]
            case .moved(let from, let to): [from, to]
            }
        }
    }

    package typealias OutcomeHandler = @Sendable (ClaimID, Outcome) -> Void

    struct State {
        var coordination = Coordination()
        var last: UInt64 = 0
        var outcomeHandlers: [ClaimID: OutcomeHandler] = [:]
        var listeners: [PresenterID: @Sendable (Message, Int32?) -> Void] = [:]
        /// The process behind each party.
        var processes: [ClientSession: Int32] = [:]
        var observers: [ClientSession: @Sendable (Note) -> Void] = [:]

        /// When each claim was requested and each presenter registered: nanoseconds since 1970.
        var since: [UInt64: Int64] = [:]
        var written = LastWrites()

        func process(_ clientSession: ClientSession) -> Int32 { processes[clientSession] ?? 0 }
        func process(_ request: Request) -> Int32 {
            request.process > 0 ? request.process : process(request.clientSession)
        }

        mutating func next() -> UInt64 {
            last += 1
            return last
        }
    }

    private let state = Mutex(State())
    private let quiet = Atomic(true)

    private let clock: @Sendable () -> Int64

    /// - Parameter clock: The present time in nanoseconds since 1970. It is only shown to people.
    package init(clock: @escaping @Sendable () -> Int64 = { 0 }) { self.clock = clock }

    /// Whether there are no claims, presenters and observers, so that callers need not ask the
    /// arbiter at all.
    package var isQuiet: Bool { quiet.load(ordering: .relaxed) }

    // MARK: Parties

    /// Registers a party. The system calls of `process` and of its children count as the party's; 0
    /// means no process.
    package func join(process: Int32) -> ClientSession {
        state.withLock { state in
            let clientSession = ClientSession(state.next())
            if process > 0 { state.processes[clientSession] = process }
            return clientSession
        }
    }

    /// Ends all claims and presenters of the party.
    package func leave(_ clientSession: ClientSession) {
        state.withLock { state in
            state.observers[clientSession] = nil
            run(.ended(clientSession), &state)
            state.processes[clientSession] = nil
        }
    }

    package func become(_ clientSession: ClientSession, process: Int32) {
        state.withLock { $0.processes[clientSession] = process }
    }

    /// The purposes of the claims of some processes (a process and its ancestors), and their
    /// presenters.
    package func belongings(of processes: [Int32]) -> (Set<Purpose>, Set<PresenterID>) {
        state.withLock { state in
            var purposes: Set<Purpose> = []
            var presenters: Set<PresenterID> = []
            for (clientSession, process) in state.processes where processes.contains(process) {
                let found = state.coordination.tables.belongings(of: clientSession)
                for id in found.claims {
                    purposes.formUnion(state.coordination.tables.claims[id]?.request.purposes ?? [])
                }
                presenters.formUnion(found.presenters)
            }
            return (purposes, presenters)
        }
    }

    // MARK: Claims

    /// Whether any claim or presenter concerns these items. If not, the access needs no
    /// arbitration.
    package func concerns(_ targets: [Request.Target]) -> Bool {
        state.withLock { state in targets.contains { state.coordination.tables.concerns($0) } }
    }

    /// Requests a claim. `hearing` is called once with the outcome, perhaps before this
    /// returns. It is not called when the party leaves first.
    @discardableResult
    package func request(
        _ request: Request, as reserved: ClaimID? = nil, _ hearing: @escaping OutcomeHandler
    ) -> ClaimID {
        state.withLock { state in
            let id = reserved ?? ClaimID(state.next())
            var request = request
            // A purpose of its own makes the claim recognizable in the system calls of its process.
            if request.purposes.isEmpty { request.purposes = [Purpose("claim \(id.number)")] }
            state.outcomeHandlers[id] = hearing
            state.since[id.number] = clock()
            run(.requested(id, request), &state)
            if !state.observers.isEmpty, state.coordination.tables.claims[id]?.isGranted == false {
                note(
                    .waiting(process: state.process(request), request.targets.map(\.path)),
                    state)
            }
            return id
        }
    }

    /// Reserves an id, for a caller that must know it before the request is answered.
    package func reserve() -> ClaimID { state.withLock { ClaimID($0.next()) } }

    /// The request and the present paths of a granted claim; nil if it is not granted.
    package func granted(_ id: ClaimID) -> (Request, [Path])? {
        state.withLock { state in
            guard let claim = state.coordination.tables.claims[id], claim.isGranted else {
                return nil
            }
            return (claim.request, claim.targets.map(\.path))
        }
    }

    /// The process that holds an explicit claim under which the contents of the item must stay.
    package func holder(ofContentsAt place: Path) -> Int32? {
        state.withLock { state in
            state.coordination.tables.claim(keepingContentsOf: place).map {
                state.process($0.request)
            }
        }
    }

    /// Whether the claim waits for other claims or for answers of presenters.
    package func isWaiting(_ id: ClaimID) -> Bool {
        state.withLock { $0.coordination.tables.claims[id]?.isGranted == false }
    }

    package func process(_ clientSession: ClientSession) -> Int32 {
        state.withLock { $0.process(clientSession) }
    }

    /// The number of the last write claim at the place, below or above it. Nil while such a claim
    /// is granted. If two calls return the same number, there was no such claim in between.
    package func lastWrite(at place: Path) -> UInt64? {
        state.withLock { state in
            let isWritten = state.coordination.tables.claims.values.contains { claim in
                claim.isCoordinated && claim.isGranted
                    && claim.targets.contains {
                        $0.access.isWriting && $0.path.isInLine(with: place)
                    }
            }
            return isWritten ? nil : state.written.last(at: place)
        }
    }

    package func step(_ event: Event) {
        state.withLock { state in run(event, &state) }
    }

    // MARK: Presenters

    /// - Parameter listener: Called with each message. If a system call of a plain program caused
    ///   the message, its process is passed, too. The listener must be quick.
    package func present(
        _ presenter: Presenter, _ listener: @escaping @Sendable (Message, Int32?) -> Void
    ) -> PresenterID {
        state.withLock { state in
            let id = PresenterID(state.next())
            state.listeners[id] = listener
            state.since[id.number] = clock()
            run(.presented(id, presenter), &state)
            note(
                .presented(process: state.process(presenter.clientSession), presenter.path), state)
            return id
        }
    }

    package func retire(_ id: PresenterID) {
        state.withLock { state in
            if let gone = state.coordination.tables.presenters[id]?.presenter {
                note(.retired(process: state.process(gone.clientSession), gone.path), state)
            }
            run(.retired(id), &state)
            state.listeners[id] = nil
            state.since[id.number] = nil
        }
    }

    /// The presenters of this item itself, or all presenters, with what they hear.
    package func presenters(of place: Path? = nil)
        -> [(id: PresenterID, process: Int32, hears: Presenter.Capabilities)]
    {
        state.withLock { state in
            let coordination = state.coordination
            let ids =
                place.map { coordination.tables.presentersAt($0) }
                ?? coordination.tables.presenters.keys.sorted()
            return ids.compactMap { id in
                guard let found = coordination.tables.presenters[id]?.presenter else { return nil }
                return (id, state.process(found.clientSession), found.hears)
            }
        }
    }

    // MARK: Looking on

    package func observe(
        _ clientSession: ClientSession, _ observer: @escaping @Sendable (Note) -> Void
    ) {
        state.withLock { state in
            state.observers[clientSession] = observer
            quiet.store(false, ordering: .relaxed)
        }
    }

    /// Whether an observer or a presenter must be notified of this, or whether claims and
    /// presenters must follow a move.
    package func isObserved(_ happening: ObservedChange) -> Bool {
        state.withLock { state in
            if !state.observers.isEmpty { return true }
            if case .moved(let from, _) = happening,
                state.coordination.tables.trie.find(from) != nil
            {
                return true
            }
            return happening.paths.contains { state.coordination.tables.isPresented($0) }
        }
    }

    /// Notifies presenters, except those that made the change themselves (`own`).
    package func tell(
        _ happening: ObservedChange, by own: Set<PresenterID>, process: Int32, program: String
    ) {
        state.withLock { state in
            switch happening {
            case .changed(let path), .removed(let path): run(.changed(path, by: own), &state)
            case .appeared(let path): run(.appeared(path, by: own), &state)
            case .moved(let from, let to): run(.moved(from: from, to: to, by: own), &state)
            }
            note(.happened(happening, process: process, program: program), state)
        }
    }

    /// A claim or a presenter, as it is listed for people.
    package struct ClaimStatus: Sendable {
        package enum Kind: Sendable { case claim, plain, presenter }
        package enum State: Sendable { case waiting, asking, granted }

        package var kind: Kind
        package var state: State
        package var access: Access?
        package var path: Path
        package var process: Int32
        package var since: Int64
        /// The processes that the claim waits for, and why.
        package var behind: [(process: Int32, why: String)]
    }

    /// The claims and presenters at the place and below it; nil means everywhere.
    package func claimStatuses(at top: Path?) -> [ClaimStatus] {
        state.withLock { state in
            let isHere = { (path: Path) in
                guard let top else { return true }
                return path.names == top.names || path.isBelow(top)
            }
            var found: [ClaimStatus] = []
            for (id, claim) in state.coordination.tables.claims.sorted(by: { $0.key < $1.key }) {
                for target in claim.targets where isHere(target.path) {
                    found.append(status(id, claim, target, state))
                }
            }
            for (id, presenting) in state.coordination.tables.presenters.sorted(by: {
                $0.key < $1.key
            })
            where isHere(presenting.presenter.path) {
                found.append(
                    ClaimStatus(
                        kind: .presenter, state: .granted, access: nil,
                        path: presenting.presenter.path,
                        process: state.process(presenting.presenter.clientSession),
                        since: state.since[id.number] ?? 0, behind: []))
            }
            return found
        }
    }

    private func status(
        _ id: ClaimID, _ claim: Claim, _ target: Claim.Target, _ state: State
    ) -> ClaimStatus {
        var behind: [(process: Int32, why: String)] = []
        var now = ClaimStatus.State.granted
        switch claim.phase {
        case .granted: break
        case .waiting(let other):
            now = .waiting
            if let first = state.coordination.tables.claims[other] {
                behind = [
                    (
                        state.process(first.request),
                        first.isGranted ? "holds a claim" : "is before it in the queue"
                    )
                ]
            }
        case .asking:
            now = .asking
            for presenter in claim.outstanding.sorted() {
                guard
                    let clientSession = state.coordination.tables.presenters[presenter]?.presenter
                        .clientSession
                else {
                    continue
                }
                behind.append((state.process(clientSession), "was asked to relinquish"))
            }
        }
        return ClaimStatus(
            kind: claim.isCoordinated ? .claim : .plain, state: now, access: target.access,
            path: target.path,
            process: state.process(claim.request),
            since: state.since[id.number] ?? 0, behind: behind)
    }

    // MARK: The machine

    private func run(_ event: Event, _ state: inout State) {
        let ending = state.observers.isEmpty ? nil : claim(ending: event, state)
        let effects = state.coordination.step(event)
        quiet.store(
            state.coordination.isIdle && state.observers.isEmpty, ordering: .relaxed)
        if let ending, state.coordination.tables.claims[ending.id] == nil {
            note(
                .released(
                    process: state.process(ending.request), ending.targets.map(\.path)),
                state)
        }
        for effect in effects {
            switch effect {
            case .granted(let id, let paths):
                if let claim = state.coordination.tables.claims[id] {
                    if claim.isCoordinated { state.written.note(claim, state.next()) }
                    note(.claimed(process: state.process(claim.request), paths), state)
                }
                state.outcomeHandlers.removeValue(forKey: id)?(id, .granted(paths))
            case .refused(let id, let refusal):
                state.since[id.number] = nil
                state.outcomeHandlers.removeValue(forKey: id)?(id, .refused(refusal))
            case .told(let id, let message):
                let claim = message.claim.flatMap { state.coordination.tables.claims[$0] }
                let process = claim.flatMap { $0.isPlain ? state.process($0.request) : nil }
                state.listeners[id]?(message, process)
            }
        }
        if case .released(let id) = event { state.since[id.number] = nil }
        if case .ended = event { forgetEnded(&state) }
    }

    private func claim(ending event: Event, _ state: State) -> Claim? {
        guard case .released(let id) = event else { return nil }
        return state.coordination.tables.claims[id]
    }

    private func note(_ note: Note, _ state: State) {
        for observer in state.observers.values { observer(note) }
    }

    /// Drops the callbacks of claims and presenters that ended together with their party.
    private func forgetEnded(_ state: inout State) {
        let (claims, presenters) = (
            state.coordination.tables.claims, state.coordination.tables.presenters
        )
        state.outcomeHandlers = state.outcomeHandlers.filter { claims[$0.key] != nil }
        state.listeners = state.listeners.filter { presenters[$0.key] != nil }
        state.since = state.since.filter {
            claims[ClaimID($0.key)] != nil || presenters[PresenterID($0.key)] != nil
        }
    }
}
