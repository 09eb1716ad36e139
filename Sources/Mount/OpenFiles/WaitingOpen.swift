import CLinux
import Coordination
import Glibc
import Model
import Synchronization
import SystemCalls
import Volume

/// An open that waits: first for editors on other devices or for the hub's grant, if the document's
/// rules say so, then for claims and presenters, then for other programs that have the file open.
/// It holds no thread meanwhile. `Arbitration` has the list of all of them.
final class WaitingOpen: Sendable {
    let opening: Opening
    /// The caller's process ancestry.
    let line: [Int32]
    private let request: Request
    private let mayAwaitOthers: Bool
    /// Monotonic nanoseconds.
    let since = cl_clock_monotonic_ns()
    /// The file's path when the open was requested.
    private let names: [Name]?
    /// Nil before the wait has begun and after its end. The thread that takes the value out ends
    /// the wait and answers the request; nothing more may be started then.
    private let wait = Mutex<Wait?>(nil)

    private struct Wait {
        let hold: Parking.Hold
        /// The timer for the end of its time, which begins with step 1.
        var deadline: UInt64?
        /// The open was granted before, and the kernel repeats it for the file that has the name
        /// now.
        let isRepeated: Bool
        /// The number of its wait for editors on other devices, and who they are for people.
        var editorWait: UInt64?
        var editors: [OpenElsewhere] = []
        /// The document for which the hub is asked, and the number of the question.
        var asked: (document: Identifier, number: UInt64)?
        /// Its request in the arbiter while it waits for claims and presenters.
        var claim: ClaimID?
    }

    /// - Parameter mayAwaitOthers: Whether the document's rules may let it wait for other devices.
    init(_ request: Request, _ opening: Opening, mayAwaitOthers: Bool) {
        self.request = request
        self.opening = opening
        self.mayAwaitOthers = mayAwaitOthers
        line = ProcessAncestry.line(of: opening.caller.process)
        names = opening.files.tree.nodes.path(of: opening.node)
    }

    var node: Node { opening.node }
    var state: OpenState { opening.state }
    /// The file's path now, or its last one.
    var path: [Name] { files.tree.nodes.path(of: node) ?? names ?? [] }
    /// The editors on other devices that it waits for.
    var awaitedEditors: [OpenElsewhere] { wait.withLock { $0?.editors } ?? [] }
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
            let kept = arbitration.takeKept(for: repeated)
            opening.claim = kept?.claim
            wait = Wait(hold: hold, isRepeated: kept != nil)
            return true
        }
        guard hasBegun else { return opening.abandon() }
        if mayAwaitOthers { waitForOthers() } else { contend() }
    }

    /// Step 0: waits for the hub's grant, or for editors on other devices.
    private func waitForOthers() {
        files.parking.runDetached(on: .questions) { [self] in
            let documents = files.volume.openDocuments
            if let document = try? documents.mustBeGranted(at: path) { return ask(for: document) }
            guard let document = try? documents.document(at: path),
                let editors = documents.guarded.editors[document]
            else { return contend() }
            wait.withLock { $0?.editors = editors }
            let number = files.editorWaits.begin(document, isPatient: opening.isPatient) { risk in
                self.files.parking.soon { self.editorsAreGone(atRisk: risk) }
            }
            let isOver = wait.withLock { wait in
                wait?.editorWait = number
                return wait == nil
            }
            if isOver { files.editorWaits.end(number) }
        }
    }

    private func editorsAreGone(atRisk editors: [OpenElsewhere]) {
        if !editors.isEmpty {
            files.volume.openDocuments.guarded.atRisk.current?(
                path, editors, opening.caller.process)
        }
        contend()
    }

    /// Asks for a document that only one device may edit.
    private func ask(for document: Identifier) {
        let number = grants.take(document) { [self] refusal in
            files.parking.soon { self.hear(document, refusal) }
        }
        let isOver = wait.withLock { wait in
            wait?.asked = (document, number)
            return wait == nil
        }
        if isOver { grants.withdraw(document, number) }
    }

    private var grants: DocumentGrants { files.volume.openDocuments.guarded.grants }

    private func hear(_ document: Identifier, _ refusal: DocumentGrants.Refusal?) {
        if let refusal { return end(with: refusal.errno) }
        let isOver = wait.withLock { wait in
            if wait != nil { opening.document = document }
            return wait == nil
        }
        if isOver { grants.end(document) } else { contend() }
    }

    /// Waits for others on this device.
    private func contend() {
        let isWaiting = wait.withLock { wait in
            guard wait != nil else { return false }
            wait?.editors = []
            wait?.deadline = arbitration.timers.after(seconds: arbitration.settings.timeout) {
                [self] in expire()
            }
            return true
        }
        guard isWaiting else { return }
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
        if let deadline = wait.deadline { arbitration.timers.cancel(deadline) }
        if let number = wait.editorWait { files.editorWaits.end(number) }
        if let asked = wait.asked { grants.withdraw(asked.document, asked.number) }
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
