import HubProtocol
import Model

/// Compares what a device has read of a journal with the journal.
struct PositionCheck {
    let hub: Hub

    /// Checks that the device's position exists in this journal. If it does not, the device has
    /// read more of the journal than this ledger has: the hub was restored from a backup without
    /// `concord hub restored`, and the volume begins a new epoch.
    ///
    /// - Throws: `.volumeEpoch`.
    func run(
        _ position: UInt64, run: Identifier?, in id: Identifier, epoch: Identifier,
        for caller: Caller, _ operation: VolumeOperation
    ) async throws {
        let (isOwn, mayRenew, view) = try await hub.ledger.read { transaction in
            let view = try transaction.membership.view(id, of: caller, for: operation)
            let now = view.volume
            let isOwn = try now.epoch != epoch || transaction.has(position, run: run, in: now)
            let renewed = RenewedEpoch(epoch: epoch, volume: now.id)
            return (isOwn, try !renewed.isNoted(transaction), view)
        }
        guard !isOwn else { return }
        let volume = view.volume.id
        // What a member of a folder says must not concern those who see more, and what somebody
        // says who may only read must not concern those who may write.
        guard mayRenew, view.folder == nil, view.role.allows(.commit) else {
            throw Failure(
                .copied,
                "Position \(position) is not in this volume's journal: ask for a new epoch, "
                    + "and compare everything.")
        }
        let renewed = try await hub.write(for: caller.account) { transaction -> Identifier? in
            guard let now = try transaction.volume(volume), now.epoch == epoch else { return nil }
            let renewed = try transaction.renewEpoch(of: volume)
            try RenewedEpoch(epoch: renewed, volume: volume).note(transaction)
            return renewed
        }
        guard let renewed else { return }
        hub.log.warning(
            "a device has read another journal than this one: the volume begins a new epoch",
            metadata: ["volume": "\(volume)"])
        hub.headsChanged.store(true, ordering: .relaxed)
        let failure = Failure.volumeEpoch(renewed)
        hub.feeds.end(failure) { $0.volume == volume }
        throw failure
    }
}

/// The epoch of a volume that began in this run because a device had read another journal. A ledger
/// is not rolled back within a run, so no device can have seen more of such an epoch than the
/// journal has. Without this, a device could begin one epoch after another. All hubs of the ledger
/// have the same runs.
private struct RenewedEpoch {
    let epoch: Identifier
    let volume: Identifier

    func isNoted(_ transaction: any LedgerTransaction) throws -> Bool {
        try transaction.fact(Fact.renewal(of: volume)) == value(transaction)
    }

    func note(_ transaction: any LedgerTransaction) throws {
        try transaction.setFact(Fact.renewal(of: volume), value(transaction))
    }

    /// Tells the epoch and the present run from all others.
    private func value(_ transaction: any LedgerTransaction) -> Int64 {
        Int64(bitPattern: epoch.low ^ transaction.run.low)
    }
}

extension Fact {
    /// The epoch of a volume that began because a device had read another journal.
    static func renewal(of volume: Identifier) -> String { "renewed-\(volume)" }
}
