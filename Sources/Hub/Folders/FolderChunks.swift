import HubProtocol
import Model

/// The chunks that a member of a folder may read and use, of which it is told by `have`.
package struct FolderChunks {
    let hub: Hub

    package init(_ hub: Hub) { self.hub = hub }

    /// What a member of a folder is told of chunks: those that it has uploaded itself are there,
    /// and those of the versions that it names, if the folder has them. It may use these in
    /// versions.
    func have(
        _ ids: [Digest], of versions: [Identifier], in view: VolumeView, for caller: Caller
    ) async throws -> [ChunkRow?] {
        let time = hub.clock()
        let named = try await chunks(ids, of: versions, in: view.id, for: caller, .have)
        if !named.isEmpty {
            try await hub.turns.take(caller.account) {
                try await hub.ledger.write(.volume(view.volume.id)) { transaction in
                    let view = try transaction.membership.view(view.id, of: caller, for: .have)
                    try ProofTable(transaction, view.volume.id, of: caller.account)
                        .add(named, at: time)
                }
            }
        }
        return try await hub.ledger.read { transaction in
            let view = try transaction.membership.view(view.id, of: caller, for: .have)
            let proofs = ProofTable(transaction, view.volume.id, of: caller.account)
            return try ids.map {
                try proofs.has($0) ? transaction.chunks.row($0, in: view.volume.id) : nil
            }
        }
    }

    /// The chunks that a request may read: nil for a member of the whole volume, who may read all.
    package func readable(
        _ ids: [Digest], of versions: [Identifier], in id: Identifier, for caller: Caller
    ) async throws -> Set<Digest>? {
        let view = try await hub.view(id, for: caller, to: .read)
        guard view.folder != nil else { return nil }
        return try await chunks(ids, of: versions, in: id, for: caller, .read)
    }

    /// Those of the chunks that belong to one of the versions, as far as the account sees these.
    private func chunks(
        _ ids: [Digest], of versions: [Identifier], in id: Identifier, for caller: Caller,
        _ operation: VolumeOperation
    ) async throws -> Set<Digest> {
        guard versions.count <= HubLimits.versionsNamed else {
            throw Failure(
                .tooLarge, "At most \(HubLimits.versionsNamed) versions are accepted at once.")
        }
        let shown = try await hub.ledger.read { transaction in
            var visible = try transaction.membership.view(id, of: caller, for: operation)
                .visibleItems(transaction)
            return try versions.filter { try visible.contains(version: $0) }
        }
        var (open, found, looked) = (Set(ids), Set<Digest>(), 0)
        for version in shown where !open.isEmpty {
            let chunks = try await hub.ledger.read { transaction -> [Digest] in
                let view = try transaction.membership.view(id, of: caller, for: operation)
                return try transaction.chunks(of: version, in: view.volume.id) ?? []
            }
            looked += chunks.count
            guard looked <= HubLimits.references else {
                throw Failure(.tooLarge, "The named versions have too many chunks: name fewer.")
            }
            for chunk in chunks where open.remove(chunk) != nil { found.insert(chunk) }
        }
        return found
    }
}
