import Journal
import Model

/// The state of a document.
package struct DocumentStatus: Sendable {
    package var id: Identifier
    package var kind: Item.Kind
    package var state: DocumentHistory.State
    /// The durability of its present contents.
    package var durability: Version.Durability
    package var versions: Int
    package var size: UInt64
    package var currentVersion: Int?
    /// The id of the current version.
    package var current: Identifier?
    package var conflicts: Int
}

/// Tells in which state documents are.
package struct DocumentStates: Sendable {
    let items: ItemLookup
    let safety: DocumentSafety
    let hydration: Hydration

    /// The state of the document at a path.
    ///
    /// - Throws: `.notFound` if there is none or the file is local.
    package func status(at path: [Name]) throws(VolumeError) -> DocumentStatus {
        try items.catchUp(with: path, timeoutSeconds: 5)
        return try items.journal.read { reader in
            let item = try items.existing(path, reader)
            let versions = try reader.versions(of: item.key)
            let current = versions.first { $0.id == item.current }
            return DocumentStatus(
                id: item.id, kind: item.kind, state: try self.state(of: item, reader),
                durability: try safety.durability(of: item, current, at: path, reader),
                versions: versions.count, size: item.size, currentVersion: current?.number,
                current: current?.id, conflicts: versions.count { $0.kind == .conflict })
        }
    }

    /// The states of the documents, links and directories in a directory. The journal is asked once
    /// for some hundred of them, and not for each.
    ///
    /// - Throws: `.notFound` if there is no such directory, or it is local.
    package func statuses(in path: [Name]) throws(VolumeError) -> [EntryStatus] {
        try items.catchUp(with: path, timeoutSeconds: 5)
        return try items.journal.read { reader in
            let directory = try items.existing(path, reader)
            guard directory.kind == .directory else { return [] }
            return try EntryStatusReader(self, reader, at: path).statuses(in: directory)
        }
    }

    func state(of item: Item, _ reader: Reader) throws -> DocumentHistory.State {
        if item.deleted != nil { return .deleted }
        guard let facts = try ItemFacts(of: item.key, reader) else { return .current }
        return state(of: item, facts)
    }

    /// The state of an alive item.
    func state(of item: Item, _ facts: ItemFacts) -> DocumentHistory.State {
        if facts.isAbsent {
            return hydration.known(item.inode)?.isWaitedFor == true ? .downloading : .dataless
        }
        if item.changed == 0, item.kind == .file || item.kind == .package { return .writing }
        let isPortable = String(validating: item.name.bytes, as: UTF8.self) != nil
        if isPortable, facts.isUnsent || facts.isInOutbox { return .uploading }
        switch facts.mirror {
        case .refused: return .uploading
        case .due, .underway, .stuck: return .downloaded
        case .settled, nil: return .current
        }
    }
}
