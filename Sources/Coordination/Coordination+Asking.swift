// What presenters are asked before an access begins: coordination.md C4 and C7.
extension Coordination {
    /// What one presenter is to do for one claim.
    private struct Duties {
        var relinquish: Message?
        var then: [Message] = []
    }

    /// Asks who was not asked yet: first all to relinquish, then to save or to accommodate.
    mutating func ask(_ id: ClaimID) {
        guard let claim = claims[id] else { return }
        let duties = duties(claim)
        let order = duties.keys.sorted()
        if claim.request.manner != .preparing {
            for presenter in order {
                guard let message = duties[presenter]!.relinquish,
                    !claim.relinquished.contains(presenter)
                else { continue }
                claims[id]!.relinquished.insert(presenter)
                send(message, to: presenter, for: id)
            }
            for presenter in claims[id]!.outstanding where isBehind(presenter, id) {
                forget(presenter, id)
                claims[id]!.outstanding.remove(presenter)
            }
            guard claims[id]!.outstanding.isEmpty else { return }
        }
        for presenter in order where !claims[id]!.outstanding.contains(presenter) {
            let known = claims[id]!.asked[presenter] ?? []
            guard let message = duties[presenter]!.then.first(where: { !known.contains($0) }) else {
                continue
            }
            claims[id]!.asked[presenter, default: []].insert(message)
            send(message, to: presenter, for: id)
        }
    }

    private mutating func send(_ message: Message, to presenter: PresenterID, for id: ClaimID) {
        effects.append(.told(presenter, message))
        claims[id]!.outstanding.insert(presenter)
        presenters[presenter]!.asks.insert(id)
        // Its own requests go before those who wait, from now on.
        for request in presenters[presenter]!.requests { unsettle(request) }
    }

    mutating func answer(_ presenter: PresenterID, _ id: ClaimID, _ failure: String?) {
        guard claims[id]?.outstanding.remove(presenter) != nil else { return }
        forget(presenter, id)
        if let failure, claims[id]!.asked[presenter]?.isEmpty == false {
            return refuse(id, .failed(failure))
        }
        unsettle(id)
    }

    /// It owes that claim no answer any more.
    mutating func forget(_ presenter: PresenterID, _ id: ClaimID) {
        presenters[presenter]?.asks.remove(id)
        guard let presenting = presenters[presenter], presenting.asks.isEmpty else { return }
        // Its requests are like any other now: some may go before them again.
        for request in presenting.requests { unsettle(waitersOf: request) }
    }

    // MARK: Presenters that wait themselves

    /// Whoever waits behind a claim does nothing with the item, so it has let go of it: two
    /// presenters that save at once would wait for each other for ever.
    mutating func answerWaiting(_ claim: Claim) {
        for presenter in claim.request.presenters {
            for id in presenters[presenter]?.asks ?? []
            where claims[id]?.asked[presenter] == nil && isBehind(presenter, id) {
                claims[id]?.outstanding.remove(presenter)
                forget(presenter, id)
                unsettle(id)
            }
        }
    }

    private func isBehind(_ presenter: PresenterID, _ id: ClaimID) -> Bool {
        (presenters[presenter]?.requests ?? []).contains { request in
            var at = request
            while case .waiting(let other) = claims[at]?.phase {
                if other == id { return true }
                at = other
            }
            return false
        }
    }

    // MARK: The matrix

    private func duties(_ claim: Claim) -> [PresenterID: Duties] {
        var found: [PresenterID: Duties] = [:]
        let own = claim.request.presenters
        let isPreparing = claim.request.manner == .preparing
        // For what a program does within its turn, presenters have made room already; who saved
        // now would wait for the turn's end, and the turn for the save.
        let turns = claim.isPlain ? turns(of: claim.request.purposes) : []
        for target in claim.targets where !turns.contains(where: { $0.covers(target) }) {
            for id in spots[target.spot].presenters where !own.contains(id) {
                add(itemDuties(claim.id, target.access), to: &found, id)
            }
            for (place, _) in spots.ancestors(of: target.path) {
                for id in spots[place].presenters
                where !own.contains(id) && presenters[id]!.isPackage {
                    add(packageDuties(claim.id, target), to: &found, id)
                }
            }
            guard target.access.isDeep || isPreparing else { continue }
            for place in spots.below(target.spot) {
                for id in spots[place].presenters where !own.contains(id) {
                    add(itemDuties(claim.id, target.access), to: &found, id)
                }
            }
        }
        return found
    }

    private func itemDuties(_ id: ClaimID, _ access: Access) -> Duties {
        var duties = Duties(relinquish: relinquish(id, access))
        if access.isRemoving { duties.then.append(.accommodateDeletion(id)) }
        if access.wantsChanges { duties.then.append(.save(id)) }
        return duties
    }

    /// A package is only written when something in it is deleted.
    private func packageDuties(_ id: ClaimID, _ target: Claim.Target) -> Duties {
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

    /// What it does not implement it is not asked; to let a writer is more than to let a reader.
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
    /// What a presenter must implement to be sent it.
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
