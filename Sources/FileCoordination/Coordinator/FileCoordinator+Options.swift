extension FileCoordinator {
    /// How an item is read. The options may be combined. The raw values are Apple's.
    public struct ReadingOptions: OptionSet, Hashable, Sendable {
        /// The bits, as Apple numbers them.
        public let rawValue: UInt
        /// Makes a set of its bits.
        public init(rawValue: UInt) { self.rawValue = rawValue }

        /// Presenters of the item are not asked to save their changes first.
        public static let withoutChanges = ReadingOptions(rawValue: 1)
        /// If the last component of the path is a symbolic link, the link's target is read, and the
        /// accessor gets the target's URL. Links before the last component are always resolved.
        public static let resolvesSymbolicLink = ReadingOptions(rawValue: 2)
        /// Nothing is downloaded for the access. It waits for other accesses all the same.
        public static let immediatelyAvailableMetadataOnly = ReadingOptions(rawValue: 4)
        /// The accessor gets a snapshot in a temporary directory, for a directory as a zip file,
        /// and the access ends as soon as the snapshot is made. The snapshot is removed when the
        /// accessor returns, so open it or move it before. In a call that also has other accesses,
        /// all accesses end together.
        public static let forUploading = ReadingOptions(rawValue: 8)
    }

    /// How an item is written: empty, which means to update it, or one option. The raw values are
    /// Apple's.
    public struct WritingOptions: OptionSet, Hashable, Sendable {
        /// The bits, as Apple numbers them.
        public let rawValue: UInt
        /// Makes a set of its bits.
        public init(rawValue: UInt) { self.rawValue = rawValue }

        /// Presenters of the item and of all that it contains are asked to close it, and accesses
        /// of other programs to what it contains are waited for.
        public static let forDeleting = WritingOptions(rawValue: 1)
        /// Accesses of other programs to what the item contains are waited for.
        public static let forMoving = WritingOptions(rawValue: 2)
        /// Presenters save their changes first: the item is read and then written.
        public static let forMerging = WritingOptions(rawValue: 4)
        /// Another item takes the item's place; otherwise like ``forDeleting``. The access is to
        /// the path, so it does not follow an item that is moved away while the call waits.
        public static let forReplacing = WritingOptions(rawValue: 8)
        /// The call writes only metadata that does not depend on the contents, such as tags.
        public static let contentIndependentMetadataOnly = WritingOptions(rawValue: 16)
    }
}
