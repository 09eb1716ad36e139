/// A request, from the moment when it is scheduled until it is released.
struct Claim {
    struct Target {
        var access: Access
        var path: Path
        /// The node of the item in the tree of places.
        var spot: PathTrie.Index
        /// The node of the unit of locking: the outermost package around the item, or the item
        /// itself.
        var unit: PathTrie.Index
        /// See `Request.Target.yields`.
        var yields: Bool
    }

    enum Phase: Hashable {
        /// The claim waits for another claim.
        case waiting(ClaimID)
        /// Presenters are being asked: first to relinquish, then to save or to accommodate a
        /// deletion.
        case asking
        case granted
    }

    let id: ClaimID
    let request: Request
    var targets: [Target]
    var phase = Phase.asking
    /// Presenters that were asked to relinquish. They are notified when the claim ends.
    var relinquished: Set<PresenterID> = []
    /// The messages that each presenter was sent after that.
    var asked: [PresenterID: Set<Message>] = [:]
    /// Presenters whose answer the claim waits for.
    var outstanding: Set<PresenterID> = []
    /// Those of them whose last message was to relinquish.
    var relinquishing: Set<PresenterID> = []
    /// For each presenter, the number of answers that will still arrive although the claim does not
    /// wait for them any more.
    var ignoredAnswers: [PresenterID: Int] = [:]

    /// Whether the claim has stopped waiting for claims that yield.
    var ignoresYielding = false

    /// Earlier claims that this one may overtake, because they wait for an answer of its presenter.
    var mayOvertake: Set<ClaimID> = []

    var isGranted: Bool { phase == .granted }
    var isPlain: Bool {
        if case .plain = request.manner { return true }
        return false
    }
    var isCoordinated: Bool { request.manner == .coordinated }

    /// Whether the accesses of the two claims conflict (C1 to C3), regardless of their purposes.
    func conflicts(with other: Claim, whereYielding: Bool = true) -> Bool {
        targets.contains { mine in
            other.targets.contains { theirs in
                if theirs.yields, !whereYielding { return false }
                if mine.unit == theirs.unit {
                    return mine.access.isWriting || theirs.access.isWriting
                }
                return mine.access.isDeep && theirs.path.isBelow(mine.path)
                    || theirs.access.isDeep && mine.path.isBelow(theirs.path)
            }
        }
    }

    /// Whether a program that holds this claim may make that access without asking anybody.
    func covers(_ target: Target) -> Bool {
        targets.contains { mine in
            (mine.access.isWriting || !target.access.isWriting)
                && (mine.unit == target.unit
                    || mine.access.isDeep && target.path.isBelow(mine.path))
        }
    }

    /// Whether the claim waits for this presenter only to relinquish.
    func asksOnlyToRelinquish(_ presenter: PresenterID) -> Bool {
        outstanding.contains(presenter) && relinquishing.contains(presenter)
    }

    /// Removes a presenter that was retired.
    mutating func forget(_ presenter: PresenterID) {
        relinquished.remove(presenter)
        asked[presenter] = nil
        outstanding.remove(presenter)
        relinquishing.remove(presenter)
        ignoredAnswers[presenter] = nil
    }

    func isRelated(to other: Claim) -> Bool {
        !request.purposes.isDisjoint(with: other.request.purposes)
    }
}
