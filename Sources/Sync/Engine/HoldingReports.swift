import CLinux
import HubProtocol
import Journal
import Logging
import Model

/// Reports to the hub which versions are completely on this device, and asks on how many devices
/// versions are. Only the engine's thread uses it.
final class HoldingReports: EnginePart {
    let parts: EngineParts
    private let holders: HolderCounts
    /// When the next report is due (monotonic nanoseconds).
    private(set) var nextTime: Int64 = .max
    private var last: Int64 = 0
    /// Versions that the hub did not have although it had confirmed them. Each is sent again only
    /// once.
    private var denied: Set<Identifier> = []
    /// Whether the hub has been asked about all versions that it has not confirmed itself.
    private(set) var isReconfirmed = false

    init(_ parts: EngineParts, _ holders: HolderCounts) {
        (self.parts, self.holders) = (parts, holders)
    }

    /// Everything is compared with the hub again.
    func startOver() { isReconfirmed = false }

    private static let batch = 2000

    /// Reports versions that have become complete here or were evicted, and asks on how many
    /// devices they are, at most once a second. Returns false if there is nothing to report now.
    func report() throws -> Bool {
        let wanted = holders.wanted
        guard try !journal.session().isFresh,
            try !wanted.isEmpty || journal.read({ try $0.hub.hasUnreportedHoldings() })
        else {
            nextTime = .max
            return false
        }
        let now = cl_clock_monotonic_ns()
        guard now >= last + 1_000_000_000 else {
            nextTime = last + 1_000_000_000
            return false
        }
        (last, nextTime) = (now, .max)
        let (here, gone) = try untold()
        if !here.isEmpty || !gone.isEmpty {
            try client.holding(account.volume, here, gone: gone)
        }
        let asked = here + wanted.subtracting(here).prefix(HubLimits.ids - here.count)
        let counts = try client.durability(account.volume, asked)
        let unknown = zip(asked, counts).filter { $0.1 == nil }.map(\.0)
        let again = unknown.filter { denied.insert($0).inserted }
        holders.learn(asked, counts)
        try journal.perform { table in
            for id in here where !unknown.contains(id) {
                try table.journal.setReported(id, isGone: false)
            }
            for id in gone { try table.journal.setReported(id, isGone: true) }
            for id in unknown { try table.deny(id, sendsAgain: again.contains(id)) }
        }
        if !unknown.isEmpty {
            log.error("the hub does not have \(unknown.count) versions that it has confirmed")
        }
        return true
    }

    /// Returns the holdings to report. Versions that turn out to be incomplete are removed from the
    /// list.
    private func untold() throws -> (here: [Identifier], gone: [Identifier]) {
        try journal.perform { table in
            var (here, gone): ([Identifier], [Identifier]) = ([], [])
            for (id, isGone) in try table.journal.hub.unreportedHoldings(
                limit: HoldingReports.batch)
            {
                if isGone {
                    gone.append(id)
                } else if try table.journal.isWhole(id) {
                    here.append(id)
                } else {
                    try table.journal.removeHolding(id)
                }
            }
            return (here, gone)
        }
    }

    /// Asks the hub once about all versions that another hub, or this hub in another epoch, has
    /// confirmed. This includes versions whose contents are not here, about which nothing else
    /// would ask.
    func reconfirm() throws {
        guard try !journal.session().isFresh else { return }
        try journal.reconfirm(client) { !threads.isEnding }
        isReconfirmed = true
    }
}

extension SyncJournal {
    private static let batch = 2000

    /// Asks the hub about all versions that another hub, or this hub in another epoch, has
    /// confirmed, and records those that it has.
    func reconfirm(_ client: HubClient, while goesOn: () -> Bool) throws {
        var cursor: Int64 = 0
        while goesOn() {
            let after = cursor
            let page = try read {
                try $0.hub.unconfirmedVersions(after: after, limit: SyncJournal.batch)
            }
            guard let last = page.last else { break }
            cursor = last.key
            let ids = page.map(\.id)
            let counts = try client.durability(account.volume, ids)
            let known = zip(ids, counts).filter { $0.1 != nil }.map(\.0)
            try perform { table in
                for id in known { try table.journal.addConfirmation(id) }
            }
        }
    }
}

extension JournalTable {
    /// Records that the hub does not have the version after all.
    func deny(_ version: Identifier, sendsAgain: Bool) throws(VolumeError) {
        try journal.removeHolding(version)
        guard let (key, known) = try journal.version(id: version), known.durability == .hub,
            try journal.item(key)?.current == version,
            try journal.absentVersion(of: key) == nil
        else { return }
        try journal.setDurability([version], to: .disk)
        guard sendsAgain, let id = try journal.id(of: key), var mirror = try mirror(id) else {
            return
        }
        // The mirror is changed as if the contents had never been agreed on.
        mirror.base?.image.revision = nil
        mirror.base?.image.content = nil
        try journal.set(
            MirrorRow(
                id: id, base: mirror.base?.encoded, remote: mirror.remote?.encoded,
                state: MirrorRow.State(rawValue: mirror.state.rawValue) ?? .settled,
                sequence: mirror.since))
        try journal.addUnsent(key)
    }
}
