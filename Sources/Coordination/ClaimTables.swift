/// All claims and presenters, by place, by purpose, by client session, and by what waits for what.
/// The functions here search these tables and keep them consistent; `Coordination` decides.
struct ClaimTables: Sendable {
    var claims: [ClaimID: Claim] = [:]
    var presenters: [PresenterID: Presenting] = [:]
    var trie = PathTrie()
    var parties: [ClientSession: Belongings] = [:]
    /// Claims by their purposes.
    var related: [Purpose: Set<ClaimID>] = [:]
    /// For each claim, the claims that wait for it.
    var waiters: [ClaimID: Set<ClaimID>] = [:]
    /// The claims of each presenter that are not granted.
    var requests: [PresenterID: Set<ClaimID>] = [:]
    /// Those of them whose presenter owes an answer to some claim.
    var responses: Set<ClaimID> = []

    struct Presenting {
        var presenter: Presenter
        var spot: PathTrie.Index
        /// Claims that wait for its answer.
        var asks: Set<ClaimID> = []
        /// Claims that have sent it a question.
        var known: Set<ClaimID> = []

        var isPackage: Bool { presenter.path.steps.last?.isPackage ?? false }
    }

    struct Belongings {
        var claims: Set<ClaimID> = []
        var presenters: Set<PresenterID> = []
        var isEmpty: Bool { claims.isEmpty && presenters.isEmpty }
    }

    /// There are no claims and no presenters.
    var isEmpty: Bool { claims.isEmpty && presenters.isEmpty }

    // MARK: Entries

    /// Adds a coordinated claim to the queues of its targets.
    mutating func enqueue(_ claim: Claim) {
        guard claim.isCoordinated else { return }
        for target in claim.targets {
            trie[target.unit].queue.insert(
                claim.id, isWriting: target.access.isWriting, isGranted: claim.isGranted)
        }
    }

    mutating func dequeue(_ claim: Claim) {
        guard claim.isCoordinated else { return }
        for target in claim.targets {
            trie[target.unit].queue.remove(
                claim.id, isWriting: target.access.isWriting, isGranted: claim.isGranted)
        }
    }

    mutating func dropClientSession(_ clientSession: ClientSession) {
        if parties[clientSession]?.isEmpty == true { parties[clientSession] = nil }
    }

    func belongings(of clientSession: ClientSession) -> (
        claims: Set<ClaimID>, presenters: Set<PresenterID>
    ) {
        let found = parties[clientSession] ?? Belongings()
        return (found.claims, found.presenters)
    }

    // MARK: Places

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

    /// Whether there is a presenter of the item or of a directory that contains it.
    func isPresented(_ path: Path) -> Bool {
        !presentersAt(path).isEmpty
            || trie.ancestors(of: path).contains { !trie[$0.index].presenters.isEmpty }
    }

    func presentersAt(_ path: Path) -> [PresenterID] {
        trie.find(path).map { trie[$0].presenters.sorted() } ?? []
    }

    func isDocument(_ id: PresenterID) -> Bool {
        presenters[id].map { $0.isPackage || !$0.presenter.isDirectory } ?? false
    }

    // MARK: Granted claims

    /// Whether a coordinated claim with one of its purposes is granted.
    func hasTurn(_ id: ClaimID) -> Bool {
        claims[id].map { !turns(of: $0.request.purposes).isEmpty } ?? false
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
    func waitsBehind(_ claim: Claim, by turns: [Claim]) -> Bool {
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
    func isDeep(_ claim: Claim, at place: PathTrie.Index?) -> Bool {
        guard let place else { return true }
        return claim.targets.contains { $0.unit == place && $0.access.isDeep }
    }

    // MARK: Claims that wait

    /// All claims that a presenter's own requests wait for, directly or indirectly: claims before
    /// them, and claims of the presenters that these ask.
    func awaited(by presenter: PresenterID) -> Set<ClaimID> {
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
}
