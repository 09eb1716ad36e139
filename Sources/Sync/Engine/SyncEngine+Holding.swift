import CLinux
import HubProtocol
import Journal
import Model
import Volume

// Reports to the hub which versions are completely on this device, and asks on how many devices
// versions are.
extension SyncEngine {
    private static let batch = 2000

    /// Reports versions that have become complete here or were evicted, and asks on how many
    /// devices they are, at most once a second. Returns false if there is nothing to report now.
    func reportHoldings() throws -> Bool {
        let wanted = state.withLock { $0.wanted }
        guard try !session().isFresh,
            try !wanted.isEmpty || volume.journal.read({ try $0.hub.hasUnreportedHoldings() })
        else {
            nextHoldingReport = .max
            return false
        }
        let now = cl_clock_monotonic_ns()
        guard now >= lastHoldingReport + 1_000_000_000 else {
            nextHoldingReport = lastHoldingReport + 1_000_000_000
            return false
        }
        (lastHoldingReport, nextHoldingReport) = (now, .max)
        let (here, gone) = try untold()
        if !here.isEmpty || !gone.isEmpty {
            try client.holding(account.volume, here, gone: gone)
        }
        let asked = here + wanted.subtracting(here).prefix(HubLimits.ids - here.count)
        let counts = try client.durability(account.volume, asked)
        let unknown = zip(asked, counts).filter { $0.1 == nil }.map(\.0)
        let again = unknown.filter { denied.insert($0).inserted }
        learn(asked, counts)
        try perform { table in
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
        try perform { table in
            var (here, gone): ([Identifier], [Identifier]) = ([], [])
            for (id, isGone) in try table.journal.hub.unreportedHoldings(limit: SyncEngine.batch) {
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
        guard try !session().isFresh else { return }
        var cursor: Int64 = 0
        while !isEnding {
            let after = cursor
            let page = try volume.journal.read {
                try $0.hub.unconfirmedVersions(after: after, limit: SyncEngine.batch)
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
        isReconfirmed = true
    }

    private func learn(_ ids: [Identifier], _ counts: [Int?]) {
        state.withLock { state in
            if state.holders.count > 200_000 { state.holders = [:] }
            for (id, count) in zip(ids, counts) { state.holders[id] = count }
            state.wanted.subtract(ids)
        }
    }

    // MARK: Queries from other threads

    /// Returns on how many devices a version is, according to the hub's last answer; nil if the hub
    /// has not been asked. The engine asks soon. The call never blocks.
    package func devices(holding version: Identifier) -> Int? {
        let (count, isNew) = state.withLock { state in
            let isNew = state.wanted.count < 1000 && state.wanted.insert(version).inserted
            return (state.holders[version], isNew)
        }
        if isNew, count == nil { poke() }
        return count
    }

    /// The same, but asks the hub now and waits at most this long. After that it returns the last
    /// known answer.
    package func devices(holding version: Identifier, milliseconds: Int64) -> Int? {
        guard case .up = report.connection else { return devices(holding: version) }
        let signal = Signal()
        let isAnswered = Shared(false)
        startThread(named: "devices") { [self] in
            if let counts = try? client.durability(account.volume, [version]) {
                learn([version], counts)
            }
            signal.change { isAnswered.withLock { $0 = true } }
        }
        let deadline =
            cl_clock_monotonic_ns() + Timestamp.span(seconds: Double(milliseconds) / 1000)
        _ = signal.wait(until: deadline) { isAnswered.withLock { $0 } }
        return state.withLock { $0.holders[version] }
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
