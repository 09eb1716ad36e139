/// Where a chunk is stored: the pack and the place in it.
package struct ChunkPlace: Hashable, Sendable {
    package var pack: UInt32
    /// The offset of the chunk's record in the pack.
    package var offset: UInt64
    /// The number of bytes of the stored payload, which may be compressed.
    package var storedLength: UInt32
    /// The number of uncompressed bytes.
    package var length: UInt32

    package init(pack: UInt32, offset: UInt64, storedLength: UInt32, length: UInt32) {
        self.pack = pack
        self.offset = offset
        self.storedLength = storedLength
        self.length = length
    }
}
