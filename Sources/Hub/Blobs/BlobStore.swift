import ChunkStore
import HubProtocol
import Model

/// The other half of a hub: the bytes of chunks. A place, once given, holds until the pack is
/// removed; packs are immutable once they have ended. `BlobContract` in the tests says what must
/// hold of one.
package protocol BlobStore: Sendable {
    /// Keeps chunks, each under the digest of its plain bytes: all of them outlive a loss of power
    /// when this returns.
    ///
    /// - Throws: `.full`; then none is kept, and room may have been used.
    func keep(_ chunks: [PlainChunk]) async throws(VolumeError) -> [ChunkLocation]

    /// The bytes as they are to go over the wire; they have been checked against `plain`.
    ///
    /// - Throws: `.damaged`, also for a place that is gone.
    func read(_ plain: Digest, at place: ChunkLocation) async throws(VolumeError) -> StoredChunk

    /// The bytes of each pack there is, without reading any.
    func packs() async throws(VolumeError) -> [UInt32: UInt64]

    /// Ends the pack that is written to; all of now are immutable from here on.
    func endPack() async throws(VolumeError)

    /// Copies the chunks at these places out of an ended pack. Those that cannot be read have no
    /// new place in the answer.
    func move(_ places: [PlacedChunk], from pack: UInt32) async throws(VolumeError)
        -> [UInt64: ChunkLocation]

    func remove(pack: UInt32) async throws(VolumeError)

    // MARK: What may be another ledger's

    /// Moves a pack out of use, so that it can come back, instead of removing it.
    func quarantine(pack: UInt32) async throws(VolumeError)

    /// Brings a pack back; its places hold again.
    func restore(pack: UInt32) async throws(VolumeError)

    /// The bytes of each pack out of use.
    func quarantinedPacks() async throws(VolumeError) -> [UInt32: UInt64]

    /// To which hub the packs belong, and how often that had been opened; nil when they do not say.
    func mark() async throws(VolumeError) -> PartMark?

    /// It outlives a loss of power when this returns.
    func setMark(_ mark: PartMark) async throws(VolumeError)
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
