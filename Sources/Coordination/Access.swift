/// What somebody wants to do with one item. The options are those of NSFileCoordinator, and mean
/// the same.
package enum Access: Hashable, Sendable {
    case read(ReadingOptions)
    case write(WritingOption)

    package struct ReadingOptions: OptionSet, Hashable, Sendable {
        package let rawValue: UInt8
        package init(rawValue: UInt8) { self.rawValue = rawValue }
        /// Presenters are not asked to save first.
        package static let withoutChanges = ReadingOptions(rawValue: 1)
        /// Of a symlink at the end of the path, its target is meant. Whoever asks has resolved it.
        package static let resolvesSymbolicLink = ReadingOptions(rawValue: 2)
        /// Nothing is downloaded.
        package static let immediatelyAvailableMetadataOnly = ReadingOptions(rawValue: 4)
        /// Ends as soon as a snapshot has been taken.
        package static let forUploading = ReadingOptions(rawValue: 8)
    }

    /// One at a time; `update` is "no option".
    package enum WritingOption: String, Hashable, Sendable, CaseIterable {
        case update, merging, contentIndependentMetadataOnly, moving, deleting, replacing
    }

    package var isWriting: Bool {
        if case .write = self { return true }
        return false
    }

    /// Whether it also keeps others from what a directory contains (Rules.md, C3).
    package var isDeep: Bool {
        switch self {
        case .read, .write(.update), .write(.merging), .write(.contentIndependentMetadataOnly):
            false
        case .write(.moving), .write(.deleting), .write(.replacing): true
        }
    }

    /// Whether the presenters of what it is about to change must let go of it for good.
    var isRemoving: Bool { self == .write(.deleting) || self == .write(.replacing) }

    /// Whether presenters are asked to save before it.
    var wantsChanges: Bool {
        switch self {
        case .read(let options): !options.contains(.withoutChanges)
        case .write(let option): option == .merging
        }
    }
}
