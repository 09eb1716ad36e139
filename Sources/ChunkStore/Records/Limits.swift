extension PackStore {
    package enum Limits {
        /// A record that would make a pack longer than this goes into a new pack.
        package static let packBytes: UInt64 = 64 << 20
        /// The longest chunk that is stored or accepted: four times the longest that is ever cut.
        package static let chunkBytes = 16 << 20
        /// The longest content that is cut. The list of chunks of longer content would take
        /// hundreds of megabytes, even if almost no byte of it was ever written.
        package static let contentBytes: Int64 = 4 << 40
        /// The bytes that a chunk takes in addition to its payload.
        package static let recordOverhead = UInt64(RecordHeader.byteCount)
        /// How many packs are kept open for reading.
        package static let openPacks = 16
    }
}
