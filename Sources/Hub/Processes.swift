import HubProtocol
import Model
import Synchronization

/// Notices that a device's store was copied and both copies are mounted: two processes are one
/// device then.
///
/// Each process of a device names itself with its requests. Another one takes the device over when
/// the first has ended, as after a remount. While the first one's feed is open, it is asked over
/// that whether it is still there; when it says so, the other one is the copy.
final class Processes: Sendable {
    enum Standing {
        /// The process is the device.
        case own
        /// Another process is asked whether it still is the device.
        case undecided
        /// Another process is the device.
        case copy
    }

    private struct Holder {
        var process: Identifier
        /// Another process that came while this one listened.
        var newcomer: Identifier?
        /// When that came first.
        var since: Int64 = 0
        var copies: Set<Identifier> = []
    }

    /// A process that does not answer for so long has ended, although its feed looks open.
    private static let patience = Timestamp.span(seconds: 5)
    /// Copies of one device that are remembered: a device that is many processes at once is not one
    /// that somebody copied.
    private static let copiesKept = 64
    private let holders = Mutex<[Identifier: Holder]>([:])

    /// - Parameter isListening: Whether a process of the device has a feed.
    func standing(
        of process: Identifier, as device: Identifier, at time: Int64,
        isListening: (Identifier) -> Bool
    ) -> Standing {
        holders.withLock { holders in
            var holder = holders[device] ?? Holder(process: process)
            defer { holders[device] = holder }
            if holder.copies.contains(process) { return .copy }
            if holder.process == process { return .own }
            if holder.newcomer != process { (holder.newcomer, holder.since) = (process, time) }
            guard isListening(holder.process), time - holder.since < Processes.patience else {
                holder = Holder(process: process, copies: holder.copies)
                return .own
            }
            return .undecided
        }
    }

    /// A process says that it still is the device, while another one wants to be it.
    func confirm(_ process: Identifier, beside other: Identifier, as device: Identifier) {
        holders.withLock { holders in
            guard holders[device]?.process == process, other != process else { return }
            if holders[device]?.copies.count ?? 0 >= Processes.copiesKept {
                holders[device]?.copies.removeAll()
            }
            holders[device]?.copies.insert(other)
        }
    }
}

extension Hub {
    /// - Throws: `.cloned`, and `.busy` while that is not known.
    func check(_ process: Identifier, of caller: Caller) throws(Failure) {
        let device = caller.device
        let standing = processes.standing(of: process, as: device, at: clock()) {
            feeds.isListening($0, as: device)
        }
        switch standing {
        case .own: return
        case .undecided:
            feeds.ask(device, beside: process)
            throw Failure(.busy, "Another process may be this device: ask again in a moment.")
        case .copy:
            throw Failure(
                .cloned,
                "Another process is this device, whose store was copied: become a device of its "
                    + "own (\(Routes.selfSplit)).")
        }
    }
}
