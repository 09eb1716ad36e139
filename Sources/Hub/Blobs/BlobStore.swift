import ChunkStore
import HubProtocol
import Model

/// The other part of a hub: the bytes of chunks. A location stays valid until its pack is removed,
/// and packs are immutable once they have ended. `BlobContract` in the tests defines what each
/// implementation must do.
package protocol BlobStore: Sendable {
    /// Stores chunks, each under the digest of its uncompressed bytes. When this returns, all of
    /// them survive a loss of power.
    ///
    /// - Throws: `.full`; then no chunk is stored, although disk space may have been used.
    func keep(_ chunks: [PlainChunk]) async throws(VolumeError) -> [ChunkLocation]

    /// Returns the stored bytes, ready to be sent. They have been checked against `plain`.
    ///
    /// - Throws: `.damaged`, also if the location no longer exists.
    func read(_ plain: Digest, at place: ChunkLocation) async throws(VolumeError) -> StoredChunk

    /// Returns the size of each pack without reading the packs.
    func packs() async throws(VolumeError) -> [UInt32: UInt64]

    /// Ends the pack that is being written. All present packs are immutable from then on.
    func endPack() async throws(VolumeError)

    /// Copies the chunks at these locations out of an ended pack. The result maps old offsets to
    /// new locations; chunks that cannot be read are missing in it.
    func move(_ places: [PlacedChunk], from pack: UInt32) async throws(VolumeError)
        -> [UInt64: ChunkLocation]

    func remove(pack: UInt32) async throws(VolumeError)

    // MARK: Packs that another ledger may need

    /// Moves a pack aside instead of removing it, so that it can be restored.
    func quarantine(pack: UInt32) async throws(VolumeError)

    /// Restores a pack from the quarantine. Its locations are valid again.
    func restore(pack: UInt32) async throws(VolumeError)

    /// Returns the size of each pack in the quarantine.
    func quarantinedPacks() async throws(VolumeError) -> [UInt32: UInt64]

    /// Returns which hub the packs belong to, and how often that hub had been opened; nil if they
    /// have no mark.
    func mark() async throws(VolumeError) -> StoreStamp?

    /// Writes the mark. When this returns, it survives a loss of power.
    func setMark(_ mark: StoreStamp) async throws(VolumeError)
}

package struct PlainChunk: Sendable {
    package let plain: Digest
    package let bytes: [UInt8]

    package init(plain: Digest, bytes: [UInt8]) {
        self.plain = plain
        self.bytes = bytes
    }
}

package struct StoredChunk: Hashable, Sendable {
    package let codec: ChunkFrame.Codec
    package let bytes: [UInt8]
}

package struct PlacedChunk: Hashable, Sendable {
    package let plain: Digest
    package let place: ChunkLocation

    package init(plain: Digest, place: ChunkLocation) {
        self.plain = plain
        self.place = place
    }
}
