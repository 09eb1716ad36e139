import Coordination
import Glibc
import Model
import Synchronization
import SystemCalls
import Volume

/// An open that waits: first for claims and presenters, then for other programs that have the file
/// open. It holds no thread meanwhile. `state`, which its own lock guards, has everything that can
/// end the wait. The thread that takes the hold out of it answers the request.
final class WaitingOpen: Sendable {
    private let request: Request
    private let opening: Opening
    private let node: Node
    private let files: OpenFiles
    private let line: [Int32]
    /// The file's path when the open was requested.
    private let names: [Name]?
    private let state = Mutex(State())

    private struct State {
        /// The open was granted before, and the kernel repeats it for the file that has the name
        /// now.
        var isBack = false
        var hold: Parking.Hold?
        /// The numbers of the entries that end the wait: at unmount, and when its time is over.
        var number: UInt64?
        var deadline: UInt64?
        /// Its request in the arbiter while it waits for claims and presenters.
        var claim: ClaimID?
        /// The request was answered, so nothing more may be started for it.
        var isOver = false
    }

    init(_ request: Request, _ opening: Opening, _ node: Node, _ files: OpenFiles) {
        self.request = request
        self.opening = opening
        self.node = node
        self.files = files
        line = ProcessAncestry.line(of: request.caller.process)
        names = files.tree.nodes.path(of: node)
    }

    private var arbitration: Arbitration { files.claims.arbitration }
    private var numbers: FileNumbers { files.tree.numbers }

    func begin() {
        numbers.begin(awaiting: node)
        let hold = files.parking.hold(request) { [self] in end(with: nil) }
        guard let hold else {
            numbers.end(awaiting: node)
            return opening.abandon()
        }
        state.withLock { $0.hold = hold }
        let number = arbitration.remember { [self] in end(with: Errno(ECONNABORTED)) }
        guard let number else { return end(with: Errno(ECONNABORTED)) }
        let deadline = arbitration.timers.after(seconds: arbitration.settings.timeout) { [self] in
            guard let claim = state.withLock({ $0.claim }) else {
                return opening.takeLeaseAnyway()
            }
            // A claim of a program that coordinates makes the open fail; a presenter that does not
            // answer does not.
            arbitration.arbiter.step(.overdue(claim))
            arbitration.timers.after(seconds: arbitration.settings.writerTime) { [self] in
                if state.withLock({ $0.claim }) != nil { return end(with: Errno(EBUSY)) }
                opening.takeLeaseAnyway()
            }
        }
        let isOver = state.withLock { state in
            (state.number, state.deadline) = (number, deadline)
            return state.isOver
        }
        if isOver { settle() } else { waitForClaims() }
    }

    /// Step 1: waits for claims and presenters.
    private func waitForClaims() {
        if let kept = arbitration.takeKept(for: visit) {
            state.withLock { $0.isBack = true }
            if let claim = kept.claim {
                opening.hold(claim)
                return takeLease()
            }
        }
        guard let target = files.claims.target(node, opening.access) else { return takeLease() }
        let turn = arbitration.request([target], line, goesAhead: false)
        let claim = state.withLock { state -> ClaimID? in
            guard !state.isOver else { return nil }
            state.claim = arbitration.arbiter.request(turn) { [self] id, outcome in
                files.parking.soon { self.hear(id, outcome) }
            }
            return state.claim
        }
        if let claim { arbitration.stopWaitingForYielding(claim) }
    }

    private func hear(_ id: ClaimID, _ outcome: Arbiter.Outcome) {
        if case .refused(let refusal) = outcome {
            guard case .failed = refusal else { return end(with: refusal.errno) }
            // A presenter could not save its changes. The program gets the contents on the disk.
            state.withLock { $0.claim = nil }
            return takeLease()
        }
        let isOver = state.withLock { state in
            state.claim = nil
            if !state.isOver { opening.hold(id) }
            return state.isOver
        }
        if isOver { arbitration.arbiter.step(.released(id)) } else { takeLease() }
    }

    /// Step 2: waits for programs that have the file open.
    private func takeLease() {
        state.withLock { state in
            guard !state.isOver else { return }
            opening.waitForLease(line) { [self] in files.parking.soon { self.proceed() } }
        }
    }

    /// Returns true only once: to the caller that must answer the request. Nothing more may be
    /// started then.
    private func take() -> Bool {
        let hold = state.withLock { state in
            defer { state.hold = nil }
            return state.hold
        }
        guard let hold, hold.end() else { return false }
        settle()
        return true
    }

    private func proceed() {
        guard take() else { return }
        // The document was saved in the meantime by replacing the file, so the kernel must look up
        // the name again, which it does only once. The claim is kept for that second open, or the
        // presenter would be asked again and would save again. A repeated open for reading gets the
        // previous contents instead of an error.
        let isBack = state.withLock { $0.isBack }
        if let names, let now = files.tree.changeStamp(names), now.inode != node.inode,
            !isBack || opening.access.isWriting
        {
            arbitration.keep(opening.takeHeld(), for: visit)
            request.refuse(.stale)
            return opening.abandon()
        }
        if let claim = opening.held {
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

    private var visit: Arbitration.RepeatedOpen {
        Arbitration.RepeatedOpen(
            process: request.caller.process, names: names, isWriting: opening.access.isWriting)
    }

    /// Ends a wait that was interrupted (nil; the request is answered already), timed out or ended
    /// by an unmount.
    private func end(with error: Errno?) {
        if let error {
            guard take() else { return }
            request.refuse(error)
        } else {
            settle()
        }
        if let claim = state.withLock({ $0.claim }) {
            arbitration.arbiter.step(.cancelled(claim))
        }
        opening.abandon()
    }

    private func settle() {
        let (isFirst, number, deadline) = state.withLock { state in
            defer { state.isOver = true }
            return (!state.isOver, state.number, state.deadline)
        }
        if isFirst { numbers.end(awaiting: node) }
        if let number { arbitration.forget(number) }
        if let deadline { arbitration.timers.cancel(deadline) }
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
