import Journal
import Model

// Placeholders: what is not here is neither cut nor kept, and is no change.
extension Recorder {
    /// Whoever the mark names shows that version. Another document has the inode when it was linked
    /// or moved aside: it has no version of its own until the bytes are here, which are fetched.
    func noteAbsent(_ found: AbsentLive, in recording: inout Recording) {
        guard found.mark.item == recording.item.id, found.mark.version == recording.item.current
        else {
            recording.isLiveLeft = true
            if found.mark.item != recording.item.id {
                fetch(found.descriptor.raw, of: recording.item)
            }
            return
        }
        recording.absent = found
        recording.item.size = UInt64(max(0, found.trace.size))
        recording.item.modified = found.trace.modified
        recording.item.changed = max(1, found.trace.changed)
    }

    func commitAbsence(_ recording: Recording, _ t: Transaction) throws {
        let key = recording.item.key
        if let absent = recording.absent {
            // What becomes whole from here on is noted after this.
            guard absent.isStill else { return }
            try t.setAbsent(key, version: absent.mark.version)
        } else if !recording.isLiveLeft {
            try t.removeAbsent(key)
        }
    }

    /// Chunks of an item's versions that the hub has, or one that the volume was signed in to.
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
    /// Somebody who must not wait for the network asks again where he may.
    static let notHere = VolumeError(.offline, "The bytes are not on this device.")

    /// A chunk that a version of the item has that is on the hub; nil when there is none such.
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
        if locally { throw Volume.notHere }
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
            .damaged, "The hub gives other bytes than those of chunk \(chunk.id).")
    }
}
