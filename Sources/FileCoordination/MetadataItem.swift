import Control
import Foundation
import Glibc

/// An item that a ``MetadataQuery`` has found, as it was then. Nothing was downloaded to know it.
public struct MetadataItem: Hashable, Sendable {
    /// Where it is. Do not keep it: query again, or keep a ``FileBookmark``.
    public let url: URL
    /// Whether it is a directory and not a package, which is one item.
    public let isDirectory: Bool
    /// Whether it is a directory that is shown as one document.
    public let isPackage: Bool
    /// In bytes, also of what is not on this device; 0 of directories and packages.
    public let size: Int
    /// When its contents were last changed.
    public let modificationDate: Date
    /// Where its contents are, and how far on their way; nil of what is on no volume, or is known
    /// to this device only, such as temporary files.
    public let ubiquity: UbiquityResourceValues?

    /// The last part of its path.
    public var name: String { url.lastPathComponent }

    /// Nil when there is nothing.
    init?(_ path: FilePath, _ inquiry: VolumeInquiry) {
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

    /// Whether it can change without anybody changing the item.
    var isOnItsWay: Bool {
        ubiquity.map { $0.isDownloading || $0.isUploading } ?? false
    }
}
