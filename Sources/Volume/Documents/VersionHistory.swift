import Journal
import Model

/// A document and its versions, oldest first.
package struct DocumentHistory: Sendable {
    package var id: Identifier
    package var isPackage: Bool
    package var state: State
    package var versions: [Version]
    /// The file name of each version in `.versions/NAME/`, in the same order.
    package var fileNames: [Name]
    /// How many devices have the current version, if the hub has told.
    package var devices: Int?
    package var protection: DocumentProtection

    package enum State: String, Sendable {
        case current
        /// The hub has not confirmed everything of it.
        case uploading
        /// It is on this device, and the hub has something newer.
        case downloaded
        /// Open for writing, or saved and not yet recorded.
        case writing
        /// Its name was removed; its versions are kept.
        case deleted
        /// Its bytes are only at the hub.
        case dataless
        /// Its bytes are being downloaded.
        case downloading
    }
}

package struct DeletedDocument: Sendable {
    package var id: Identifier
    package var name: Name
    /// Nanoseconds since 1970.
    package var deletedAt: Int64
    package var versions: Int
    package var size: UInt64
}

/// Reads the versions of documents, also of deleted ones, from the journal.
package struct VersionHistory: Sendable {
    let items: ItemLookup
    let states: DocumentStates
    /// Tells how many devices have a version, as last reported by the hub. It is called under locks
    /// and must never block.
    package let holders = CallbackSlot<@Sendable (Identifier) -> Int?>()
    private var journal: Journal { items.journal }

    /// The document at a path from the root, or else the deleted one that had the path last; nil if
    /// there is none. Waits until the recorder has processed all events before the call.
    ///
    /// - Throws: `.timeout`; `.damaged`.
    package func document(at path: [Name], timeoutSeconds: Double = 5) throws(VolumeError)
        -> DocumentHistory?
    {
        try items.catchUp(with: path, timeoutSeconds: timeoutSeconds)
        return try journal.read { reader in
            guard let item = try items.item(at: path, includesDeleted: true, reader) else {
                return nil
            }
            return try self.history(of: item, reader)
        }
    }

    /// The id of the directory at this path; nil if there is none. Waits as `document(at:)` does.
    package func directory(at path: [Name], timeoutSeconds: Double = 5) throws(VolumeError)
        -> Identifier?
    {
        try items.catchUp(with: path, timeoutSeconds: timeoutSeconds)
        return try journal.read { reader in
            guard let item = try items.item(at: path, reader), item.kind == .directory else {
                return nil
            }
            return item.id
        }
    }

    package func document(_ id: Identifier) throws(VolumeError) -> DocumentHistory? {
        try journal.read { reader in
            try reader.item(id: id).map { try self.history(of: $0, reader) }
        }
    }

    func history(of item: Item, _ reader: Reader) throws -> DocumentHistory {
        let versions = try reader.versions(of: item.key)
        let state = try states.state(of: item, reader)
        return DocumentHistory(
            id: item.id, isPackage: item.kind == .package, state: state, versions: versions,
            fileNames: versions.map { $0.fileName(of: item.name) },
            devices: devices(holding: versions.first { $0.id == item.current }),
            protection: try items.protection(of: item, reader))
    }

    private func devices(holding version: Version?) -> Int? {
        guard let version, version.durability == .hub else { return nil }
        return holders.current?(version.id)
    }

    // MARK: Deleted documents

    package func deletedDocuments(in path: [Name], visibleTo user: Requester = .root)
        throws(VolumeError) -> [DeletedDocument]
    {
        try items.catchUp(withFocus: .deleted(from: path), timeoutSeconds: 5)
        return try deletedDocuments(in: path, visibleTo: user) { _, _ in true }
    }

    /// The deleted documents that once had this path.
    package func earlierDocuments(at path: [Name], visibleTo user: Requester = .root)
        throws(VolumeError) -> [DeletedDocument]
    {
        guard let name = path.last else { return [] }
        let directory = Array(path.dropLast())
        try items.catchUp(withFocus: .deleted(from: directory), timeoutSeconds: 5)
        return try deletedDocuments(in: directory, visibleTo: user) { item, versions in
            item.name == name || versions.contains { $0.name == name }
        }
    }

    private func deletedDocuments(
        in path: [Name], visibleTo user: Requester, where isMeant: (Item, [Version]) -> Bool
    ) throws(VolumeError) -> [DeletedDocument] {
        try journal.read { reader in
            guard let directory = try items.item(at: path, includesDeleted: true, reader) else {
                throw VolumeError(
                    .notFound,
                    "There is no directory \(path.shown) here.")
            }
            return try reader.deletedItems(in: directory.key).compactMap { item in
                let protection = try items.protection(of: item, reader)
                let all = try reader.versions(of: item.key)
                let versions = all.visible(to: user, of: protection).map { all[$0] }
                guard isMeant(item, versions),
                    let last = versions.last(where: { $0.kind == .current }) ?? versions.last
                else { return nil }
                return DeletedDocument(
                    id: item.id, name: item.name, deletedAt: item.deleted ?? 0,
                    versions: versions.count, size: last.size)
            }
        }
    }
}
