import Journal
import Model

// Placeholders are neither cut nor moved aside, and filling them is no change.
extension Recorder {
    /// Notes that the document is a placeholder of its current version. If the mark names another
    /// document, because the inode was linked or moved, this document has no version of its own
    /// until the bytes have been fetched. If it names another version, a change from the hub was in
    /// the tree before a crash and not in the journal: the document shows its last version again,
    /// and the change arrives once more.
    func noteAbsent(_ found: LivePlaceholder, in recording: inout Recording) throws(VolumeError) {
        guard found.mark.item == recording.item.id, found.mark.version == recording.item.current
        else {
            recording.isLiveDeferred = true
            if found.mark.item != recording.item.id {
                fetch(found.descriptor.raw, of: recording.item)
            } else if recording.work.priorContents.isEmpty,
                try LostContents(recorder: self).canShowLastVersion(recording.item)
            {
                notShown.current?(recording.item.key)
            }
            return
        }
        recording.absent = found
        recording.item.size = UInt64(max(0, found.snapshot.size))
        recording.item.modified = found.snapshot.modified
        recording.item.changed = max(1, found.snapshot.changed)
    }

    func commitAbsence(_ recording: Recording, _ t: Transaction) throws {
        let key = recording.item.key
        if let absent = recording.absent {
            // If the file becomes complete from here on, that is noted after this transaction.
            guard absent.isStill else { return }
            try t.setAbsent(key, version: absent.mark.version)
        } else if !recording.isLiveDeferred {
            try t.removeAbsent(key)
        }
    }

    /// The chunks of an item's versions that the present hub or an earlier one has had.
    func onHub(_ key: Int64) throws(VolumeError) -> Set<Digest> {
        try look { reader in
            var chunks: Set<Digest> = []
            for version in try reader.versions(of: key) where version.wasAtHub {
                let manifest = try reader.manifest(of: version.id).flatMap(Manifest.init(encoded:))
                if let manifest { chunks.formUnion(manifest.chunkIDs) }
            }
            return chunks
        }
    }
}

extension Volume {
    /// Thrown to a caller that must not wait for the network. It asks again on a thread that may.
    static let notOnDevice = VolumeError(.offline, "The contents are not on this device.")

    /// Fetches a chunk from the hub; nil if no version of the item that the hub has contains it.
    func remoteBytes(of chunk: ChunkReference, item key: Int64, locally: Bool) throws(VolumeError)
        -> [UInt8]?
    {
        let version = try journal.read { reader in
            try reader.versions(of: key).last { version in
                guard version.wasAtHub, let bytes = try reader.manifest(of: version.id)
                else { return false }
                return Manifest(encoded: bytes)?.chunkIDs.contains(chunk.id) ?? false
            }?.id
        }
        guard let version else { return nil }
        if locally { throw Volume.notOnDevice }
        let remote = try hydration.reached()
        for _ in 0..<2 {
            var found: [UInt8]?
            try remote.chunks([chunk], of: version) { (_, bytes) throws(VolumeError) in
                if bytes.count == Int(chunk.length), Digest.sha256(bytes) == chunk.id {
                    found = bytes
                }
            }
            if let found { return found }
        }
        throw VolumeError(
            .damaged, "The hub sends bytes that are not those of chunk \(chunk.id).")
    }
}
