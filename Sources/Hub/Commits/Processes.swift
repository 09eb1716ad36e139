import HubProtocol
import Model
import Synchronization

/// Detects that a device's store was copied and both copies are mounted: then two processes use the
/// identity of one device.
///
/// Each process of a device sends its own id with its requests. A new process becomes the device if
/// the previous one has ended, as after a remount. If the previous process has an open feed, the
/// hub asks it over the feed whether it is alive; if it answers, the new process is a copy.
///
/// The other hubs of the ledger tell which processes have a feed there (`ProcessAnnouncement`).
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

    /// A process with an open feed at another hub.
    private struct Listener: Hashable {
        let hub: Identifier
        let process: Identifier
    }

    /// By device.
    private let elsewhere = Mutex<[Identifier: Set<Listener>]>([:])

    /// - Parameter isListening: Returns whether a process of the device has an open feed here.
    func standing(
        of process: Identifier, as device: Identifier, at time: Int64,
        isListening: (Identifier) -> Bool
    ) -> Standing {
        let others = elsewhere.withLock { $0[device] ?? [] }.map(\.process)
        return holders.withLock { holders in
            var holder =
                holders[device] ?? Holder(process: others.first { $0 != process } ?? process)
            defer { holders[device] = holder }
            if holder.copies.contains(process) { return .copy }
            if holder.process == process { return .own }
            if holder.newcomer != process { (holder.newcomer, holder.since) = (process, time) }
            let isAlive = isListening(holder.process) || others.contains(holder.process)
            guard isAlive, time - holder.since < Processes.patience else {
                forgetListeners(of: device, except: process)
                holder = Holder(process: process, copies: holder.copies)
                return .own
            }
            return .undecided
        }
    }

    /// Records that `process` is alive and is the device, so that `other` is a copy.
    ///
    /// - Returns: Whether that was not known.
    func confirm(_ process: Identifier, beside other: Identifier, as device: Identifier) -> Bool {
        holders.withLock { holders in
            var holder = holders[device] ?? Holder(process: process)
            guard holder.process == process, other != process else { return false }
            if holder.copies.count >= Processes.copiesKept { holder.copies.removeAll() }
            let isNew = holder.copies.insert(other).inserted
            holders[device] = holder
            return isNew
        }
    }

    // MARK: Other hubs

    /// Takes what another hub has found out. It had asked the process that has a feed there.
    func accept(_ process: Identifier, beside other: Identifier, as device: Identifier) {
        holders.withLock { holders in
            if holders[device]?.process == other { holders[device]?.process = process }
            if holders[device]?.newcomer == process { holders[device]?.newcomer = nil }
        }
        _ = confirm(process, beside: other, as: device)
    }

    /// Whether the process has an open feed at another hub.
    func isElsewhere(_ process: Identifier, as device: Identifier) -> Bool {
        elsewhere.withLock { $0[device]?.contains { $0.process == process } ?? false }
    }

    func listens(_ process: Identifier, as device: Identifier, at hub: Identifier) {
        let listener = Listener(hub: hub, process: process)
        elsewhere.withLock { _ = $0[device, default: []].insert(listener) }
    }

    func ends(_ process: Identifier, as device: Identifier, at hub: Identifier) {
        let listener = Listener(hub: hub, process: process)
        elsewhere.withLock { elsewhere in
            elsewhere[device]?.remove(listener)
            if elsewhere[device]?.isEmpty == true { elsewhere[device] = nil }
        }
    }

    /// Forgets what other hubs have told, because they may have told more meanwhile.
    func forgetListeners() { elsewhere.withLock { $0 = [:] } }

    private func forgetListeners(of device: Identifier, except process: Identifier) {
        elsewhere.withLock { elsewhere in
            let rest: Set<Listener> =
                elsewhere[device]?.filter { $0.process == process } ?? []
            elsewhere[device] = rest.isEmpty ? nil : rest
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
            listeners.announce(.asks(process, device: device))
            throw Failure(.busy, "Another process may be this device: try again in a moment.")
        case .copy:
            throw Failure(
                .cloned,
                "This device's store was copied, and another process is the device: use "
                    + "\(Routes.selfSplit) to become a separate device.")
        }
    }
}
