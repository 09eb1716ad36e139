import Journal
import Logging
import Model
import Reconcile
import Volume

/// Creates the items of a volume that this device joins, in bulk and not through the mount: a
/// million names with sizes and times take seconds. Only the engine's thread uses it.
final class VolumeJoin: EnginePart {
    let parts: EngineParts
    /// The items that wait for their directory, by the directory's id.
    private var waiting: [Identifier: [Identifier]] = [:]

    init(_ parts: EngineParts) { self.parts = parts }

    /// Completes joining after all of the hub's state was mirrored: existing local items are
    /// matched, the others are created, and from then on local changes may be sent.
    func complete(_ dueItems: DueItems) throws {
        // An earlier process may have mirrored items that it did not create.
        waiting = [:]
        try install(due: volume.journal.read { try $0.hub.mirrors(.due, limit: .max).map(\.id) })
        waiting = [:]
        while try dueItems.apply(limit: 4096), !threads.isEnding {}
        guard !threads.isEnding else { return }
        try journal.perform { table in
            var session = try table.session()
            session.isFresh = false
            table.set(session)
            // All local items are compared again with what is known of the hub.
            if session.hasEarlierAgreements { try table.journal.markAllUnsent() }
        }
        log.info("joined \(journal.account.volumeName) at \(journal.account.address)")
    }

    private static let batch = 2000

    /// Creates items as each page of changes arrives, so that a large volume can be used before the
    /// last page has arrived. Directories are created before their contents. Items that exist here
    /// already, or whose names are taken, are left to the ordinary adjustments, and so are settings
    /// files, because these fetch the contents.
    func install(due: [Identifier]) throws {
        var open = try volume.journal.read { reader in
            for id in due {
                guard let row = try reader.hub.mirror(id), let bytes = row.remote,
                    let state = ItemState(encoded: bytes), state.life.isAlive,
                    state.kind != .package, !state.isSettingsFile
                else { continue }
                waiting[state.placement.parent, default: []].append(id)
            }
            return try waiting.keys.filter { parent in
                if parent == .root { return true }
                guard let key = try reader.key(of: parent) else { return false }
                return try reader.item(key)?.deleted == nil
            }
        }
        while !open.isEmpty, !threads.isEnding {
            let items = open.flatMap { waiting.removeValue(forKey: $0) ?? [] }
            for start in stride(from: 0, to: items.count, by: VolumeJoin.batch) {
                guard !threads.isEnding else { return }
                try install(Array(items[start..<min(start + VolumeJoin.batch, items.count)]))
            }
            open = items
        }
    }

    private func install(_ ids: [Identifier]) throws {
        let adjustments = try journal.perform { [planner = journal.planner] table in
            var found: [Adjustment] = []
            for id in ids {
                guard let adjustment = try planner.adjustment(id, in: &table) else { continue }
                guard adjustment.steps == [.make],
                    try table.localChild(
                        adjustment.remote.name, in: adjustment.remote.placement.parent) == nil
                else {
                    try planner.adjusted(adjustment, isDone: false, in: &table)
                    continue
                }
                found.append(adjustment)
            }
            return found
        }
        guard !adjustments.isEmpty else { return }
        let nothing = Contents()
        let installations = adjustments.map { adjustment in
            let state = adjustment.remote
            return Installation(
                Arrival(state, nothing),
                in: state.placement.parent == .root ? .none : state.placement.parent,
                name: Name(state.name))
        }
        let byItem = Dictionary(uniqueKeysWithValues: adjustments.map { ($0.item, $0) })
        let (account, clock, root) = (journal.account, journal.clock, volume.root)
        let planner = journal.planner
        let report = try volume.arrivals.install(installations) { installation, key, t in
            guard let adjustment = byItem[installation.arrival.item] else { return }
            var table = JournalTable(journal: t, account: account, clock: clock, tree: root)
            try planner.adjusted(adjustment, isDone: true, in: &table)
            try table.flush()
            // The item was created exactly as the hub has it, so there is nothing to send.
            if installation.arrival.mode != nil { try t.removeUnsent(key) }
        }
        let failed = report.taken.map { adjustments[$0] }
        if !failed.isEmpty {
            try journal.perform { [planner = journal.planner] table in
                for adjustment in failed {
                    try planner.adjusted(adjustment, isDone: false, in: &table)
                }
            }
        }
        events.changed(report.spots)
    }
}

extension ItemState {
    fileprivate var isSettingsFile: Bool {
        placement.parent == .root && SettingsFile.isOne([Name(placement.name)])
    }
}
