/// Where a chunk lies among the packs.
package struct ChunkPlace: Hashable, Sendable {
    package var pack: UInt32
    /// Of the chunk's first byte in the pack.
    package var offset: UInt64
    /// Bytes in the pack.
    package var storedLength: UInt32
    /// Bytes of the plain content.
    package var length: UInt32

    package init(pack: UInt32, offset: UInt64, storedLength: UInt32, length: UInt32) {
        self.pack = pack
        self.offset = offset
        self.storedLength = storedLength
        self.length = length
    }
}
