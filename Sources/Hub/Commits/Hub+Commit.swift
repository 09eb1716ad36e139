import HubProtocol
import Model
import Reconcile

extension Hub {
    /// Applies a batch of operations exactly once, even if the answer is lost and the device sends
    /// it again.
    ///
    /// - Parameter keepsContents: Whether the device has the contents of the versions that it
    ///   commits, so that it counts among the devices that have them.
    package func commit(
        _ request: CommitRequest, to id: Identifier, for caller: Caller,
        keepsContents: Bool = true
    ) async throws -> CommitAnswer {
        let received = clock()
        guard request.device == caller.device else {
            throw Failure(.malformed, "The token belongs to another device than \(request.device).")
        }
        guard request.operations.count <= HubLimits.operations else {
            throw Failure(
                .tooLarge, "At most \(HubLimits.operations) operations are accepted at once.")
        }
        let first = request.operations.first?.number ?? 1
        let isInOrder = request.operations.enumerated().allSatisfy {
            first > 0 && $1.number &- first == UInt64($0)
        }
        guard isInOrder else {
            throw Failure(.malformed, "Operations must be numbered from 1 without a gap.")
        }
        if let cursor = request.cursor {
            try await PositionCheck(hub: self).run(
                cursor, run: request.run, in: id, epoch: request.volumeEpoch, for: caller,
                .commit)
        }
        let view = try await view(id, for: caller, to: keepsContents ? .commit : .pageForm)
        let (volume, key) = (view.volume.id, view.volume.chunkKey)
        // A manifest may be long, so this is done before the transaction, for which others wait.
        let objections = await perAccountLock.alone(caller.account) {
            request.operations.reduce(into: [:]) { objections, entry in
                objections[entry.number] = entry.objection { .keyed(by: key, $0.bytes) }
            }
        }
        let commit = Commit(
            request: request, objections: objections, caller: caller, volume: volume,
            folder: view.folder, received: received, keepsContents: keepsContents, clock: clock,
            versionLimits: limits.versions, steps: limits.steps)
        let answer = try await CommitPreparation(hub: self, commit: commit).run {
            try await self.committer(of: volume).add(commit)
        }
        metrics.operations.add(answer.results.count)
        return answer
    }
}
