import CLinux
import ChunkStore
import Glibc
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

extension Volume {
    /// The document at a path from the root, or else the deleted one that had the path last; nil if
    /// there is none. Waits until the recorder has processed all events before the call.
    ///
    /// - Throws: `.timeout`; `.damaged`.
    package func history(at path: [Name], timeoutSeconds: Double = 5) throws(VolumeError)
        -> DocumentHistory?
    {
        try catchUp(with: path, timeoutSeconds: timeoutSeconds)
        return try journal.read { reader in
            guard let item = try self.item(at: path, includesDeleted: true, reader) else {
                return nil
            }
            return try self.history(of: item, reader)
        }
    }

    package func history(of id: Identifier) throws(VolumeError) -> DocumentHistory? {
        try journal.read { reader in
            try reader.item(id: id).map { try self.history(of: $0, reader) }
        }
    }

    /// The present path of an item from the root. Waits until the recorder has processed all events
    /// before the call.
    ///
    /// - Throws: `.notFound` if there is no such item or it was deleted; `.timeout`.
    package func path(of id: Identifier) throws(VolumeError) -> [Name] {
        try catchUp(with: nil, timeoutSeconds: 5)
        let path = try journal.read { reader -> [Name]? in
            guard let item = try reader.item(id: id), item.deleted == nil else { return nil }
            return try reader.path(of: item.key)
        }
        if let path { return path }
        throw VolumeError(
            .notFound,
            "There is no item with the id \(id) in this volume. It was deleted, or it belongs to "
                + "another volume.")
    }

    /// Waits for the recorder. For a path that the tree has and the journal does not, waits until
    /// the time is over, because a scan may be running or recording may have stopped for want of
    /// space.
    func catchUp(with path: [Name]?, timeoutSeconds: Double) throws(VolumeError) {
        let deadline = cl_clock_monotonic_ns() + Timestamp.span(seconds: timeoutSeconds)
        var left = timeoutSeconds
        var pause: UInt32 = 1_000
        while true {
            try catchUp(withFocus: path.map { .path($0) }, timeoutSeconds: left)
            guard let path, try lacksItem(path) else { return }
            left = Double(deadline - cl_clock_monotonic_ns()) / 1e9
            guard left > 0 else { throw Volume.busy }
            usleep(pause)
            pause = min(pause * 2, 50_000)
        }
    }

    /// Whether the path exists and should have an item, but has none yet.
    func lacksItem(_ path: [Name]) throws(VolumeError) -> Bool {
        guard !path.isEmpty, try journal.read({ try self.item(at: path, $0) }) == nil,
            let snapshot = snapshot(at: path)
        else { return false }
        return !isLocal(path, isDirectory: snapshot.isDirectory)
    }

    static var ending: VolumeError { VolumeError(.busy, "The volume is being unmounted.") }

    private static var busy: VolumeError {
        VolumeError(
            .timeout,
            "The recorder is still busy with earlier changes; ask again in a moment, "
                + "or see `fsctl status`.")
    }

    func catchUp(withFocus focus: RecorderFocus?, timeoutSeconds: Double) throws(VolumeError) {
        guard recorder.catchUp(with: focus, timeoutSeconds: timeoutSeconds) else {
            throw recorder.isAboutToClose ? Volume.ending : Volume.busy
        }
    }

    /// The item at a path. For a path into a package this is the package.
    func item(at path: [Name], includesDeleted: Bool = false, _ reader: Reader) throws -> Item? {
        var item = try reader.item(Item.root)
        for (index, name) in path.enumerated() {
            guard let parent = item else { return nil }
            if parent.kind == .package { return parent }
            item = try reader.item(parent: parent.key, name: name)
            if item == nil, includesDeleted {
                let last = try reader.deletedItem(parent: parent.key, name: name)
                if index == path.count - 1 || last?.kind == .directory { item = last }
            }
        }
        return item
    }

    func history(of item: Item, _ reader: Reader) throws -> DocumentHistory {
        let versions = try reader.versions(of: item.key)
        let state = try state(of: item, reader)
        return DocumentHistory(
            id: item.id, isPackage: item.kind == .package, state: state, versions: versions,
            fileNames: versions.map { $0.fileName(of: item.name) },
            devices: devices(holding: versions.first { $0.id == item.current }),
            protection: try protection(of: item, reader))
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

    /// The contents of a version. A list of chunks that is not on this device comes from the hub,
    /// unless `locally` is set.
    ///
    /// - Throws: `.notFound`; `.damaged`; `.offline`, `.timeout`.
    package func content(of version: Identifier, locally: Bool = false) throws(VolumeError)
        -> VersionContent
    {
        let found = try journal.read { reader in
            (try reader.item(ofVersion: version), try reader.manifest(of: version))
        }
        guard let item = found.0, let bytes = found.1 else {
            throw VolumeError(.notFound, "Version \(version) does not exist any more.")
        }
        if bytes.isEmpty {
            if locally { throw Volume.notOnDevice }
            return VersionContent(
                manifest: try hydration.manifest(of: version), item: item, volume: self)
        }
        guard let manifest = Manifest(encoded: bytes) else {
            throw VolumeError(.damaged, "The list of chunks of version \(version) is damaged.")
        }
        return VersionContent(manifest: manifest, item: item, volume: self)
    }
}
