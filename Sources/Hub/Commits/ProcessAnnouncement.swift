import Model

/// What hubs of one ledger tell each other about the processes of devices, so that a copied store
/// is noticed when its two processes use different hubs.
enum ProcessAnnouncement: Equatable {
    /// The process has opened its first feed at the hub that tells it, or has closed its last one.
    case listens(_ process: Identifier, device: Identifier)
    case ends(_ process: Identifier, device: Identifier)
    /// The process claims to be the device, although another one has a feed.
    case asks(_ process: Identifier, device: Identifier)
    /// The first process is alive and is the device, so the other one is a copy.
    case confirms(_ process: Identifier, beside: Identifier, device: Identifier)
    /// Asks the others to tell again who listens there.
    case begins

    var message: String {
        switch self {
        case .listens(let process, let device): "listens \(device) \(process)"
        case .ends(let process, let device): "ends \(device) \(process)"
        case .asks(let process, let device): "asks \(device) \(process)"
        case .confirms(let process, let other, let device): "confirms \(device) \(process) \(other)"
        case .begins: "begins"
        }
    }

    init?(message: String) {
        let words = message.split(separator: " ").map(String.init)
        let ids = words.dropFirst().compactMap { Identifier($0) }
        guard ids.count == words.count - 1 else { return nil }
        switch (words.first, ids.count) {
        case ("listens", 2): self = .listens(ids[1], device: ids[0])
        case ("ends", 2): self = .ends(ids[1], device: ids[0])
        case ("asks", 2): self = .asks(ids[1], device: ids[0])
        case ("confirms", 3): self = .confirms(ids[1], beside: ids[2], device: ids[0])
        case ("begins", 0): self = .begins
        default: return nil
        }
    }
}

extension Hub {
    var listeners: HubListeners { HubListeners(hub: self) }
}

/// The processes of devices that have a feed at this hub, and what other hubs tell of theirs.
struct HubListeners {
    let hub: Hub

    func announce(_ announcement: ProcessAnnouncement) {
        hub.ledger.announce(processes: announcement.message)
    }

    /// Records that the device of the caller says that its process is alive beside another one.
    func confirm(_ process: Identifier, beside other: Identifier, of caller: Caller) {
        guard hub.processes.confirm(process, beside: other, as: caller.device) else { return }
        announce(.confirms(process, beside: other, device: caller.device))
    }

    /// Tells the other hubs who listens here, and asks them for the same, because announcements may
    /// have been missed.
    func announceAll() {
        hub.processes.forgetListeners()
        announce(.begins)
        for line in hub.feeds.all() { announce(line) }
    }

    func announce(_ line: FeedLine) {
        guard let process = line.process else { return }
        announce(.listens(process, device: line.caller.device))
    }

    /// Closes a feed.
    func close(_ line: FeedLine) {
        hub.feeds.close(line)
        guard let process = line.process, !hub.feeds.isListening(process, as: line.caller.device)
        else { return }
        announce(.ends(process, device: line.caller.device))
    }

    /// Takes what another hub of the ledger tells.
    func take(_ message: String, from other: Identifier) {
        switch ProcessAnnouncement(message: message) {
        case .listens(let process, let device):
            hub.processes.listens(process, as: device, at: other)
        case .ends(let process, let device):
            hub.processes.ends(process, as: device, at: other)
        case .asks(let process, let device): hub.feeds.ask(device, beside: process)
        case .confirms(let process, let copy, let device):
            hub.processes.accept(process, beside: copy, as: device)
        case .begins: for line in hub.feeds.all() { announce(line) }
        case nil: break
        }
    }
}
