import CLinux
import Model
import Synchronization
import SystemCalls

/// Downloads pinned documents that are not on this device as soon as that is possible. Downloads
/// that failed for want of space or of a hub are resumed by themselves.
final class PinnedDownloads: Sendable {
    private let poller = BackgroundPoller("pins")
    private let state = Mutex(State())

    private struct State {
        /// The pinned documents that are not here, and the journal's transaction count at which
        /// they were determined.
        var absent: (files: [(path: [Name], size: Int64)], transactions: Int)?
        var reason: String?
    }

    func start(_ volume: Volume) {
        poller.start { [weak self, weak volume] in
            guard let self, let volume else { return .max / 2 }
            let seconds = look(volume)
            return cl_clock_monotonic_ns() + Timestamp.span(seconds: seconds)
        }
    }

    func stop() { poller.stop() }

    /// Called when pins have changed, or a hub is connected.
    func poke() { poller.poke() }

    /// A sentence for people about what is still to be downloaded and why; nil if nothing is.
    var notice: String? {
        state.withLock { state in
            guard let files = state.absent?.files, !files.isEmpty, let reason = state.reason else {
                return nil
            }
            let bytes = files.reduce(0) { $0 + $1.size }
            let count = files.count == 1 ? "1 pinned document" : "\(files.count) pinned documents"
            return "\(count) (\((bytes + (1 << 20) - 1) >> 20) MiB) will be downloaded "
                + "automatically: \(reason)"
        }
    }

    /// Downloads what is missing, and returns the number of seconds until the next check.
    private func look(_ volume: Volume) -> Double {
        do throws(VolumeError) {
            let files = try absent(volume)
            guard let next = files.first else {
                // This finds what is added to a pinned directory later.
                return try volume.downloads.hasPins() ? 60 : 1e6
            }
            guard volume.hydration.remote != nil else {
                wait(for: "there is no connection to a hub.")
                return 10
            }
            guard volume.room.has(next.size) else {
                wait(for: "they wait for space; the rest of this disk is kept for programs.")
                return 2
            }
            wait(for: "they are being downloaded.")
            try volume.downloads.run(files) { _ in !poller.isEnding }
            return 1
        } catch {
            if error.code != .cancelled { wait(for: error.message) }
            return error.code == .full ? 2 : 30
        }
    }

    private func wait(for reason: String) { state.withLock { $0.reason = reason } }

    private func absent(_ volume: Volume) throws(VolumeError) -> [(path: [Name], size: Int64)] {
        let transactions = volume.journal.transactionCount
        if let known = state.withLock({ $0.absent }), known.transactions == transactions {
            return known.files
        }
        let files = try volume.downloads.absentPinned()
        state.withLock { $0.absent = (files, transactions) }
        return files
    }
}
