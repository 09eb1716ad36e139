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
            try await PositionCheck(hub: self).run(
                after, run: run, in: id, epoch: epoch, for: caller, .changes)
        }
        let time = clock()
        @Sendable func answer(
            _ transaction: any LedgerTransaction, mayBeLarge: Bool
        ) throws -> ChangesAnswer? {
            let view = try transaction.membership.view(id, of: caller, for: .changes)
            let volume = view.volume
            if let epoch, epoch != volume.epoch { throw Failure.volumeEpoch(volume.epoch) }
            let deviceEpoch = try transaction.devices.epoch(of: caller.device)
            let limit = min(max(limit, 1), HubLimits.changes)
            let gone = gone ?? (after == 0 ? volume.head : 0)
            let page =
                try view.folder.map {
                    try FolderChanges(transaction: transaction, folder: $0).page(
                        after: after, limit: limit, withoutTrashUpTo: gone, mayBeLarge: mayBeLarge)
                }
                ?? transaction.changes(
                    in: volume.id, after: after, limit: limit, withoutTrashUpTo: gone,
                    mayBeLarge: mayBeLarge)
            guard let page else { return nil }
            let end = page.next ?? max(volume.head, after)
            return ChangesAnswer(
                changes: page.changes, next: end,
                run: try transaction.run(at: end, in: volume.id),
                head: volume.head,
                volumeEpoch: volume.epoch,
                acknowledged: try transaction.operations.lastNumber(
                    of: caller.device, epoch: deviceEpoch, in: volume.id),
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

    /// Records that the device has all bytes of `revisions`, and no longer those of `gone`. Unknown
    /// revisions are ignored.
    package func hold(
        _ revisions: [Identifier], gone: [Identifier] = [], in id: Identifier, for caller: Caller
    ) async throws {
        try checkList(revisions)
        try checkList(gone)
        let volume = try await view(id, for: caller, to: .holding).volume.id
        // The work is split into steps, so that other accounts can write in between.
        for start in stride(from: 0, to: max(gone.count, revisions.count, 1), by: 1024) {
            let gone = gone.dropFirst(start).prefix(1024)
            let revisions = revisions.dropFirst(start).prefix(1024)
            try await turns.take(caller.account) {
                try await ledger.write(.volume(volume)) { transaction in
                    let view = try transaction.membership.view(id, of: caller, for: .holding)
                    let volume = view.volume.id
                    var visible = view.visibleItems(transaction)
                    for revision in gone {
                        try transaction.release(revision, by: caller.device, in: volume)
                    }
                    for revision in revisions
                    where try visible.contains(version: revision)
                        && transaction.chunks(of: revision, in: volume) != nil
                    {
                        try transaction.hold(revision, by: caller.device, in: volume)
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
            let view = try transaction.membership.view(id, of: caller, for: .durability)
            let volume = view.volume.id
            var visible = view.visibleItems(transaction)
            return try revisions.map { revision in
                guard try visible.contains(version: revision),
                    try transaction.chunks(of: revision, in: volume) != nil
                else { return nil }
                return try transaction.holders(of: revision, in: volume)
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
