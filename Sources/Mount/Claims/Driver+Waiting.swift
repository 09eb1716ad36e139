import CFuse
import CLinux
import Coordination
import Glibc
import Model
import Synchronization
import SystemCalls
import Volume

// Opens that wait: first for claims and presenters, then for other programs that have the file
// open. A waiting open holds no thread.
extension Driver {
    /// A waiting open.
    private final class WaitingOpen: @unchecked Sendable {
        let request: Request
        let opening: Opening
        let node: Node
        let line: [Int32]
        /// The file's path when the open was requested.
        let names: [Name]?
        let state = Mutex(State())

        struct State {
            /// The open was granted before, and the kernel repeats it for the file that has the
            /// name now.
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

        init(
            _ request: Request, _ opening: Opening, _ node: Node, _ line: [Int32], _ names: [Name]?
        ) {
            self.request = request
            self.opening = opening
            self.node = node
            self.line = line
            self.names = names
        }
    }

    func wait(_ request: Request, _ opening: Opening, _ node: Node) {
        let waiting = WaitingOpen(
            request, opening, node, ProcessAncestry.line(of: request.caller.process),
            nodes.path(of: node))
        numbers.begin(awaiting: node)
        let hold = parking.hold(request) { [self] in end(waiting, with: nil) }
        guard let hold else {
            numbers.end(awaiting: node)
            return opening.abandon()
        }
        waiting.state.withLock { $0.hold = hold }
        let number = arbitration.remember { [self] in end(waiting, with: Errno(ECONNABORTED)) }
        guard let number else { return end(waiting, with: Errno(ECONNABORTED)) }
        let deadline = arbitration.timers.after(seconds: arbitration.settings.timeout) { [self] in
            guard let claim = waiting.state.withLock({ $0.claim }) else {
                return waiting.opening.takeLeaseAnyway()
            }
            // A claim of a program that coordinates makes the open fail; a presenter that does not
            // answer does not.
            arbitration.arbiter.step(.overdue(claim))
            arbitration.timers.after(seconds: arbitration.settings.writerTime) { [self] in
                if waiting.state.withLock({ $0.claim }) != nil {
                    return end(waiting, with: Errno(EBUSY))
                }
                waiting.opening.takeLeaseAnyway()
            }
        }
        let isOver = waiting.state.withLock { state in
            (state.number, state.deadline) = (number, deadline)
            return state.isOver
        }
        if isOver { settle(waiting) } else { waitForClaims(waiting) }
    }

    /// Whether no claim or presenter concerns this node, so that the open needs no arbitration.
    func isFree(_ node: Node, _ access: @autoclosure () -> Access) -> Bool {
        arbitration.isQuiet || target(node, access()) == nil
    }

    private func target(_ node: Node, _ access: Access) -> ClaimRequest.Target? {
        guard !arbitration.isQuiet, let names = nodes.path(of: node) else { return nil }
        let plain = ClaimRequest.Target(access, Path(plain: names))
        guard arbiter.concerns([plain]) else { return nil }
        return ClaimRequest.Target(access, path(names))
    }

    /// Step 1: waits for claims and presenters.
    private func waitForClaims(_ waiting: WaitingOpen) {
        if let kept = arbitration.takeKept(for: visit(waiting)) {
            waiting.state.withLock { $0.isBack = true }
            if let claim = kept.claim {
                waiting.opening.hold(claim)
                return takeLease(waiting)
            }
        }
        guard let target = target(waiting.node, waiting.opening.access) else {
            return takeLease(waiting)
        }
        let turn = arbitration.request([target], waiting.line, goesAhead: false)
        let parking = parking
        let claim = waiting.state.withLock { state -> ClaimID? in
            guard !state.isOver else { return nil }
            state.claim = arbiter.request(turn) { [self] id, outcome in
                parking.soon { self.hear(waiting, id, outcome) }
            }
            return state.claim
        }
        if let claim { arbitration.stopWaitingForYielding(claim) }
    }

    private func hear(_ waiting: WaitingOpen, _ id: ClaimID, _ outcome: Arbiter.Outcome) {
        if case .refused(let refusal) = outcome {
            guard case .failed = refusal else { return end(waiting, with: refusal.errno) }
            // A presenter could not save its changes. The program gets the contents on the disk.
            waiting.state.withLock { $0.claim = nil }
            return takeLease(waiting)
        }
        let isOver = waiting.state.withLock { state in
            state.claim = nil
            if !state.isOver { waiting.opening.hold(id) }
            return state.isOver
        }
        if isOver { arbiter.step(.released(id)) } else { takeLease(waiting) }
    }

    /// Step 2: waits for programs that have the file open.
    private func takeLease(_ waiting: WaitingOpen) {
        waiting.state.withLock { state in
            guard !state.isOver else { return }
            waiting.opening.waitForLease(waiting.line) { [self] in
                parking.soon { self.proceed(waiting) }
            }
        }
    }

    /// Returns true only once: to the caller that must answer the request. Nothing more may be
    /// started then.
    private func take(_ waiting: WaitingOpen) -> Bool {
        let hold = waiting.state.withLock { state in
            defer { state.hold = nil }
            return state.hold
        }
        guard let hold, hold.end() else { return false }
        settle(waiting)
        return true
    }

    private func proceed(_ waiting: WaitingOpen) {
        guard take(waiting) else { return }
        // The document was saved in the meantime by replacing the file, so the kernel must look up
        // the name again, which it does only once. The claim is kept for that second open, or the
        // presenter would be asked again and would save again. A repeated open for reading gets the
        // previous contents instead of an error.
        let isBack = waiting.state.withLock { $0.isBack }
        if let names = waiting.names, let now = changeStamp(names), now.inode != waiting.node.inode,
            !isBack || waiting.opening.access.isWriting
        {
            arbitration.keep(waiting.opening.takeHeld(), for: visit(waiting))
            waiting.request.refuse(.stale)
            return waiting.opening.abandon()
        }
        if let claim = waiting.opening.held {
            // Presenters get the document back when it is closed or its time is over.
            let seconds =
                waiting.opening.access.isWriting
                ? arbitration.settings.writerTime : arbitration.settings.readerTime
            arbitration.timers.after(seconds: seconds) { [self] in
                arbiter.step(.released(claim))
            }
        }
        waiting.request.answer { () throws(Errno) in
            try proceed(waiting.request, waiting.opening)
        }
    }

    private func visit(_ waiting: WaitingOpen) -> Arbitration.RepeatedOpen {
        Arbitration.RepeatedOpen(
            process: waiting.request.caller.process, names: waiting.names,
            isWriting: waiting.opening.access.isWriting)
    }

    /// Ends a wait that was interrupted (nil; the request is answered already), timed out or ended
    /// by an unmount.
    private func end(_ waiting: WaitingOpen, with error: Errno?) {
        if let error {
            guard take(waiting) else { return }
            waiting.request.refuse(error)
        } else {
            settle(waiting)
        }
        if let claim = waiting.state.withLock({ $0.claim }) { arbiter.step(.cancelled(claim)) }
        waiting.opening.abandon()
    }

    private func settle(_ waiting: WaitingOpen) {
        let (isFirst, number, deadline) = waiting.state.withLock { state in
            defer { state.isOver = true }
            return (!state.isOver, state.number, state.deadline)
        }
        if isFirst { numbers.end(awaiting: waiting.node) }
        if let number { arbitration.forget(number) }
        if let deadline { arbitration.timers.cancel(deadline) }
    }

    /// Records what was written in a coordinated write as a save, although the file is still open.
    func endCoordinatedWrite(inode: UInt64) {
        guard let node = nodes.known(inode), let state = nodes.locked({ node.opened }),
            let file = nodes.descriptor(of: node), let status = try? file.status()
        else { return }
        do throws(Errno) {
            _ = try state.withContent(mayBlock: false) { (content) throws(Errno) in
                try self.volume.writing.endCoordinatedWrite(
                    &content.writing, file: file.raw, status: status, traits: self.traits(node))
            }
        } catch {
            log.error("The end of a coordinated write cannot be recorded as a save: \(error).")
        }
    }

    /// Releases the implicit lease and the claim of a handle, or of an open that has failed.
    func leave(_ state: OpenState, lease: UInt64?, claim: ClaimID?) {
        if let lease {
            let now = cl_clock_monotonic_ns()
            for next in state.leases.withLock({ $0.leave(lease, now: now) }) { next() }
        }
        if let claim { arbiter.step(.released(claim)) }
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
