import CLinux
import Glibc
import Model
import Sync
import Volume

/// Signs a volume out when presenters have saved and closed its documents, and the hub has what
/// they saved.
struct SignOut {
    let volume: Volume
    let membership: Membership
    let desk: ClaimService

    /// Seconds that presenters get to save and to close, each time, and that their last saves get
    /// to reach the hub.
    private static let seconds = 10.0

    func run(isForced: Bool) throws(VolumeError) {
        try afterSending(isForced) { () throws(VolumeError) in
            try membership.checkSignOut(isForced: isForced)
        }
        do throws(VolumeError) { try desk.askToClose(seconds: SignOut.seconds) } catch {
            if !isForced { throw error }
        }
        try afterSending(isForced) { () throws(VolumeError) in
            try membership.signOut(isForced: isForced)
        }
        desk.tell(identity: nil)
    }

    /// Runs `body`, which refuses while something is here only. While the changes can get to the
    /// hub, it waits for them. A program may save between the wait and `body`; then it waits again.
    private func afterSending(
        _ isForced: Bool, _ body: () throws(VolumeError) -> Void
    ) throws(VolumeError) {
        if isForced { return try body() }
        let deadline = cl_clock_monotonic_ns() + Timestamp.span(seconds: SignOut.seconds)
        while true {
            try? volume.safety.wait(for: .disk, at: [], timeoutSeconds: SignOut.seconds)
            while isSending, try membership.unsent() > 0, cl_clock_monotonic_ns() < deadline {
                usleep(50_000)
            }
            do throws(VolumeError) { return try body() } catch {
                guard error.code == .refused, isSending, cl_clock_monotonic_ns() < deadline
                else { throw error }
            }
        }
    }

    private var isSending: Bool {
        membership.engine?.report.connection == .up && membership.reasonToKeep == nil
    }
}
