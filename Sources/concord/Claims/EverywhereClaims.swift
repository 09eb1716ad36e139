import Control
import Coordination
import Model
import Mount
import Synchronization
import Volume

/// The claims of a volume that hold on all devices. Each is granted by the hub first, and then by
/// this device's arbiter: what an editor elsewhere saves before it lets go of a document must reach
/// this device meanwhile, which takes a turn of its own.
final class EverywhereClaims: Sendable {
    private struct Entry: Sendable {
        let claim: EverywhereClaim
        /// Refuses the request; nil when it was answered.
        var refuse: (@Sendable (VolumeError) -> Void)?
        var isCancelled = false
    }

    private let entries = Mutex<[ClaimID: Entry]>([:])

    /// Asks for the documents that a claim writes, if it is to hold on all devices, and then calls
    /// `goOn`, which asks the arbiter. If they are refused, so is the claim.
    func begin(
        _ number: (claim: Int, id: ClaimID), of turn: ClaimRequest, _ request: Control.Request,
        _ client: Connection, _ service: ClaimService, _ goOn: @escaping @Sendable () -> Void
    ) {
        guard request.everywhere == true, turn.manner != .preparing else { return goOn() }
        let isHeld = { @Sendable in
            service.clients.withLock { $0[client.number]?.claims[number.claim] == number.id }
        }
        let refuse: @Sendable (VolumeError) -> Void = { failure in
            guard isHeld() else { return }
            service.forget(number.claim, client)
            client.refuse(request, failure)
        }
        let ask: @Sendable () -> Void = { [self] in
            guard isHeld() else { return }
            goOn()
            // If it was cancelled at this moment, the arbiter did not know the claim yet.
            if isCancelled(number.id) { service.arbiter.step(.cancelled(number.id)) }
            // If the client disconnected at this moment, nobody else ends the claim.
            if isHeld() { return }
            service.arbiter.step(.cancelled(number.id))
            service.arbiter.step(.released(number.id))
        }
        let names = turn.targets.filter(\.access.isWriting).map(\.path.names)
        service.session.later(seconds: 0) { [self] in
            do throws(VolumeError) {
                let claim = try EverywhereClaim(
                    names, service.volume.openDocuments, service.session, isTry: turn.isTry
                ) { [self] failure in
                    guard takeRefusal(number.id) != nil else { return }
                    if let failure { refuse(failure) } else { ask() }
                }
                entries.withLock { $0[number.id] = Entry(claim: claim, refuse: refuse) }
                guard isHeld() else { return end(number.id) }
                claim.begin()
            } catch { refuse(error) }
        }
    }

    /// Returns how a claim is refused, once; nil if it was answered.
    private func takeRefusal(_ id: ClaimID) -> (@Sendable (VolumeError) -> Void)? {
        entries.withLock { entries in
            defer { entries[id]?.refuse = nil }
            return entries[id]?.refuse
        }
    }

    /// To be called when a claim has ended.
    func end(_ id: ClaimID) {
        entries.withLock { $0.removeValue(forKey: id) }?.claim.end()
    }

    private func isCancelled(_ id: ClaimID) -> Bool {
        entries.withLock { $0[id]?.isCancelled ?? false }
    }

    /// Refuses a claim that the hub has not granted yet. To be called before the arbiter is told.
    func cancel(_ id: ClaimID) {
        entries.withLock { $0[id]?.isCancelled = true }
        takeRefusal(id)?(Refusal.cancelled.error)
    }
}
