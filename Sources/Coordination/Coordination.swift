/// Decides which request waits for which claim, which presenter gets which message, and in which
/// order: the rules of Rules.md as a state machine without clock and I/O. Claims are scheduled in
/// the order of their numbers: each new number is greater than all before.
package struct Coordination: Sendable {
    var tables = ClaimTables()
    /// Claims that must be examined before the step ends.
    private var toExamine: Set<ClaimID> = []
    var effects: [Effect] = []
    /// The number of claims that were examined, so that tests can check the cost.
    var examinedCount = 0

    package init() {}

    /// There are no claims and no presenters, so that a plain program need not ask.
    package var isIdle: Bool { tables.isEmpty }

    package mutating func step(_ event: Event) -> [Effect] {
        switch event {
        case .requested(let id, let request): schedule(id, request)
        case .released(let id): if tables.claims[id]?.isGranted == true { end(id) }
        case .cancelled(let id): if tables.claims[id]?.isGranted == false { refuse(id, .cancelled) }
        case .overdue(let id): lapse(id)
        case .yieldExpired(let id): stopWaitingForYielding(id)
        case .presented(let id, let presenter): present(id, presenter)
        case .retired(let id): retire(id)
        case .answered(let presenter, let id, let failure): answer(presenter, id, failure)
        case .ended(let clientSession): end(clientSession)
        case .changed(let path, let by): tellChange(path, by)
        case .appeared(let path, let by): tellAppearance(path, by)
        case .moved(let from, let to, let by): move(from, to, by)
        case .version(let path, let change, let id): tellVersion(path, change, id)
        }
        settle()
        defer { effects = [] }
        return effects
    }

    // MARK: Claims

    private mutating func schedule(_ id: ClaimID, _ request: Request) {
        guard tables.claims[id] == nil else { return }
        let targets = request.targets.map { target in
            Claim.Target(
                access: target.access, path: target.path,
                spot: tables.trie.retain(target.path.steps),
                unit: tables.trie.retain(target.path.unit), yields: target.yields)
        }
        let claim = Claim(id: id, request: request, targets: targets)
        tables.claims[id] = claim
        tables.enqueue(claim)
        for purpose in request.purposes { tables.related[purpose, default: []].insert(id) }
        tables.parties[request.clientSession, default: ClaimTables.Belongings()].claims.insert(id)
        for target in targets { tables.trie[target.spot].claims.insert(id) }
        for presenter in request.presenters { tables.requests[presenter, default: []].insert(id) }
        reconsider(id)
        if request.isTry, blocker(of: claim) != nil {
            refuse(id, .busy)
        } else {
            toExamine.insert(id)
        }
    }

    /// Examines again the claims that wait for this one.
    mutating func reexamine(waitersOf id: ClaimID) {
        toExamine.formUnion(tables.waiters[id] ?? [])
    }

    /// Examines again the claims with the same purposes. What is done under a granted claim goes
    /// before the claims that wait for its end, and these have changed.
    mutating func reexamine(relatedTo claim: Claim) {
        for purpose in claim.request.purposes {
            toExamine.formUnion(
                tables.related[purpose]?.filter { tables.claims[$0]?.isGranted == false } ?? [])
        }
    }

    mutating func reexamine(_ id: ClaimID) { toExamine.insert(id) }

    /// Examines claims until nothing changes any more. It goes in the order of their numbers, so
    /// that equal events always have equal effects.
    private mutating func settle() {
        while !toExamine.isEmpty {
            let round = toExamine.sorted()
            toExamine = []
            for id in round { advance(id) }
        }
    }

    /// Brings a claim as far as possible: it waits for a claim, asks presenters, or is granted.
    private mutating func advance(_ id: ClaimID) {
        guard let claim = tables.claims[id], !claim.isGranted else { return }
        examinedCount += 1
        if let other = blocker(of: claim) {
            if claim.phase != .waiting(other) {
                stopWaiting(claim)
                tables.claims[id]!.phase = .waiting(other)
                tables.waiters[other, default: []].insert(id)
                reexamineResponses()
                // A claim of the same purposes may go before those that wait for its own granted
                // claim. Whether it may has changed.
                for waiter in tables.waiters[id] ?? [] where tables.hasTurn(waiter) {
                    reexamine(waiter)
                }
            }
        } else {
            stopWaiting(claim)
            tables.claims[id]!.phase = .asking
            ask(id)
            if tables.claims[id]?.outstanding.isEmpty == true { return grant(id) }
        }
        relinquishForWaiters(for: id)
    }

    private mutating func stopWaiting(_ claim: Claim) {
        guard case .waiting(let other) = claim.phase else { return }
        tables.waiters[other]?.remove(claim.id)
        if tables.waiters[other]?.isEmpty == true { tables.waiters[other] = nil }
    }

    /// A claim waits for another claim than before. A claim whose presenter owes an answer may now
    /// be in a cycle, so those are examined again.
    mutating func reexamineResponses() { toExamine.formUnion(tables.responses) }

    mutating func grant(_ id: ClaimID) {
        guard let claim = tables.claims[id] else { return }
        tables.dequeue(claim)
        tables.claims[id]!.phase = .granted
        tables.enqueue(tables.claims[id]!)
        reexamine(relatedTo: claim)
        forgetRequest(claim)
        effects.append(.granted(id, claim.targets.map(\.path)))
        if claim.request.manner == .preparing { end(id) }
    }

    mutating func refuse(_ id: ClaimID, _ refusal: Refusal) {
        effects.append(.refused(id, refusal))
        end(id)
    }

    /// Removes a claim, granted or not. Presenters that have relinquished are notified first; then
    /// the claims behind it are examined.
    private mutating func end(_ id: ClaimID) {
        guard let claim = tables.claims[id] else { return }
        for presenter in claim.relinquished.sorted() {
            effects.append(.told(presenter, .reacquire(id)))
        }
        tables.dequeue(claim)
        tables.claims[id] = nil
        for purpose in claim.request.purposes {
            tables.related[purpose]?.remove(id)
            if tables.related[purpose]?.isEmpty == true { tables.related[purpose] = nil }
        }
        stopWaiting(claim)
        forgetRequest(claim)
        for presenter in claim.outstanding { forget(presenter, id) }
        for presenter in claim.relinquished.union(claim.asked.keys) {
            tables.presenters[presenter]?.known.remove(id)
        }
        for target in claim.targets {
            tables.trie[target.spot].claims.remove(id)
            tables.trie.release(target.spot)
            tables.trie.release(target.unit)
        }
        tables.parties[claim.request.clientSession]?.claims.remove(id)
        tables.dropClientSession(claim.request.clientSession)
        toExamine.formUnion(tables.waiters.removeValue(forKey: id) ?? [])
        toExamine.remove(id)
    }

    /// The request is granted or removed.
    private mutating func forgetRequest(_ claim: Claim) {
        for presenter in claim.request.presenters {
            tables.requests[presenter]?.remove(claim.id)
            if tables.requests[presenter]?.isEmpty == true { tables.requests[presenter] = nil }
        }
        tables.responses.remove(claim.id)
    }

    /// The time of a plain access is over. It does not wait for presenters any more, and for claims
    /// only if it must not go ahead without them.
    private mutating func lapse(_ id: ClaimID) {
        guard let claim = tables.claims[id], case .plain(let goesAhead) = claim.request.manner,
            !claim.isGranted
        else { return }
        // The claim is examined again, because another one may have overtaken it while it asked
        // presenters.
        if !goesAhead, blocker(of: claim) != nil { return refuse(id, .busy) }
        stopWaiting(claim)
        for presenter in claim.outstanding { forget(presenter, id) }
        tables.claims[id]!.outstanding = []
        grant(id)
    }

    /// Examines the claim again, because perhaps only claims that yield are in its way.
    private mutating func stopWaitingForYielding(_ id: ClaimID) {
        guard tables.claims[id]?.isGranted == false else { return }
        tables.claims[id]!.ignoresYielding = true
        reexamine(id)
    }

    // MARK: Parties

    private mutating func present(_ id: PresenterID, _ presenter: Presenter) {
        if tables.presenters[id] != nil { retire(id) }
        let spot = tables.trie.retain(presenter.path.steps)
        tables.trie[spot].presenters.insert(id)
        tables.presenters[id] = ClaimTables.Presenting(presenter: presenter, spot: spot)
        tables.parties[presenter.clientSession, default: ClaimTables.Belongings()].presenters
            .insert(id)
    }

    private mutating func retire(_ id: PresenterID) {
        guard let gone = tables.presenters[id] else { return }
        for claim in gone.asks {
            toExamine.insert(claim)
            forget(id, claim)
        }
        for claim in gone.known { tables.claims[claim]?.forget(id) }
        tables.trie[gone.spot].presenters.remove(id)
        tables.trie.release(gone.spot)
        tables.presenters[id] = nil
        tables.parties[gone.presenter.clientSession]?.presenters.remove(id)
        tables.dropClientSession(gone.presenter.clientSession)
    }

    private mutating func end(_ clientSession: ClientSession) {
        guard let gone = tables.parties[clientSession] else { return }
        for id in gone.presenters.sorted() { retire(id) }
        for id in gone.claims.sorted() { end(id) }
    }

}

extension Path {
    /// The path of the unit that is locked for an access to this path.
    var unit: ArraySlice<Step> {
        guard let outermost = steps.firstIndex(where: \.isPackage) else { return steps[...] }
        return steps[...outermost]
    }
}
