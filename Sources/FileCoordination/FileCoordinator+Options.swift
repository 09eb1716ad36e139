extension FileCoordinator {
    /// How an item is to be read. They may be combined; the numbers are Apple's.
    public struct ReadingOptions: OptionSet, Hashable, Sendable {
        /// The bits, as Apple numbers them.
        public let rawValue: UInt
        /// Options by their bits.
        public init(rawValue: UInt) { self.rawValue = rawValue }

        /// Presenters of the item are not asked to save their changes first.
        public static let withoutChanges = ReadingOptions(rawValue: 1)
        /// When the last component of the path is a symbolic link, what it points to is meant,
        /// and the accessor gets that URL. Links before the last component are always resolved.
        public static let resolvesSymbolicLink = ReadingOptions(rawValue: 2)
        /// Nothing is downloaded for it; turns are waited for all the same.
        public static let immediatelyAvailableMetadataOnly = ReadingOptions(rawValue: 4)
        /// The accessor gets a snapshot in a temporary place, of a directory a zip file, and the
        /// turn ends as soon as that is made. It is removed when the accessor returns: open it or
        /// move it away before. (In a call with other accesses too, all turns end with the call.)
        public static let forUploading = ReadingOptions(rawValue: 8)
    }

    /// How an item is to be written: none, which means to update it, or one. The numbers are
    /// Apple's.
    public struct WritingOptions: OptionSet, Hashable, Sendable {
        /// The bits, as Apple numbers them.
        public let rawValue: UInt
        /// Options by their bits.
        public init(rawValue: UInt) { self.rawValue = rawValue }

        /// Presenters of the item, and of all it contains, are asked to let go of it for good;
        /// turns of others on what it contains are waited for.
        public static let forDeleting = WritingOptions(rawValue: 1)
        /// Turns of others on what the item contains are waited for.
        public static let forMoving = WritingOptions(rawValue: 2)
        /// Presenters save their changes first: the item is read, then written.
        public static let forMerging = WritingOptions(rawValue: 4)
        /// Something new is put in the item's place, as ``forDeleting`` otherwise. It is the
        /// place that is meant: who waits does not follow an item that is moved away.
        public static let forReplacing = WritingOptions(rawValue: 8)
        /// Only metadata that says nothing of the contents, such as tags.
        public static let contentIndependentMetadataOnly = WritingOptions(rawValue: 16)
    }
}
