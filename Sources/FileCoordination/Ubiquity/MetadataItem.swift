import Control
import Foundation
import Glibc

/// An item that a ``MetadataQuery`` has found, as it was at that time. Nothing was downloaded to
/// find it.
public struct MetadataItem: Hashable, Sendable {
    /// Where the item was. Do not keep it for long: query again, or keep a ``FileBookmark``.
    public let url: URL
    /// Whether it is a directory and not a package.
    public let isDirectory: Bool
    /// Whether it is a package: a directory that is shown as one document.
    public let isPackage: Bool
    /// The size in bytes, also of contents that are not on this device; 0 for directories and
    /// packages.
    public let size: Int
    /// When the contents were last changed.
    public let modificationDate: Date
    /// Where the contents are and how far transfers have come; nil for an item that is on no
    /// volume, or is known only to this device, such as a temporary file.
    public let ubiquity: UbiquityResourceValues?

    /// The last component of the path.
    public var name: String { url.lastPathComponent }

    /// Nil when there is no item.
    init?(_ path: FilePath, _ inquiry: ItemStatusReader) {
        guard let status = try? path.status() else { return nil }
        let isAnyDirectory = FileKind(status) == .directory
        let found = (try? inquiry.report(ofItemAt: path, isDirectory: isAnyDirectory)) ?? nil
        url = URL(path, isDirectory: isAnyDirectory)
        isPackage = isAnyDirectory && found?.kind == "package"
        isDirectory = isAnyDirectory && !isPackage
        size = isAnyDirectory ? 0 : Int(status.st_size)
        modificationDate = Date(status.st_mtim)
        ubiquity = found?.values
    }

    var path: FilePath { FilePath(url) }

    /// Whether the item's state can change without a change of the item, because contents are being
    /// transferred.
    var isTransferring: Bool {
        ubiquity.map { $0.isDownloading || $0.isUploading } ?? false
    }
}
