// Which requests wait for which claims: Rules.md, C0 to C3.
extension Coordination {
    /// Whether anybody has a claim or presents something at the place, at a package or a directory
    /// around it, or (where that counts) in it.
    func concerns(_ target: Request.Target) -> Bool {
        var at = Spots.root
        for step in target.path.steps {
            if isBusy(at) { return true }
            guard let next = spots[at].children[step.name] else { return false }
            at = next
        }
        return isBusy(at) || !spots[at].presenters.isEmpty
            || target.access.isDeep && !spots[at].children.isEmpty
    }

    private func isBusy(_ place: Spots.Index) -> Bool {
        !spots[place].queue.isEmpty || spots[place].presenters.contains { isAsked($0) }
    }

    /// A presenter of a plain directory is asked nothing when something in it is touched.
    private func isAsked(_ id: PresenterID) -> Bool {
        guard let presenting = presenters[id] else { return false }
        return presenting.isPackage || !presenting.presenter.isDirectory
    }

    /// A claim that this one is behind; nil when it is its turn. Of several, one that was scheduled
    /// late, so that few look again when it ends.
    mutating func blocker(of claim: Claim) -> ClaimID? {
        guard claim.request.manner != .preparing else { return nil }
        for target in claim.targets {
            if let found = blocker(of: claim, target) { return found }
        }
        return nil
    }

    private mutating func blocker(of claim: Claim, _ target: Claim.Target) -> ClaimID? {
        let queue = spots[target.unit].queue
        if let found = blocker(of: claim, amongWriters: queue) { return found }
        if target.access.isWriting, let found = blocker(of: claim, amongReaders: queue) {
            return found
        }
        var above = spots.parent(of: target.unit)
        while let place = above {
            if let found = blocker(of: claim, amongWriters: spots[place].queue, deepAt: place) {
                return found
            }
            above = spots.parent(of: place)
        }
        guard target.access.isDeep else { return nil }
        var found: ClaimID?
        let spots = spots
        _ = spots.anyBelow(target.unit) { place in
            let queue = spots[place].queue
            found =
                blocker(of: claim, amongWriters: queue)
                ?? blocker(of: claim, amongReaders: queue)
            return found != nil
        }
        return found
    }

    /// `deepAt`: the place is above, so only those count that keep others from all it contains.
    private mutating func blocker(
        of claim: Claim, amongWriters queue: Queue, deepAt place: Spots.Index? = nil
    ) -> ClaimID? {
        last(queue.grantedWriters, queue.waitingWriters, claim, deepAt: place)
    }

    private mutating func blocker(of claim: Claim, amongReaders queue: Queue) -> ClaimID? {
        last(queue.grantedReaders, queue.waitingReaders, claim)
    }

    /// Those that wait came last; but who must answer passes most of them.
    private mutating func last(
        _ granted: [ClaimID], _ waiting: [ClaimID], _ claim: Claim,
        deepAt place: Spots.Index? = nil
    ) -> ClaimID? {
        if responses.contains(claim.id) {
            return last(granted[...], claim, deepAt: place)
                ?? last(waiting, before: claim, deepAt: place)
        }
        return last(waiting, before: claim, deepAt: place)
            ?? last(granted[...], claim, deepAt: place)
    }

    private mutating func last(
        _ ids: ArraySlice<ClaimID>, _ claim: Claim, deepAt place: Spots.Index? = nil
    ) -> ClaimID? {
        for id in ids.reversed() where id != claim.id {
            looks += 1
            guard let other = claims[id], !other.isRelated(to: claim) else { continue }
            if claim.isOutwaiting, !claim.conflicts(with: other, whereYielding: false) { continue }
            if isDeep(other, at: place), other.isGranted || !overtakes(claim, other) {
                return id
            }
        }
        return nil
    }

    /// Of those that are not granted, the ones scheduled earlier.
    private mutating func last(
        _ ids: [ClaimID], before claim: Claim, deepAt place: Spots.Index? = nil
    ) -> ClaimID? {
        guard let first = ids.first, first < claim.id else { return nil }
        return last(ids[..<ids.position(of: claim.id)], claim, deepAt: place)
    }

    /// What is granted for one of the purposes.
    func turns(of purposes: Set<Purpose>) -> [Claim] {
        purposes.flatMap { related[$0] ?? [] }.compactMap { claims[$0] }
            .filter { $0.isGranted && $0.isCoordinated }
    }

    /// Whether it waits for one of these turns, itself or behind others that do. What is done
    /// within a turn goes before those who wait for its end.
    private func isHeldUp(_ claim: Claim, by turns: [Claim]) -> Bool {
        guard !turns.isEmpty else { return false }
        var at = claim
        while true {
            if turns.contains(where: { $0.conflicts(with: at) && !$0.isRelated(to: at) }) {
                return true
            }
            guard case .waiting(let id) = at.phase, let next = claims[id], !next.isGranted else {
                return false
            }
            at = next
        }
    }

    /// A combined claim may be at several places, and deep at one of them.
    private func isDeep(_ claim: Claim, at place: Spots.Index?) -> Bool {
        guard let place else { return true }
        return claim.targets.contains { $0.unit == place && $0.access.isDeep }
    }

    /// Who must answer somebody's message goes before all who wait, for one of them waits for the
    /// answer (C0.3). Of two such, the later goes first only when the other waits for it; and then
    /// for good, lest each step back for the other in turn.
    private mutating func overtakes(_ claim: Claim, _ other: Claim) -> Bool {
        if isHeldUp(other, by: turns(of: claim.request.purposes)) { return true }
        guard responses.contains(claim.id) else { return false }
        if !responses.contains(other.id) || claim.goesBefore.contains(other.id) { return true }
        guard needsAnswer(other.id, of: claim.request.presenters) else { return false }
        claims[claim.id]?.goesBefore.insert(other.id)
        return true
    }
}
