import CLinux
import Model
import Synchronization
import SystemCalls

/// Downloads what is pinned and not here as soon as that is possible: what was refused for want of
/// room, or without a hub, goes on by itself.
final class PinnedDownloads: Sendable {
    private let lookout = Lookout("pins")
    private let state = Mutex(State())

    private struct State {
        /// What is not here, as of a count of the journal's transactions.
        var absent: (files: [(path: [Name], size: Int64)], transactions: Int)?
        var reason: String?
    }

    func start(_ volume: Volume) {
        lookout.start { [weak self, weak volume] in
            guard let self, let volume else { return .max / 2 }
            let seconds = look(volume)
            return cl_clock_monotonic_ns() + Timestamp.span(seconds: seconds)
        }
    }

    func stop() { lookout.stop() }

    /// Something was pinned or let go, or there is a hub to ask.
    func poke() { lookout.poke() }

    /// What is waited for, for people; nil when all is here.
    var notice: String? {
        state.withLock { state in
            guard let files = state.absent?.files, !files.isEmpty, let reason = state.reason else {
                return nil
            }
            let bytes = files.reduce(0) { $0 + $1.size }
            let count = files.count == 1 ? "1 pinned document" : "\(files.count) pinned documents"
            return "\(count) (\((bytes + (1 << 20) - 1) >> 20) MiB) to come to this device by "
                + "themselves: \(reason)"
        }
    }

    /// The number of seconds until the next look.
    private func look(_ volume: Volume) -> Double {
        do throws(VolumeError) {
            let files = try absent(volume)
            guard let next = files.first else {
                // What comes later into a directory that is pinned is found then.
                return try volume.hasPins() ? 60 : 1e6
            }
            guard volume.hydration.remote != nil else {
                wait(for: "there is no connection to a hub.")
                return 10
            }
            guard volume.room.has(next.size) else {
                wait(for: "they wait for room; the rest of this disk is kept for programs.")
                return 2
            }
            wait(for: "they are being downloaded.")
            try Downloads(volume, files).run { _ in !lookout.isEnding }
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
        let files = try volume.hasPins() ? try volume.absentPinned() : []
        state.withLock { $0.absent = (files, transactions) }
        return files
    }
}

extension Volume {
    /// What is pinned and could not be had comes later, by itself.
    package func downloadPinned() { pinned.poke() }

    func hasPins() throws(VolumeError) -> Bool {
        try journal.read { try $0.pins().contains { $0.isPinned } }
    }

    /// What is pinned and not here.
    func absentPinned() throws(VolumeError) -> [(path: [Name], size: Int64)] {
        try absentDocuments { (key, _, reader) in try reader.isPinned(key) }
    }
}
