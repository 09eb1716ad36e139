import Model
import Reconcile

// What a hub demands of an operation, whatever its ledger contains. It uses the same validators as
// a device that receives the result. An operation with an objection is refused without the others
// of its request.

extension OperationEntry {
    /// - Parameter keyed: Returns a chunk's id in the volume (`VolumeAnswer.chunkKey`) from the
    ///   digest of its bytes.
    package func objection(keyed: (Digest) -> Digest) -> String? {
        if item == .root { return "The volume's root cannot be changed." }
        if let objection = base.objectionToSequence { return objection }
        if let objection = fence?.objectionToSequence { return objection }
        if let objection = change.objection(of: item) { return objection }
        switch (change.revision, content) {
        case (nil, nil): return nil
        case (nil, _?): return "The operation has contents, but its change has no version."
        case (_?, nil): return "The version's manifest and chunks are missing."
        case (let revision?, let content?):
            if let objection = revision.objection { return objection }
            var kind: ItemKind?
            if case .create(let creation) = change { kind = creation.kind }
            return content.objection(of: revision, kind) ?? content.objectionToChunks(keyed)
        }
    }
}

extension Change {
    fileprivate func objection(of item: Identifier) -> String? {
        switch self {
        case .create(let creation): creation.objection(of: item)
        case .move(let placement, _): placement.objection(of: item)
        case .attribute(let name, let value): Register.objection(to: name, value)
        case .resolve(let named, _):
            named.count > HubLimits.resolved || Set(named).count < named.count
                ? "A resolution names at most \(HubLimits.resolved) versions, each once." : nil
        case .edit, .delete, .restore: nil
        }
    }
}

extension Creation {
    fileprivate func objection(of item: Identifier) -> String? {
        if let objection = placement.objection(of: item) { return objection }
        if revision != nil, !kind.isDocument { return "Only a document can have contents." }
        // Only an empty file may have no version yet.
        if kind == .package, revision == nil {
            return "A package must be created with its contents."
        }
        if let objection = kind.objection(toTarget: target) { return objection }
        guard attributes.count <= HubLimits.attributes else {
            return "An item has at most \(HubLimits.attributes) attributes."
        }
        for (name, value) in attributes {
            if let objection = Register.objection(to: name, value) { return objection }
        }
        return nil
    }
}

extension RevisionContent {
    /// - Parameter kind: The item's kind; nil if the operation does not say it.
    fileprivate func objection(of revision: Revision, _ kind: ItemKind?) -> String? {
        guard (1...HubLimits.manifestBytes).contains(manifest.bytes.count) else {
            return "A manifest has 1 to \(HubLimits.manifestBytes) bytes."
        }
        guard chunks.ids.count <= HubLimits.chunksPerRevision,
            Set(chunks.ids).count == chunks.ids.count
        else { return "A version names a chunk twice, or too many of them." }
        guard let outline = ManifestOutline(encoded: manifest.bytes) else {
            return "The manifest cannot be decoded."
        }
        if let objection = outline.objection { return objection }
        guard outline.size == revision.size else {
            return "The version has another size than its manifest."
        }
        let isFile = outline.entries.count == 1 && outline.entries[0].entry.path.isEmpty
        guard kind.map({ isFile == ($0 == .file) }) ?? true else {
            return "The manifest is one of another kind of document."
        }
        return nil
    }

    /// The hub keeps the chunks in the list as long as it keeps the version, and devices need the
    /// chunks in the manifest.
    fileprivate func objectionToChunks(_ keyed: (Digest) -> Digest) -> String? {
        let named = Manifest.chunkIDs(encoded: manifest.bytes) ?? []
        return Set(named.map(keyed)) == Set(chunks.ids)
            ? nil : "The version's list of chunks names other chunks than its manifest."
    }
}
