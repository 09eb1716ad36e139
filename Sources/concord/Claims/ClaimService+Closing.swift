import CLinux
import Control
import Coordination
import Glibc
import Model
import Synchronization
import Volume

// What presenters are asked before sign-out removes the volume from this person (Rows.md, A17.5).
extension ClaimService {
    /// Asks all presenters to save, and then to close as before a deletion of the volume's root.
    /// Each of the two steps waits at most `seconds` for those that do not answer.
    ///
    /// - Throws: `.refused`, with the presenter's reason, when one of them could not.
    func askToClose(seconds: Double) throws(VolumeError) {
        let clientSession = arbiter.join(process: getpid())
        defer { arbiter.leave(clientSession) }
        let root = Path([])
        for request in [
            ClaimRequest(
                [.init(.write(.merging), root)], manner: .preparing, clientSession: clientSession),
            ClaimRequest([.init(.write(.deleting), root)], clientSession: clientSession),
        ] {
            try ask(request, seconds: seconds)
        }
    }

    private func ask(_ request: ClaimRequest, seconds: Double) throws(VolumeError) {
        let signal = Signal()
        let answer = Mutex<Result<Void, Refusal>?>(nil)
        let id = arbiter.request(request) { _, outcome in
            signal.change {
                answer.withLock { answer in
                    guard answer == nil else { return }
                    switch outcome {
                    case .granted: answer = .success(())
                    case .refused(let refusal): answer = .failure(refusal)
                    }
                }
            }
        }
        let deadline = cl_clock_monotonic_ns() + Timestamp.span(seconds: seconds)
        _ = signal.wait(until: deadline) { answer.withLock { $0 != nil } }
        switch answer.withLock({ $0 }) {
        case .success?: arbiter.step(.released(id))
        case .failure(.failed(let sentence))?:
            throw VolumeError(
                .refused,
                "A program that has a document open cannot close it: \(sentence). Save or "
                    + "close it there, or sign out with --force.")
        case .failure?: break
        case nil: arbiter.step(.cancelled(id))
        }
    }
}

extension Refusal: Error {}
