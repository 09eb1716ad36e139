import Control
import Foundation

/// What is known about an item that is on several devices: whether its contents are here, whether
/// they are safe elsewhere, and what prevents that (Rows.md, B5).
///
/// Asking downloads nothing, so it can be used to fill a list of items.
public struct UbiquityResourceValues: Hashable, Sendable {
    /// Where the contents of an item are.
    public enum DownloadingStatus: String, Hashable, Sendable {
        /// At the hub, not here. Reading the item downloads them.
        case notDownloaded
        /// An older version is here; the newest is downloaded as soon as possible.
        case downloaded
        /// The newest known version is here.
        case current
    }

    /// Whether the item is meant for all devices: its volume belongs to a hub.
    public var isUbiquitous: Bool
    /// Where the contents are; always `current` for a directory, so ask for its items.
    public var downloadingStatus: DownloadingStatus
    /// Whether the contents are being downloaded.
    public var isDownloading = false
    /// Whether the hub has everything that is here.
    public var isUploaded: Bool
    /// Whether something is being uploaded or waits for that.
    public var isUploading = false
    /// From 0 to 100; nil when nothing is being downloaded, or the amount is not known yet.
    public var percentDownloaded: Double?
    /// From 0 to 100; nil when nothing is being uploaded, or the amount is not known yet.
    public var percentUploaded: Double?
    /// Whether there are versions in conflict that are not settled (``FileVersion``).
    public var hasUnresolvedConflicts: Bool
    /// Why the contents cannot be downloaded, as a sentence.
    public var downloadingError: String?
    /// Why the hub does not have the contents, as a sentence.
    public var uploadingError: String?

    init(_ report: EntriesReport.Group, isUbiquitous: Bool) {
        self.isUbiquitous = isUbiquitous
        downloadingStatus =
            switch report.state {
            case "dataless", "downloading": .notDownloaded
            case "downloaded": .downloaded
            default: .current
            }
        isDownloading = report.state == "downloading"
        isUploaded = report.durability == "hub"
        isUploading = isUbiquitous && !isUploaded && downloadingStatus == .current
        hasUnresolvedConflicts = report.conflicts
    }

    /// Adds what is known about this process's own downloads of contents that are not here.
    mutating func take(_ downloads: UbiquityContainer.Downloads, _ path: FilePath) {
        if let percent = downloads.underWay[path] {
            (isDownloading, percentDownloaded) = (true, percent)
        }
        downloadingError = downloads.failed[path] ?? downloadingError
    }

    mutating func take(_ hub: HubReport, path: String) {
        for line in hub.moving where line.path == path {
            let part = line.total > 0 ? Double(line.done) / Double(line.total) * 100 : nil
            if line.direction == "down" {
                (isDownloading, percentDownloaded) = (true, part)
            } else {
                (isUploading, percentUploaded) = (true, part)
            }
        }
        guard let problem = hub.problems[path] else { return }
        if downloadingStatus == .current {
            uploadingError = problem
        } else {
            downloadingError = problem
        }
    }
}

extension UbiquityResourceValues {
    /// An attribute whose changes a ``FilePresenter`` can observe.
    public enum Attribute: String, Hashable, Sendable, CaseIterable {
        case isUbiquitous, downloadingStatus, isDownloading, downloadingError
        case isUploaded, isUploading, uploadingError, hasUnresolvedConflicts
    }

    /// The attributes with other values than before; all if there were none before.
    func changes(since former: UbiquityResourceValues?) -> Set<Attribute> {
        guard let former else { return Set(Attribute.allCases) }
        func differs(_ attribute: Attribute) -> Bool {
            switch attribute {
            case .isUbiquitous: isUbiquitous != former.isUbiquitous
            case .downloadingStatus: downloadingStatus != former.downloadingStatus
            case .isDownloading: isDownloading != former.isDownloading
            case .downloadingError: downloadingError != former.downloadingError
            case .isUploaded: isUploaded != former.isUploaded
            case .isUploading: isUploading != former.isUploading
            case .uploadingError: uploadingError != former.uploadingError
            case .hasUnresolvedConflicts:
                hasUnresolvedConflicts != former.hasUnresolvedConflicts
            }
        }
        return Set(Attribute.allCases.filter(differs))
    }
}

extension UbiquityContainer {
    /// What is known about an item now; nil when it is on no volume, does not exist, or is only
    /// known to this device, such as a temporary file. It waits for the volume's daemon, though not
    /// for the network, so do not call it on the main thread.
    ///
    /// - Throws: ``FileCoordinationError``: `.unavailable` when the daemon does not answer.
    public static func resourceValues(ofItemAt url: URL) throws(FileCoordinationError)
        -> UbiquityResourceValues?
    {
        try ItemStatusReader().report(ofItemAt: FilePath(url))?.values
    }
}
