extension PackStore {
    package enum Limits {
        /// A pack that a further record would make longer than this is followed by a new one.
        package static let packBytes: UInt64 = 64 << 20
        /// The longest chunk that is stored or believed: four times the longest that is ever cut.
        package static let chunkBytes = 16 << 20
        /// The longest content that is cut. The list of the chunks of a longer one would take
        /// hundreds of megabytes, however few of its bytes were ever written.
        package static let contentBytes: Int64 = 4 << 40
        /// Bytes that a chunk takes beside its payload.
        package static let recordOverhead = UInt64(RecordHeader.byteCount)
        /// Packs that are kept open for reading.
        package static let openPacks = 16
    }
}
