import Control
import Foundation
import Glibc
import Model

/// An item that a ``MetadataQuery`` has found, as it was at that time. Nothing was downloaded to
/// find it.
public struct MetadataItem: Hashable, Sendable {
    let path: FilePath
    /// Where the item was. Do not keep it for long: query again, or keep a ``FileBookmark``.
    public var url: URL { URL(path, isDirectory: isDirectory || isPackage) }
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
    public var name: String { path.name.text }

    /// Nil when there is no item. The volume is asked about this item.
    init?(_ path: FilePath, _ inquiry: ItemStatusReader) {
        guard let status = try? path.status() else { return nil }
        self.init(path, status, (try? inquiry.report(ofItemAt: path)) ?? nil)
    }

    /// An item in a directory that the volume was asked about.
    init?(
        _ name: Name, in directory: ItemStatusReader.Directory, _ inquiry: ItemStatusReader
    ) {
        let path = directory.path.appending(name)
        guard let status = try? path.status() else { return nil }
        let found = try? inquiry.report(of: name, in: directory, device: status.st_dev)
        self.init(path, status, found ?? nil)
    }

    private init(
        _ path: FilePath, _ status: stat, _ found: (kind: String, values: UbiquityResourceValues)?
    ) {
        let isAnyDirectory = FileKind(status) == .directory
        self.path = path
        isPackage = isAnyDirectory && found?.kind == "package"
        isDirectory = isAnyDirectory && !isPackage
        size = isAnyDirectory ? 0 : Int(status.st_size)
        modificationDate = Date(status.st_mtim)
        ubiquity = found?.values
    }

    /// Whether the item's state can change without a change of the item, because contents are being
    /// transferred.
    var isTransferring: Bool {
        ubiquity.map { $0.isDownloading || $0.isUploading } ?? false
    }
}
