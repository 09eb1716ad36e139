import Journal
import Model

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
