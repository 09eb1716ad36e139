// Who is in whose way: coordination.md C0 to C3.
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
    func blocker(of claim: Claim) -> ClaimID? {
        guard claim.request.manner != .preparing else { return nil }
        for target in claim.targets {
            if let found = blocker(of: claim, target) { return found }
        }
        return nil
    }

    private func blocker(of claim: Claim, _ target: Claim.Target) -> ClaimID? {
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
    private func blocker(
        of claim: Claim, amongWriters queue: Queue, deepAt place: Spots.Index? = nil
    ) -> ClaimID? {
        first(queue.grantedWriters, claim, deepAt: place)
            ?? first(queue.waitingWriters, before: claim, deepAt: place)
    }

    private func blocker(of claim: Claim, amongReaders queue: Queue) -> ClaimID? {
        first(queue.grantedReaders, claim) ?? first(queue.waitingReaders, before: claim)
    }

    private func first(_ ids: [ClaimID], _ claim: Claim, deepAt place: Spots.Index? = nil)
        -> ClaimID?
    {
        ids.last { id in
            guard id != claim.id, let other = claims[id] else { return false }
            return !other.isRelated(to: claim) && isDeep(other, at: place)
        }
    }

    /// Of those that are not granted, the ones scheduled earlier. But who must answer somebody's
    /// message goes before all who wait, for one of them waits for the answer (C0.3).
    private func first(
        _ ids: [ClaimID], before claim: Claim, deepAt place: Spots.Index? = nil
    ) -> ClaimID? {
        guard let first = ids.first, first < claim.id else { return nil }
        let isResponse = isResponse(claim)
        let turns = turns(of: claim.request.purposes)
        return ids[..<ids.position(of: claim.id)].last { id in
            guard let other = claims[id], !other.isRelated(to: claim) else { return false }
            return isDeep(other, at: place) && (!isResponse || self.isResponse(other))
                && !isHeldUp(other, by: turns)
        }
    }

    /// What is granted for one of the purposes.
    func turns(of purposes: Set<Purpose>) -> [Claim] {
        purposes.flatMap { related[$0] ?? [] }.compactMap { claims[$0] }.filter(\.isGranted)
    }

    /// Whether it waits for one of these turns, itself or behind others that do. What is done
    /// within a turn goes before those who wait for its end.
    private func isHeldUp(_ claim: Claim, by turns: [Claim]) -> Bool {
        guard !turns.isEmpty else { return false }
        var at = claim
        while true {
            if turns.contains(where: { $0.conflicts(with: at) }) { return true }
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

    /// Made by a presenter that owes an answer.
    func isResponse(_ claim: Claim) -> Bool {
        claim.request.presenters.contains { presenters[$0]?.asks.isEmpty == false }
    }
}
