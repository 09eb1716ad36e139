// Which questions presenters must answer before an access begins: Rules.md, C4 and C7.
extension Coordination {
    /// Sends the messages that have not been sent yet: first all presenters are asked to
    /// relinquish, then to save or to accommodate a deletion.
    mutating func ask(_ id: ClaimID) {
        guard let claim = tables.claims[id] else { return }
        let duties = tables.duties(claim)
        let order = duties.keys.sorted()
        if claim.request.manner != .preparing {
            for presenter in order {
                guard let message = duties[presenter]!.relinquish,
                    !claim.relinquished.contains(presenter),
                    // Only one question at a time: the item may have moved while the presenter
                    // answered.
                    !claim.outstanding.contains(presenter)
                else { continue }
                tables.claims[id]!.relinquished.insert(presenter)
                tables.claims[id]!.relinquishing.insert(presenter)
                send(message, to: presenter, for: id)
            }
            for presenter in tables.claims[id]!.outstanding.sorted() {
                relinquishIfWaiting(presenter, id)
            }
            guard tables.claims[id]!.outstanding.isEmpty else { return }
        }
        for presenter in order where !tables.claims[id]!.outstanding.contains(presenter) {
            let known = tables.claims[id]!.asked[presenter] ?? []
            guard let message = duties[presenter]!.then.first(where: { !known.contains($0) }) else {
                continue
            }
            tables.claims[id]!.asked[presenter, default: []].insert(message)
            tables.claims[id]!.relinquishing.remove(presenter)
            send(message, to: presenter, for: id)
        }
    }

    private mutating func send(_ message: Message, to presenter: PresenterID, for id: ClaimID) {
        effects.append(.told(presenter, message))
        tables.claims[id]!.outstanding.insert(presenter)
        tables.presenters[presenter]!.asks.insert(id)
        tables.presenters[presenter]!.known.insert(id)
        for request in tables.requests[presenter] ?? [] { reconsider(request) }
        reexamineResponses()
    }

    mutating func answer(_ presenter: PresenterID, _ id: ClaimID, _ failure: String?) {
        if let ignoredAnswers = tables.claims[id]?.ignoredAnswers[presenter] {
            tables.claims[id]!.ignoredAnswers[presenter] =
                ignoredAnswers > 1 ? ignoredAnswers - 1 : nil
            return
        }
        guard tables.claims[id]?.outstanding.remove(presenter) != nil else { return }
        forget(presenter, id)
        if let failure, tables.claims[id]?.relinquishing.contains(presenter) == false {
            return refuse(id, .failed(failure))
        }
        reexamine(id)
    }

    /// The presenter owes the claim no answer any more.
    mutating func forget(_ presenter: PresenterID, _ id: ClaimID) {
        tables.presenters[presenter]?.asks.remove(id)
        for request in tables.requests[presenter] ?? [] { reconsider(request) }
    }

    // MARK: Presenters that wait themselves

    /// Called when a presenter of this request was asked something or owes no more answers. A
    /// request whose presenter owes an answer overtakes all claims that only wait.
    mutating func reconsider(_ id: ClaimID) {
        guard let claim = tables.claims[id], !claim.isGranted else { return }
        let owes = claim.request.presenters.contains {
            tables.presenters[$0]?.asks.isEmpty == false
        }
        guard owes != tables.responses.contains(id) else { return }
        if owes {
            tables.responses.insert(id)
        } else {
            tables.responses.remove(id)
            reexamine(waitersOf: id)
        }
        reexamine(id)
        reexamineResponses()
    }

    /// A presenter that waits for a claim does nothing with the item, so it counts as having
    /// relinquished it. Otherwise presenters that save at the same time would wait for each other
    /// for ever.
    mutating func relinquishForWaiters(for id: ClaimID) {
        guard tables.responses.contains(id), let claim = tables.claims[id] else { return }
        for presenter in claim.request.presenters.sorted() {
            guard let asks = tables.presenters[presenter]?.asks, !asks.isEmpty else { continue }
            for other in tables.awaited(by: presenter).intersection(asks).sorted() {
                countAsRelinquished(presenter, other)
            }
        }
    }

    private mutating func relinquishIfWaiting(_ presenter: PresenterID, _ id: ClaimID) {
        guard tables.requests[presenter] != nil, tables.awaited(by: presenter).contains(id) else {
            return
        }
        countAsRelinquished(presenter, id)
    }

    /// Counts the presenter as having relinquished. Its answer, when it arrives, is ignored.
    private mutating func countAsRelinquished(_ presenter: PresenterID, _ id: ClaimID) {
        guard tables.claims[id]?.asksOnlyToRelinquish(presenter) == true else { return }
        tables.claims[id]!.outstanding.remove(presenter)
        tables.claims[id]!.ignoredAnswers[presenter, default: 0] += 1
        forget(presenter, id)
        reexamine(id)
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
