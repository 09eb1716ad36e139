import ChunkStore
import HubProtocol
import Logging
import Model

/// The other part of a hub: the bytes of chunks. A location stays valid until its pack is removed,
/// and packs are immutable once they have ended. `BlobContract` in the tests defines what each
/// implementation must do.
package protocol BlobStore: Sendable {
    /// Stores chunks, each under the digest of its uncompressed bytes. When this returns, all of
    /// them survive a loss of power.
    ///
    /// - Throws: `.full`; then no chunk is stored, although disk space may have been used. All
    ///   methods throw `.offline` if a server that they need cannot be used at present.
    func keep(_ chunks: [PlainChunk]) async throws(VolumeError) -> [ChunkLocation]

    /// Returns the stored bytes, ready to be sent. They have been checked against `plain`.
    ///
    /// - Throws: `.damaged`, also if the location no longer exists.
    func read(_ plain: Digest, at place: ChunkLocation) async throws(VolumeError) -> StoredChunk

    /// Checks, in the transaction that records chunks, that their packs have not been removed since
    /// `keep` or `move` returned.
    ///
    /// - Throws: `.busy`; then the chunks must be sent again.
    func confirm(_ places: [ChunkLocation], _ transaction: any LedgerTransaction) throws

    /// Returns the size of each pack without reading the packs.
    func packs() async throws(VolumeError) -> [UInt32: UInt64]

    /// Returns what `packs` does, from what is really there. It may take long.
    func listPacks() async throws(VolumeError) -> [UInt32: UInt64]

    /// Ends the pack that is being written. All present packs are immutable from then on.
    func endPack() async throws(VolumeError)

    /// Returns the packs that a collection may empty and remove. Nothing is appended to them.
    func collectablePacks() async throws(VolumeError) -> [UInt32: UInt64]

    /// Copies the chunks at these locations out of an ended pack. The result maps old offsets to
    /// new locations; chunks that cannot be read are missing in it.
    func move(_ places: [PlacedChunk], from pack: UInt32) async throws(VolumeError)
        -> [UInt64: ChunkLocation]

    /// Removes a pack. A store that several hubs share leaves a pack alone in which the ledger has
    /// recorded a chunk in the meantime.
    func remove(pack: UInt32) async throws(VolumeError)

    /// Removes what failed writes have left behind.
    ///
    /// - Parameters:
    ///   - foreign: Packs up to this number may be known to another ledger.
    ///   - time: Writes that began after it may still succeed.
    /// - Returns: The number of bytes.
    func removeGarbage(after foreign: UInt32, begunBefore time: Int64) async throws(VolumeError)
        -> UInt64

    // MARK: Upkeep

    /// A running hub calls this every second. It begins what has to be done, and does not wait.
    ///
    /// - Throws: `.offline` while a server cannot be used.
    func maintain() async throws(VolumeError)

    /// Ends what `maintain` began.
    func close() async

    // MARK: Copies

    /// Returns all bytes of a pack; nil if there is no such pack.
    func contents(ofPack pack: UInt32) async throws(VolumeError) -> [UInt8]?

    /// Stores a pack that another store has under this number, in place of one that is here. When
    /// this returns, it survives a loss of power. Nothing may be kept meanwhile.
    func add(pack: UInt32, _ contents: [UInt8]) async throws(VolumeError)

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

extension BlobStore {
    package func confirm(_ places: [ChunkLocation], _ transaction: any LedgerTransaction) {}

    package func listPacks() async throws(VolumeError) -> [UInt32: UInt64] { try await packs() }

    package func collectablePacks() async throws(VolumeError) -> [UInt32: UInt64] {
        try await endPack()
        return try await packs()
    }

    package func removeGarbage(after foreign: UInt32, begunBefore time: Int64) -> UInt64 { 0 }

    package func maintain() async throws(VolumeError) {}

    package func close() async {}
}

/// A server outside of the hub's directory that has, or will have, its blobs. Several hubs may
/// share it if they share a ledger.
package protocol BlobSource: Sendable {
    /// The place, for messages.
    var name: String { get }

    /// - Throws: `.denied`, `.invalid`.
    func open(_ ledger: any Ledger, _ log: Logger) throws(VolumeError) -> any BlobStore
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

    package init(codec: ChunkFrame.Codec, bytes: [UInt8]) {
        self.codec = codec
        self.bytes = bytes
    }
}

package struct PlacedChunk: Hashable, Sendable {
    package let plain: Digest
    package let place: ChunkLocation

    package init(plain: Digest, place: ChunkLocation) {
        self.plain = plain
        self.place = place
    }
}
