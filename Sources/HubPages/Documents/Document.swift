import Hub
import HubProtocol
import Model
import Reconcile

/// A document and its versions.
struct Document: Sendable {
    let place: Place

    init(_ place: Place) { self.place = place }

    /// Returns a version of this document: the current one if the address names none.
    ///
    /// - Throws: `.notFound`.
    func revision(_ text: String?) async throws -> Revision {
        let (volume, item) = (place.volume.id, place.item)
        guard let text else {
            guard let current = item.current else {
                throw Failure(.notFound, "\(place.name) has no contents yet.")
            }
            return current
        }
        guard text.utf8.count == 32, let id = Identifier(text) else { throw Document.unknown }
        return try await place.session.hub.ledger.read { transaction in
            guard try transaction.item(of: id, in: volume) == item.id,
                let revision = try transaction.revision(id, in: volume)
            else { throw Document.unknown }
            return revision
        }
    }

    private static let unknown = Failure(
        .notFound, "This document has no such version, or it was removed.")
}

extension LedgerTransaction {
    /// The document to which a version belongs.
    func item(of revision: Identifier, in volume: Identifier) throws -> Identifier? {
        let found = try row(
            "SELECT item FROM revisions WHERE volume = $1 AND id = $2",
            [.id(volume), .id(revision)])
        return try found.map { row in
            let item = try row.id(0)
            return try alias(of: item, in: volume) ?? item
        }
    }
}
