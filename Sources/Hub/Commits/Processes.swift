import HubProtocol
import Model
import Synchronization

/// Detects that a device's store was copied and both copies are mounted: then two processes use the
/// identity of one device.
///
/// Each process of a device sends its own id with its requests. A new process becomes the device if
/// the previous one has ended, as after a remount. If the previous process has an open feed, the
/// hub asks it over the feed whether it is alive; if it answers, the new process is a copy.
final class Processes: Sendable {
    enum Standing {
        /// The process is the device.
        case own
        /// Another process was asked whether it is alive.
        case undecided
        /// Another process is the device.
        case copy
    }

    private struct Holder {
        var process: Identifier
        /// Another process that has sent requests as this device while this one has a feed.
        var newcomer: Identifier?
        /// When the newcomer sent its first request.
        var since: Int64 = 0
        var copies: Set<Identifier> = []
    }

    /// A process that does not answer within this time has ended, although its feed looks open.
    private static let patience = Timestamp.span(seconds: 5)
    /// The maximum number of copies of one device that are remembered. A device with more processes
    /// at once is faulty or hostile, not copied.
    private static let copiesKept = 64
    private let holders = Mutex<[Identifier: Holder]>([:])

    /// - Parameter isListening: Returns whether a process of the device has an open feed.
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

    /// Records that `process` is alive and is the device, so that `other` is a copy.
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
    /// - Throws: `.cloned` if the process is a copy; `.busy` while this is not decided.
    func check(_ process: Identifier, of caller: Caller) throws(Failure) {
        let device = caller.device
        let standing = processes.standing(of: process, as: device, at: clock()) {
            feeds.isListening($0, as: device)
        }
        switch standing {
        case .own: return
        case .undecided:
            feeds.ask(device, beside: process)
            throw Failure(.busy, "Another process may be this device: try again in a moment.")
        case .copy:
            throw Failure(
                .cloned,
                "This device's store was copied, and another process is the device: use "
                    + "\(Routes.selfSplit) to become a separate device.")
        }
    }
}
