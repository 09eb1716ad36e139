import CLinux
import Coordination
import Glibc
import Model
import Synchronization
import SystemCalls
import Volume

/// An open that waits: first for claims and presenters, then for other programs that have the file
/// open. It holds no thread meanwhile. `Arbitration` has the list of all of them.
final class WaitingOpen: Sendable {
    let opening: Opening
    /// The caller's process ancestry.
    let line: [Int32]
    private let request: Request
    /// The file's path when the open was requested.
    private let names: [Name]?
    /// Nil before the wait has begun and after its end. The thread that takes the value out ends
    /// the wait and answers the request; nothing more may be started then.
    private let wait = Mutex<Wait?>(nil)

    private struct Wait {
        let hold: Parking.Hold
        /// The timer for the end of its time.
        let deadline: UInt64
        /// The open was granted before, and the kernel repeats it for the file that has the name
        /// now.
        let isRepeated: Bool
        /// Its request in the arbiter while it waits for claims and presenters.
        var claim: ClaimID?
    }

    init(_ request: Request, _ opening: Opening) {
        self.request = request
        self.opening = opening
        line = ProcessAncestry.line(of: opening.caller.process)
        names = opening.files.tree.nodes.path(of: opening.node)
    }

    var node: Node { opening.node }
    var state: OpenState { opening.state }
    /// The file's path now, or its last one.
    var path: [Name] { files.tree.nodes.path(of: node) ?? names ?? [] }
    /// Whether opens wait for implicit leases of the file.
    var isLeaseWaitedFor: Bool { state.leases.withLock { $0.isWaitedFor } }

    private var files: OpenFiles { opening.files }
    private var arbitration: Arbitration { files.claims.arbitration }

    func begin() {
        // An interrupt, a timer or an unmount ends the wait only after this lock is released.
        let hasBegun = wait.withLock { wait in
            guard arbitration.add(self) else {
                request.refuse(Errno(ECONNABORTED))
                return false
            }
            let hold = files.parking.hold(request) { [self] in end(with: .interrupted) }
            guard let hold else {
                arbitration.remove(self)
                return false
            }
            let deadline = arbitration.timers.after(seconds: arbitration.settings.timeout) {
                [self] in expire()
            }
            let kept = arbitration.takeKept(for: repeated)
            opening.claim = kept?.claim
            wait = Wait(hold: hold, deadline: deadline, isRepeated: kept != nil)
            return true
        }
        guard hasBegun else { return opening.abandon() }
        if let target { waitForClaims(target) } else { takeLease() }
    }

    /// What it must claim; nil if it has the claim already or needs none.
    private var target: ClaimRequest.Target? {
        opening.claim == nil ? files.claims.target(node, opening.access) : nil
    }

    /// Step 1: waits for claims and presenters.
    private func waitForClaims(_ target: ClaimRequest.Target) {
        let turn = arbitration.request([target], line, goesAhead: false)
        let claim = wait.withLock { wait -> ClaimID? in
            guard wait != nil else { return nil }
            wait?.claim = arbitration.arbiter.request(turn) { [self] id, outcome in
                files.parking.soon { self.hear(id, outcome) }
            }
            return wait?.claim
        }
        if let claim { arbitration.stopWaitingForYielding(claim) }
    }

    private func hear(_ id: ClaimID, _ outcome: Arbiter.Outcome) {
        switch outcome {
        case .granted: takeLease(under: id)
        // A presenter could not save its changes. The program gets the contents on the disk.
        case .refused(.failed): takeLease()
        case .refused(let refusal): end(with: refusal.errno)
        }
    }

    /// Step 2: waits for programs that have the file open.
    private func takeLease(under claim: ClaimID? = nil) {
        let isOver = wait.withLock { wait in
            guard wait != nil else { return true }
            wait?.claim = nil
            if let claim { opening.claim = claim }
            state.changeLeases { $0.wait(self, now: $1) }
            return false
        }
        if isOver {
            if let claim { arbitration.arbiter.step(.released(claim)) }
        } else if isLeaseWaitedFor {
            arbitration.observeLeases()
        }
    }

    func leaseGranted() { files.parking.soon { self.proceed() } }

    /// The open has waited as long as it may.
    private func expire() {
        guard let claim = wait.withLock({ $0?.claim }) else { return takeLeaseAnyway() }
        // A claim of a program that coordinates makes the open fail; a presenter that does not
        // answer does not.
        arbitration.arbiter.step(.overdue(claim))
        arbitration.timers.after(seconds: arbitration.settings.writerTime) { [self] in
            if wait.withLock({ $0?.claim }) != nil { return end(with: Errno(EBUSY)) }
            takeLeaseAnyway()
        }
    }

    /// Goes ahead although other programs have the file open, because plain programs do not expect
    /// open(2) to fail with EBUSY.
    private func takeLeaseAnyway() {
        state.changeLeases { $0.admitAnyway(self, now: $1) }
    }

    private func proceed() {
        guard let wait = finish() else { return }
        guard wait.hold.end() else { return opening.abandon() }
        // The document was saved in the meantime by replacing the file, so the kernel must look up
        // the name again, which it does only once. The claim is kept for that second open, or the
        // presenter would be asked again and would save again. A repeated open for reading gets the
        // previous contents instead of an error.
        if let names, let now = files.tree.changeStamp(names), now.inode != node.inode,
            !wait.isRepeated || opening.access.isWriting
        {
            arbitration.keep(opening.claim.take(), for: repeated)
            request.refuse(.stale)
            return opening.abandon()
        }
        if let claim = opening.claim {
            // Presenters get the document back when it is closed or its time is over.
            let seconds =
                opening.access.isWriting
                ? arbitration.settings.writerTime : arbitration.settings.readerTime
            arbitration.timers.after(seconds: seconds) { [arbitration] in
                arbitration.arbiter.step(.released(claim))
            }
        }
        request.answer { () throws(Errno) in try files.proceed(request, opening) }
    }

    private var repeated: Arbitration.RepeatedOpen {
        Arbitration.RepeatedOpen(
            process: opening.caller.process, names: names, isWriting: opening.access.isWriting)
    }

    /// Ends a wait that was interrupted, refused, timed out or ended by an unmount.
    func end(with error: Errno) {
        guard let wait = finish() else { return }
        // If it was interrupted, the request is answered already.
        if wait.hold.end() { request.refuse(error) }
        if let claim = wait.claim { arbitration.arbiter.step(.cancelled(claim)) }
        state.changeLeases { $0.withdraw(self, now: $1) }
        opening.abandon()
    }

    /// Ends the wait. Returns it only once: to the caller that must answer the request.
    private func finish() -> Wait? {
        guard let wait = wait.withLock({ $0.take() }) else { return nil }
        arbitration.remove(self)
        arbitration.timers.cancel(wait.deadline)
        return wait
    }
}

extension Refusal {
    /// The error that a program gets.
    fileprivate var errno: Errno {
        switch self {
        case .busy, .failed: Errno(EBUSY)
        case .cancelled: .interrupted
        }
    }
}
