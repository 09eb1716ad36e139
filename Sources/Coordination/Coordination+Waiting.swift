// Which requests wait for which claims: Rules.md, C0 to C3.
extension Coordination {
    /// A claim that this one must wait for; nil when it is its turn. Of several, one that was
    /// scheduled late, so that few claims are examined again when it ends.
    mutating func blocker(of claim: Claim) -> ClaimID? {
        guard claim.request.manner != .preparing else { return nil }
        for target in claim.targets {
            if let found = blocker(of: claim, target) { return found }
        }
        return nil
    }

    private mutating func blocker(of claim: Claim, _ target: Claim.Target) -> ClaimID? {
        let queue = tables.trie[target.unit].queue
        if let found = blocker(of: claim, amongWriters: queue) { return found }
        if target.access.isWriting, let found = blocker(of: claim, amongReaders: queue) {
            return found
        }
        var above = tables.trie.parent(of: target.unit)
        while let place = above {
            if let found = blocker(of: claim, amongWriters: tables.trie[place].queue, deepAt: place)
            {
                return found
            }
            above = tables.trie.parent(of: place)
        }
        guard target.access.isDeep else { return nil }
        var found: ClaimID?
        let trie = tables.trie
        _ = trie.anyBelow(target.unit) { place in
            let queue = trie[place].queue
            found =
                blocker(of: claim, amongWriters: queue)
                ?? blocker(of: claim, amongReaders: queue)
            return found != nil
        }
        return found
    }

    /// With `deepAt`, the queue belongs to a place above the target, so only accesses count that
    /// are deep there.
    private mutating func blocker(
        of claim: Claim, amongWriters queue: Queue, deepAt place: PathTrie.Index? = nil
    ) -> ClaimID? {
        last(queue.grantedWriters, queue.waitingWriters, claim, deepAt: place)
    }

    private mutating func blocker(of claim: Claim, amongReaders queue: Queue) -> ClaimID? {
        last(queue.grantedReaders, queue.waitingReaders, claim)
    }

    /// The last one is usually among those that wait. But a claim whose presenter owes an answer
    /// overtakes most of these, so granted claims come first for it.
    private mutating func last(
        _ granted: [ClaimID], _ waiting: [ClaimID], _ claim: Claim,
        deepAt place: PathTrie.Index? = nil
    ) -> ClaimID? {
        if tables.responses.contains(claim.id) {
            return last(granted[...], claim, deepAt: place)
                ?? last(waiting, before: claim, deepAt: place)
        }
        return last(waiting, before: claim, deepAt: place)
            ?? last(granted[...], claim, deepAt: place)
    }

    private mutating func last(
        _ ids: ArraySlice<ClaimID>, _ claim: Claim, deepAt place: PathTrie.Index? = nil
    ) -> ClaimID? {
        for id in ids.reversed() where id != claim.id {
            examinedCount += 1
            guard let other = tables.claims[id], !other.isRelated(to: claim) else { continue }
            if claim.ignoresYielding, !claim.conflicts(with: other, whereYielding: false) {
                continue
            }
            if tables.isDeep(other, at: place), other.isGranted || !overtakes(claim, other) {
                return id
            }
        }
        return nil
    }

    /// Searches claims that are not granted, but only those that were scheduled earlier.
    private mutating func last(
        _ ids: [ClaimID], before claim: Claim, deepAt place: PathTrie.Index? = nil
    ) -> ClaimID? {
        guard let first = ids.first, first < claim.id else { return nil }
        return last(ids[..<ids.position(of: claim.id)], claim, deepAt: place)
    }

    /// Whether `claim` goes before `other`, which was scheduled earlier and is not granted. A claim
    /// whose presenter owes an answer overtakes all that wait, because one of them waits for the
    /// answer (C0.3). Of two such claims the later one goes first only if the other waits for its
    /// presenter. That decision is kept, so that the two cannot step back for each other in turn.
    private mutating func overtakes(_ claim: Claim, _ other: Claim) -> Bool {
        if tables.waitsBehind(other, by: tables.turns(of: claim.request.purposes)) { return true }
        guard tables.responses.contains(claim.id) else { return false }
        if !tables.responses.contains(other.id) || claim.mayOvertake.contains(other.id) {
            return true
        }
        guard tables.needsAnswer(other.id, of: claim.request.presenters) else { return false }
        tables.claims[claim.id]?.mayOvertake.insert(other.id)
        return true
    }
}
