import HubProtocol
import Model

/// A reservation for bytes that are being written to the disk for an account.
struct UploadReservation: Sendable {
    let account: Identifier
    let bytes: UInt64
}

private let smallBytes: UInt64 = 256 << 10

extension Hub {
    /// Reserves space for uploaded chunks. Chunks that no version names yet are kept for a while,
    /// so together with all stored bytes they may exceed the quota by one upload. Small uploads may
    /// exceed it by a second one, so that a document that is too large does not block small ones.
    ///
    /// - Throws: `.quota`.
    func room(for bytes: UInt64, of id: Identifier) async throws -> UploadReservation {
        let incomingBytes = incomingBytes.withLock { incomingBytes in
            incomingBytes[id, default: 0] += bytes
            return incomingBytes[id] ?? 0
        }
        let room = UploadReservation(account: id, bytes: bytes)
        let beyond = UInt64(HubLimits.uploadBytes) * (bytes <= smallBytes ? 2 : 1)
        do {
            let isThere = try await ledger.read { transaction in
                guard let account = try transaction.account(id), let quota = account.quota else {
                    return true
                }
                let kept = account.used + (try transaction.unusedBytes(ofAccount: id))
                return kept + incomingBytes <= quota + beyond
            }
            if isThere { return room }
        } catch {
            leave(room)
            throw error
        }
        leave(room)
        throw Failure(
            .quota, "The account's quota is used up; unused uploads count for two days.")
    }

    func leave(_ room: UploadReservation) {
        incomingBytes.withLock { incomingBytes in
            let left = (incomingBytes[room.account] ?? 0) - room.bytes
            incomingBytes[room.account] = left > 0 ? left : nil
        }
    }
}

extension Ledger {
    /// Recalculates the usage of all accounts once. Older ledgers counted the sizes that devices
    /// had claimed, or no states.
    func recountUsage() async throws {
        try await write { transaction in
            guard try transaction.fact(Fact.countsKept) != 2 else { return }
            for account in try transaction.accounts() {
                try transaction.setUsed(
                    of: account.id, try transaction.size(ofAccount: account.id))
            }
            try transaction.setFact(Fact.countsKept, 2)
        }
    }
}

extension Fact {
    /// What the accounts' usage counts: 1 for the bytes of contents that are stored, 2 for those
    /// of states, too.
    static let countsKept = "counts-kept"
}
