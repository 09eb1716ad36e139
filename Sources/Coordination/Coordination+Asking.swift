// Which questions presenters must answer before an access begins: Rules.md, C4 and C7.
extension Coordination {
    /// The messages that one presenter gets for one claim.
    private struct Duties {
        var relinquish: Message?
        var then: [Message] = []
    }

    /// Sends the messages that have not been sent yet: first all presenters are asked to
    /// relinquish, then to save or to accommodate a deletion.
    mutating func ask(_ id: ClaimID) {
        guard let claim = claims[id] else { return }
        let duties = duties(claim)
        let order = duties.keys.sorted()
        if claim.request.manner != .preparing {
            for presenter in order {
                guard let message = duties[presenter]!.relinquish,
                    !claim.relinquished.contains(presenter),
                    // Only one question at a time: the item may have moved while the presenter
                    // answered.
                    !claim.outstanding.contains(presenter)
                else { continue }
                claims[id]!.relinquished.insert(presenter)
                claims[id]!.relinquishing.insert(presenter)
                send(message, to: presenter, for: id)
            }
            for presenter in claims[id]!.outstanding.sorted() { relinquishIfWaiting(presenter, id) }
            guard claims[id]!.outstanding.isEmpty else { return }
        }
        for presenter in order where !claims[id]!.outstanding.contains(presenter) {
            let known = claims[id]!.asked[presenter] ?? []
            guard let message = duties[presenter]!.then.first(where: { !known.contains($0) }) else {
                continue
            }
            claims[id]!.asked[presenter, default: []].insert(message)
            claims[id]!.relinquishing.remove(presenter)
            send(message, to: presenter, for: id)
        }
    }

    private mutating func send(_ message: Message, to presenter: PresenterID, for id: ClaimID) {
        effects.append(.told(presenter, message))
        claims[id]!.outstanding.insert(presenter)
        presenters[presenter]!.asks.insert(id)
        presenters[presenter]!.known.insert(id)
        for request in requests[presenter] ?? [] { reconsider(request) }
        reexamineResponses()
    }

    mutating func answer(_ presenter: PresenterID, _ id: ClaimID, _ failure: String?) {
        if let ignoredAnswers = claims[id]?.ignoredAnswers[presenter] {
            claims[id]!.ignoredAnswers[presenter] = ignoredAnswers > 1 ? ignoredAnswers - 1 : nil
            return
        }
        guard claims[id]?.outstanding.remove(presenter) != nil else { return }
        forget(presenter, id)
        if let failure, claims[id]?.relinquishing.contains(presenter) == false {
            return refuse(id, .failed(failure))
        }
        reexamine(id)
    }

    /// The presenter owes the claim no answer any more.
    mutating func forget(_ presenter: PresenterID, _ id: ClaimID) {
        presenters[presenter]?.asks.remove(id)
        for request in requests[presenter] ?? [] { reconsider(request) }
    }

    // MARK: Presenters that wait themselves

    /// Called when a presenter of this request was asked something or owes no more answers. A
    /// request whose presenter owes an answer overtakes all claims that only wait.
    mutating func reconsider(_ id: ClaimID) {
        guard let claim = claims[id], !claim.isGranted else { return }
        let owes = claim.request.presenters.contains { presenters[$0]?.asks.isEmpty == false }
        guard owes != responses.contains(id) else { return }
        if owes {
            responses.insert(id)
        } else {
            responses.remove(id)
            reexamine(waitersOf: id)
        }
        reexamine(id)
        reexamineResponses()
    }

    /// A presenter that waits for a claim does nothing with the item, so it counts as having
    /// relinquished it. Otherwise presenters that save at the same time would wait for each other
    /// for ever.
    mutating func relinquishForWaiters(for id: ClaimID) {
        guard responses.contains(id), let claim = claims[id] else { return }
        for presenter in claim.request.presenters.sorted() {
            guard let asks = presenters[presenter]?.asks, !asks.isEmpty else { continue }
            for other in awaited(by: presenter).intersection(asks).sorted() {
                countAsRelinquished(presenter, other)
            }
        }
    }

    private mutating func relinquishIfWaiting(_ presenter: PresenterID, _ id: ClaimID) {
        guard requests[presenter] != nil, awaited(by: presenter).contains(id) else { return }
        countAsRelinquished(presenter, id)
    }

    /// Counts the presenter as having relinquished. Its answer, when it arrives, is ignored.
    private mutating func countAsRelinquished(_ presenter: PresenterID, _ id: ClaimID) {
        guard claims[id]?.asksOnlyToRelinquish(presenter) == true else { return }
        claims[id]!.outstanding.remove(presenter)
        claims[id]!.ignoredAnswers[presenter, default: 0] += 1
        forget(presenter, id)
        reexamine(id)
    }

    /// All claims that a presenter's own requests wait for, directly or indirectly: claims before
    /// them, and claims of the presenters that these ask.
    private func awaited(by presenter: PresenterID) -> Set<ClaimID> {
        var found: Set<ClaimID> = []
        var next = Array(requests[presenter] ?? [])
        while let id = next.popLast() {
            guard let claim = claims[id] else { continue }
            for other in directlyAwaited(claim) where found.insert(other).inserted {
                next.append(other)
            }
        }
        return found
    }

    /// A claim that has asked presenters waits for their answers also while a granted claim that
    /// overtook it is in its way.
    private func directlyAwaited(_ claim: Claim) -> [ClaimID] {
        guard !claim.isGranted else { return [] }
        let answers = claim.outstanding.flatMap { requests[$0] ?? [] }
        if case .waiting(let other) = claim.phase { return [other] + answers }
        return answers
    }

    /// Whether a claim can only be granted after one of these presenters has answered. Then their
    /// requests must not wait for the claim (C0.3). An outstanding relinquish does not count,
    /// because a presenter that waits counts as having relinquished.
    func needsAnswer(_ id: ClaimID, of answering: Set<PresenterID>) -> Bool {
        var seen: Set<ClaimID> = [id]
        var next = [id]
        while let id = next.popLast() {
            guard let claim = claims[id], !claim.isGranted else { continue }
            var others: [ClaimID] = []
            if case .waiting(let other) = claim.phase { others = [other] }
            for presenter in claim.outstanding where !claim.asksOnlyToRelinquish(presenter) {
                if answering.contains(presenter) { return true }
                others += requests[presenter] ?? []
            }
            next += others.filter { seen.insert($0).inserted }
        }
        return false
    }

    // MARK: The matrix

    private func duties(_ claim: Claim) -> [PresenterID: Duties] {
        var found: [PresenterID: Duties] = [:]
        let own = claim.request.presenters
        let isPreparing = claim.request.manner == .preparing
        // Presenters have already answered for what a program does under its own claim. A presenter
        // that had to save now would wait for the end of that claim, and the claim would wait for
        // the save.
        let turns = claim.isPlain ? turns(of: claim.request.purposes) : []
        for target in claim.targets where !turns.contains(where: { $0.covers(target) }) {
            for id in trie[target.spot].presenters where !own.contains(id) {
                add(itemQuestions(claim.id, target.access), to: &found, id)
            }
            for (place, _) in trie.ancestors(of: target.path) {
                for id in trie[place].presenters
                where !own.contains(id) && presenters[id]!.isPackage {
                    add(packageQuestions(claim.id, target), to: &found, id)
                }
            }
            guard target.access.isDeep || isPreparing else { continue }
            for place in trie.below(target.spot) {
                for id in trie[place].presenters where !own.contains(id) {
                    add(itemQuestions(claim.id, target.access), to: &found, id)
                }
            }
        }
        return found
    }

    private func itemQuestions(_ id: ClaimID, _ access: Access) -> Duties {
        var duties = Duties(relinquish: relinquish(id, access))
        if access.isRemoving { duties.then.append(.accommodateDeletion(id)) }
        if access.wantsChanges { duties.then.append(.save(id)) }
        return duties
    }

    /// The messages to the presenter of a package that contains the item. When something in a
    /// package is deleted, the package itself is only changed.
    private func packageQuestions(_ id: ClaimID, _ target: Claim.Target) -> Duties {
        var duties = Duties(relinquish: relinquish(id, target.access))
        if target.access.isRemoving {
            duties.then.append(.accommodateSubitemDeletion(id, target.path))
        }
        if target.access.wantsChanges { duties.then.append(.save(id)) }
        return duties
    }

    private func relinquish(_ id: ClaimID, _ access: Access) -> Message {
        access.isWriting ? .relinquishToWriter(id) : .relinquishToReader(id)
    }

    /// Adds messages, but only those that the presenter implements. `relinquishToWriter` replaces
    /// `relinquishToReader`, because it demands more.
    private func add(
        _ duties: Duties, to all: inout [PresenterID: Duties], _ presenter: PresenterID
    ) {
        guard let hears = presenters[presenter]?.presenter.hears else { return }
        var known = all[presenter] ?? Duties()
        if let message = duties.relinquish, hears.contains(message.capability) {
            if case .relinquishToWriter = known.relinquish {} else { known.relinquish = message }
        }
        for message in duties.then
        where hears.contains(message.capability) && !known.then.contains(message) {
            known.then.append(message)
        }
        all[presenter] = known
    }
}

extension Message {
    /// What a presenter must implement so that the message is sent to it.
    package var capability: Presenter.Capabilities {
        switch self {
        case .relinquishToReader: .relinquishToReader
        case .relinquishToWriter: .relinquishToWriter
        case .save: .save
        case .accommodateDeletion: .accommodateDeletion
        case .accommodateSubitemDeletion: .accommodateSubitemDeletion
        case .reacquire: []
        case .changed: .change
        case .moved: .move
        case .subitemAppeared: .subitemAppearance
        case .subitemChanged: .subitemChange
        case .subitemMoved: .subitemMove
        case .version: .versions
        case .subitemVersion: .subitemVersions
        }
    }
}
