/// Where a chunk lies: in which pack, and where in it its record begins.
package struct ChunkLocation: Hashable, Sendable {
    package var pack: UInt32
    package var offset: UInt64
    /// The bytes of the payload as it is stored.
    package var storedLength: UInt32
    /// The plain bytes.
    package var length: UInt32

    package init(pack: UInt32, offset: UInt64, storedLength: UInt32, length: UInt32) {
        self.pack = pack
        self.offset = offset
        self.storedLength = storedLength
        self.length = length
    }
}
