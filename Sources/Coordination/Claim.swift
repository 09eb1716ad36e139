/// A request from when it is scheduled until it is released.
struct Claim {
    struct Target {
        var access: Access
        var path: Path
        /// The item.
        var spot: Spots.Index
        /// What is locked for it: the outermost package around it, or itself.
        var unit: Spots.Index
        /// As in the request.
        var yields: Bool
    }

    enum Phase: Hashable {
        /// Behind another claim.
        case waiting(ClaimID)
        /// Presenters are asked to relinquish, then to save or to accommodate.
        case asking
        case granted
    }

    let id: ClaimID
    let request: Request
    var targets: [Target]
    var phase = Phase.asking
    /// Asked to relinquish to it: who is told when it ends.
    var relinquished: Set<PresenterID> = []
    /// What each was asked after that.
    var asked: [PresenterID: Set<Message>] = [:]
    /// Whose answer is waited for.
    var outstanding: Set<PresenterID> = []
    /// Of these, who was asked to let go last.
    var relinquishing: Set<PresenterID> = []
    /// How many answers are still to come from each that nobody waits for any more.
    var unheard: [PresenterID: Int] = [:]

    /// It waits for those no longer who yield.
    var isOutwaiting = false

    /// Earlier ones that wait for its presenter's answer.
    var goesBefore: Set<ClaimID> = []

    var isGranted: Bool { phase == .granted }
    var isPlain: Bool {
        if case .plain = request.manner { return true }
        return false
    }
    var isCoordinated: Bool { request.manner == .coordinated }

    /// By what they are about (C1 to C3), whatever their purposes.
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

    /// Whether whoever holds it may do that without asking anybody.
    func covers(_ target: Target) -> Bool {
        targets.contains { mine in
            (mine.access.isWriting || !target.access.isWriting)
                && (mine.unit == target.unit
                    || mine.access.isDeep && target.path.isBelow(mine.path))
        }
    }

    /// Whether all that it waits for from this presenter is to let go.
    func asksOnlyToRelinquish(_ presenter: PresenterID) -> Bool {
        outstanding.contains(presenter) && relinquishing.contains(presenter)
    }

    /// It presents nothing any more.
    mutating func forget(_ presenter: PresenterID) {
        relinquished.remove(presenter)
        asked[presenter] = nil
        outstanding.remove(presenter)
        relinquishing.remove(presenter)
        unheard[presenter] = nil
    }

    func isRelated(to other: Claim) -> Bool {
        !request.purposes.isDisjoint(with: other.request.purposes)
    }
}
