extension PackStore {
    package enum Limits {
        /// A pack that a further record would make longer than this is followed by a new one.
        package static let packBytes: UInt64 = 64 << 20
        /// The longest chunk that is stored or believed: four times the longest that is ever cut.
        package static let chunkBytes = 16 << 20
        /// Packs that are kept open for reading.
        package static let openPacks = 16
    }
}
