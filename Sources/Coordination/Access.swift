/// The kind of access that a request wants to one item. The options are those of NSFileCoordinator,
/// with the same meaning.
package enum Access: Hashable, Sendable {
    case read(ReadingOptions)
    case write(WritingOption)

    package struct ReadingOptions: OptionSet, Hashable, Sendable {
        package let rawValue: UInt8
        package init(rawValue: UInt8) { self.rawValue = rawValue }
        /// Presenters are not asked to save first.
        package static let withoutChanges = ReadingOptions(rawValue: 1)
        /// If the last component of the path is a symlink, the access is to its target. The
        /// requester has resolved it already.
        package static let resolvesSymbolicLink = ReadingOptions(rawValue: 2)
        /// Nothing is downloaded for this read.
        package static let immediatelyAvailableMetadataOnly = ReadingOptions(rawValue: 4)
        /// The read ends as soon as a snapshot has been made.
        package static let forUploading = ReadingOptions(rawValue: 8)
    }

    /// A write has exactly one option. `update` stands for "no option".
    package enum WritingOption: String, Hashable, Sendable, CaseIterable {
        case update, merging, contentIndependentMetadataOnly, moving, deleting, replacing
    }

    package var isWriting: Bool {
        if case .write = self { return true }
        return false
    }

    /// Whether the access also conflicts with accesses to what the directory contains (Rules.md,
    /// C3).
    package var isDeep: Bool {
        switch self {
        case .read, .write(.update), .write(.merging), .write(.contentIndependentMetadataOnly):
            false
        case .write(.moving), .write(.deleting), .write(.replacing): true
        }
    }

    /// Whether the access may use the contents of the item.
    var needsContents: Bool {
        switch self {
        case .read(let options): !options.contains(.immediatelyAvailableMetadataOnly)
        case .write(let option): option != .contentIndependentMetadataOnly
        }
    }

    /// Whether the access removes the item, so that presenters of the item must accommodate its
    /// deletion.
    var isRemoving: Bool { self == .write(.deleting) || self == .write(.replacing) }

    /// Whether presenters are asked to save before the access.
    var wantsChanges: Bool {
        switch self {
        case .read(let options): !options.contains(.withoutChanges)
        case .write(let option): option == .merging
        }
    }
}
