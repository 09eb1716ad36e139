import Control
import Foundation
import Glibc
import Model

/// One item of a call, and whether it is read or written, with which options.
struct Access: Sendable {
    enum Kind: Sendable {
        case reading(FileCoordinator.ReadingOptions)
        case writing(FileCoordinator.WritingOptions)
    }

    let kind: Kind
    let url: URL

    static func reading(_ url: URL, _ options: FileCoordinator.ReadingOptions) -> Access {
        Access(kind: .reading(options), url: url)
    }

    static func writing(_ url: URL, _ options: FileCoordinator.WritingOptions) -> Access {
        Access(kind: .writing(options), url: url)
    }

    var isWriting: Bool {
        if case .writing = kind { return true }
        return false
    }

    func reads(_ option: FileCoordinator.ReadingOptions) -> Bool {
        if case .reading(let options) = kind { return options.contains(option) }
        return false
    }

    func writes(_ option: FileCoordinator.WritingOptions) -> Bool {
        if case .writing(let options) = kind { return options.contains(option) }
        return false
    }

    func validate() throws(FileCoordinationError) {
        guard url.isFileURL else {
            throw FileCoordinationError(
                .invalid, "\(url.absoluteString) is not a file URL: there is nothing to coordinate")
        }
        guard case .writing(let options) = kind else { return }
        guard options.rawValue.nonzeroBitCount <= 1, options.rawValue < 32 else {
            throw FileCoordinationError(
                .invalid,
                "the options for writing \(FilePath(url)) are more than one: an item is deleted, "
                    + "moved, merged, replaced or given metadata, one at a time; give one option")
        }
    }

    /// The access as the control protocol encodes it.
    func field(_ path: [Name]) -> AccessField {
        switch kind {
        case .reading(let options):
            let all: [(FileCoordinator.ReadingOptions, AccessField.ReadingOption)] = [
                (.withoutChanges, .withoutChanges), (.resolvesSymbolicLink, .resolvesSymbolicLink),
                (.immediatelyAvailableMetadataOnly, .immediatelyAvailableMetadataOnly),
                (.forUploading, .forUploading),
            ]
            return AccessField(reading: path, all.filter { options.contains($0.0) }.map(\.1))
        case .writing(let options):
            let option: AccessField.WritingOption =
                switch options {
                case .forDeleting: .deleting
                case .forMoving: .moving
                case .forMerging: .merging
                case .forReplacing: .replacing
                case .contentIndependentMetadataOnly: .contentIndependentMetadataOnly
                default: .update
                }
            return AccessField(writing: path, option)
        }
    }
}
