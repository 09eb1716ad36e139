import HubProtocol
import Model
import Synchronization

extension Hub {
    /// - Parameters:
    ///   - run: The run of the position `after`, as the device received it from the hub; nil if
    ///     the device does not know it.
    ///   - epoch: The volume's epoch as the device knows it; nil for a device that knows nothing
    ///     yet.
    ///   - gone: Items that went to the trash up to this position are left out. If it is nil, all
    ///     trashed items are left out for `after == 0`, and none otherwise.
    package func changes(
        in id: Identifier, for caller: Caller, after: UInt64, run: Identifier? = nil, limit: Int,
        epoch: Identifier?, withoutTrashUpTo gone: UInt64?
    ) async throws -> ChangesAnswer {
        if let epoch {
            try await check(after, run: run, in: id, epoch: epoch, for: caller, .changes)
        }
        let time = clock()
        @Sendable func answer(
            _ transaction: any LedgerTransaction, mayBeLarge: Bool
        ) throws -> ChangesAnswer? {
            let volume = try transaction.membership.volume(id, of: caller, for: .changes)
            if let epoch, epoch != volume.epoch { throw Failure.volumeEpoch(volume.epoch) }
            let deviceEpoch = try transaction.devices.epoch(of: caller.device)
            let page = try transaction.changes(
                in: id, after: after, limit: min(max(limit, 1), HubLimits.changes),
                withoutTrashUpTo: gone ?? (after == 0 ? volume.head : 0), mayBeLarge: mayBeLarge)
            guard let page else { return nil }
            let end = page.next ?? max(volume.head, after)
            return ChangesAnswer(
                changes: page.changes, next: end, run: try transaction.run(at: end, in: id),
                head: volume.head,
                volumeEpoch: volume.epoch,
                acknowledged: try transaction.operations.lastNumber(
                    of: caller.device, epoch: deviceEpoch, in: id),
                deviceEpoch: deviceEpoch, time: time)
        }
        if let small = try await ledger.read({ try answer($0, mayBeLarge: false) }) { return small }
        // The changes of one operation cannot be split into pages. Large pages are made one at a
        // time to bound the memory.
        await largePageLock.enter(caller.account)
        do {
            let large = try await ledger.read { try answer($0, mayBeLarge: true) }
            await largePageLock.leave()
            guard let large else { throw Failure(.failed, "The page could not be made.") }
            return large
        } catch {
            await largePageLock.leave()
            throw error
        }
    }

    /// Checks that the device's position exists in this journal. If it does not, the device has
    /// read more of the journal than this ledger has: the hub was restored from a backup without
    /// `concord hub restored`, and the volume begins a new epoch.
    ///
    /// - Throws: `.volumeEpoch`.
    func check(
        _ position: UInt64, run: Identifier?, in volume: Identifier, epoch: Identifier,
        for caller: Caller, _ operation: VolumeOperation
    ) async throws {
        let (isOwn, present) = try await ledger.read { transaction in
            let now = try transaction.membership.volume(volume, of: caller, for: operation)
            let isOwn = try now.epoch != epoch || transaction.has(position, run: run, in: now)
            return (isOwn, transaction.run)
        }
        guard !isOwn else { return }
        // A ledger is not rolled back within a run, so no device can have seen more of an epoch
        // that began in this run than the journal has. Without this check, a device could begin
        // one epoch after another.
        let own = RenewedEpoch(epoch: epoch, run: present)
        guard !renewedEpochs.withLock({ $0.contains(own) }) else {
            throw Failure(
                .copied,
                "Position \(position) is not in this volume's journal: ask for a new epoch, "
                    + "and compare everything.")
        }
        let renewed = try await ledger.write { transaction -> RenewedEpoch? in
            guard let now = try transaction.volume(volume), now.epoch == epoch else { return nil }
            return RenewedEpoch(
                epoch: try transaction.renewEpoch(of: volume), run: transaction.run)
        }
        guard let renewed else { return }
        renewedEpochs.withLock { _ = $0.insert(renewed) }
        log.warning(
            "a device has read another journal than this one: the volume begins a new epoch",
            metadata: ["volume": "\(volume)"])
        headsChanged.store(true, ordering: .relaxed)
        let failure = Failure.volumeEpoch(renewed.epoch)
        feeds.end(failure) { $0.volume == volume }
        throw failure
    }

    /// Records that the device has all bytes of `revisions`, and no longer those of `gone`. Unknown
    /// revisions are ignored.
    package func hold(
        _ revisions: [Identifier], gone: [Identifier] = [], in id: Identifier, for caller: Caller
    ) async throws {
        try checkList(revisions)
        try checkList(gone)
        // The work is split into steps, so that other accounts can write in between.
        for start in stride(from: 0, to: max(gone.count, revisions.count, 1), by: 1024) {
            let gone = gone.dropFirst(start).prefix(1024)
            let revisions = revisions.dropFirst(start).prefix(1024)
            try await turns.take(caller.account) {
                try await ledger.write(.volume(id)) { transaction in
                    _ = try transaction.membership.volume(id, of: caller, for: .holding)
                    for revision in gone {
                        try transaction.release(revision, by: caller.device, in: id)
                    }
                    for revision in revisions
                    where try transaction.chunks(of: revision, in: id) != nil {
                        try transaction.hold(revision, by: caller.device, in: id)
                    }
                }
            }
        }
    }

    package func durability(
        of revisions: [Identifier], in id: Identifier, for caller: Caller
    ) async throws -> DurabilityAnswer {
        try checkList(revisions)
        let counts = try await ledger.read { transaction -> [Int?] in
            _ = try transaction.membership.volume(id, of: caller, for: .durability)
            return try revisions.map { revision in
                guard try transaction.chunks(of: revision, in: id) != nil else { return nil }
                return try transaction.holders(of: revision, in: id)
            }
        }
        return DurabilityAnswer(devices: counts)
    }

    /// Refuses a list that is too long or names an id twice: a short list could otherwise ask for
    /// the same large thing thousands of times.
    func checkList(_ ids: [some Hashable]) throws(Failure) {
        guard ids.count <= HubLimits.ids else {
            throw Failure(.tooLarge, "At most \(HubLimits.ids) ids are accepted at once.")
        }
        guard Set(ids).count == ids.count else {
            throw Failure(.malformed, "An id is in the list twice.")
        }
    }
}
