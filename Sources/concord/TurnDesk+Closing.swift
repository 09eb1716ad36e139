import CLinux
import Control
import Coordination
import Glibc
import Model
import Synchronization
import Volume

// What presenters are asked when the volume is no longer this person's (Rows.md, A17.5).
extension TurnDesk {
    /// Asks all presenters to save, and then to let go as before the deletion of the volume's root;
    /// who does not answer is waited for no longer than that, for each.
    ///
    /// - Throws: `.refused` when one of them could not, with its sentence.
    func askToClose(seconds: Double) throws(VolumeError) {
        let party = arbiter.join(process: getpid())
        defer { arbiter.leave(party) }
        let root = Path([])
        for request in [
            TurnRequest([.init(.write(.merging), root)], manner: .preparing, party: party),
            TurnRequest([.init(.write(.deleting), root)], party: party),
        ] {
            try ask(request, seconds: seconds)
        }
    }

    private func ask(_ request: TurnRequest, seconds: Double) throws(VolumeError) {
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
                "A program that has a document open cannot let go of it: \(sentence). Save or "
                    + "close it there, or sign out with --force.")
        case .failure?: break
        case nil: arbiter.step(.cancelled(id))
        }
    }
}

extension Refusal: Error {}
