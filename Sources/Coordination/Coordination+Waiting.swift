// Which requests wait for which claims: Rules.md, C0 to C3.
extension Coordination {
    /// Whether there is a claim or a presenter at the place, at a directory or package around it,
    /// or, for a deep access, below it.
    func concerns(_ target: Request.Target) -> Bool {
        var at = PathTrie.root
        for step in target.path.steps {
            if isBusy(at) { return true }
            guard let next = trie[at].children[step.name] else { return false }
            at = next
        }
        return isBusy(at) || !trie[at].presenters.isEmpty
            || target.access.isDeep && !trie[at].children.isEmpty
    }

    private func isBusy(_ place: PathTrie.Index) -> Bool {
        !trie[place].queue.isEmpty || trie[place].presenters.contains { isAsked($0) }
    }

    /// The presenter of a plain directory is not asked when something in the directory is accessed.
    private func isAsked(_ id: PresenterID) -> Bool {
        guard let presenting = presenters[id] else { return false }
        return presenting.isPackage || !presenting.presenter.isDirectory
    }

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
        let queue = trie[target.unit].queue
        if let found = blocker(of: claim, amongWriters: queue) { return found }
        if target.access.isWriting, let found = blocker(of: claim, amongReaders: queue) {
            return found
        }
        var above = trie.parent(of: target.unit)
        while let place = above {
            if let found = blocker(of: claim, amongWriters: trie[place].queue, deepAt: place) {
                return found
            }
            above = trie.parent(of: place)
        }
        guard target.access.isDeep else { return nil }
        var found: ClaimID?
        let trie = trie
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
        if responses.contains(claim.id) {
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
            guard let other = claims[id], !other.isRelated(to: claim) else { continue }
            if claim.ignoresYielding, !claim.conflicts(with: other, whereYielding: false) {
                continue
            }
            if isDeep(other, at: place), other.isGranted || !overtakes(claim, other) {
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

    /// A granted coordinated claim under which the contents of the item must stay: one to the item
    /// or to the package around it, or a deep one to a directory above it.
    func claim(keepingContentsOf path: Path) -> Claim? {
        let unit = path.unit.count
        var at = PathTrie.root
        var depth = 0
        while true {
            let queue = trie[at].queue
            for id in queue.grantedWriters + queue.grantedReaders {
                guard let claim = claims[id] else { continue }
                let keeps = claim.targets.contains {
                    $0.unit == at && ($0.access.isDeep || depth == unit && $0.access.needsContents)
                }
                if keeps { return claim }
            }
            guard depth < unit, let next = trie[at].children[path.steps[depth].name] else {
                return nil
            }
            (at, depth) = (next, depth + 1)
        }
    }

    /// The granted coordinated claims with one of these purposes.
    func turns(of purposes: Set<Purpose>) -> [Claim] {
        purposes.flatMap { related[$0] ?? [] }.compactMap { claims[$0] }
            .filter { $0.isGranted && $0.isCoordinated }
    }

    /// Whether a claim waits for one of these granted claims, directly or behind others that do. An
    /// access under a granted claim goes before the claims that wait for the end of that claim.
    private func waitsBehind(_ claim: Claim, by turns: [Claim]) -> Bool {
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

    /// Whether the claim is deep at that place. A claim can have several targets and be deep at
    /// only one of them.
    private func isDeep(_ claim: Claim, at place: PathTrie.Index?) -> Bool {
        guard let place else { return true }
        return claim.targets.contains { $0.unit == place && $0.access.isDeep }
    }

    /// Whether `claim` goes before `other`, which was scheduled earlier and is not granted. A claim
    /// whose presenter owes an answer overtakes all that wait, because one of them waits for the
    /// answer (C0.3). Of two such claims the later one goes first only if the other waits for its
    /// presenter. That decision is kept, so that the two cannot step back for each other in turn.
    private mutating func overtakes(_ claim: Claim, _ other: Claim) -> Bool {
        if waitsBehind(other, by: turns(of: claim.request.purposes)) { return true }
        guard responses.contains(claim.id) else { return false }
        if !responses.contains(other.id) || claim.mayOvertake.contains(other.id) { return true }
        guard needsAnswer(other.id, of: claim.request.presenters) else { return false }
        claims[claim.id]?.mayOvertake.insert(other.id)
        return true
    }
}
