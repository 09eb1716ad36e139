import HubProtocol
import Model
import Synchronization

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
        let (isOwn, present, view) = try await hub.ledger.read { transaction in
            let view = try transaction.membership.view(id, of: caller, for: operation)
            let now = view.volume
            let isOwn = try now.epoch != epoch || transaction.has(position, run: run, in: now)
            return (isOwn, transaction.run, view)
        }
        guard !isOwn else { return }
        let volume = view.volume.id
        // A ledger is not rolled back within a run, so no device can have seen more of an epoch
        // that began in this run than the journal has. Without this check, a device could begin
        // one epoch after another.
        let own = RenewedEpoch(epoch: epoch, run: present)
        // What a member of a folder says must not concern those who see more.
        guard view.folder == nil, !hub.renewedEpochs.withLock({ $0.contains(own) }) else {
            throw Failure(
                .copied,
                "Position \(position) is not in this volume's journal: ask for a new epoch, "
                    + "and compare everything.")
        }
        let renewed = try await hub.ledger.write { transaction -> RenewedEpoch? in
            guard let now = try transaction.volume(volume), now.epoch == epoch else { return nil }
            return RenewedEpoch(
                epoch: try transaction.renewEpoch(of: volume), run: transaction.run)
        }
        guard let renewed else { return }
        hub.renewedEpochs.withLock { _ = $0.insert(renewed) }
        hub.log.warning(
            "a device has read another journal than this one: the volume begins a new epoch",
            metadata: ["volume": "\(volume)"])
        hub.headsChanged.store(true, ordering: .relaxed)
        let failure = Failure.volumeEpoch(renewed.epoch)
        hub.feeds.end(failure) { $0.volume == volume }
        throw failure
    }
}
