import Control
import Foundation

/// What is known of an item that is on several devices: whether its contents are here, whether they
/// are safe elsewhere, and what stands in the way (Rows.md, B5).
///
/// Asking downloads nothing, so it is what a list of items is made from.
public struct UbiquityResourceValues: Hashable, Sendable {
    /// Where an item's contents are.
    public enum DownloadingStatus: String, Hashable, Sendable {
        /// At the hub, not here. Reading the item downloads them.
        case notDownloaded
        /// Here, and the hub has newer ones, which come as soon as possible.
        case downloaded
        /// Here, and the newest that are known.
        case current
    }

    /// Whether it is meant for all devices: its volume belongs to a hub.
    public var isUbiquitous: Bool
    /// Of a directory always `current`: ask its items.
    public var downloadingStatus: DownloadingStatus
    /// Whether contents are on their way here.
    public var isDownloading = false
    /// Whether the hub has all that is here.
    public var isUploaded: Bool
    /// Whether something is on its way to the hub, or waits for that.
    public var isUploading = false
    /// From 0 to 100; nil where nothing is on its way, or nobody has counted yet.
    public var percentDownloaded: Double?
    /// From 0 to 100; nil where nothing is on its way, or nobody has counted yet.
    public var percentUploaded: Double?
    /// Whether versions wait for somebody to settle them (``FileVersion``).
    public var hasUnresolvedConflicts: Bool
    /// Why it does not come; a sentence.
    public var downloadingError: String?
    /// Why the hub does not have it; a sentence.
    public var uploadingError: String?

    init(_ report: DocumentReport, isUbiquitous: Bool) {
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
        hasUnresolvedConflicts = (report.conflicts ?? 0) > 0
    }

    /// What this process downloads.
    mutating func take(_ downloads: UbiquityContainer.Downloads, _ path: FilePath) {
        guard downloadingStatus != .current else { return }
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

extension UbiquityContainer {
    /// What is known of an item now; nil of one that is on no volume, or is known to none: it is
    /// not there, or a temporary file. Waits for the volume's daemon, not for the network: call it
    /// off the main thread.
    ///
    /// - Throws: ``FileCoordinationError``: `.unavailable` when the daemon does not answer.
    public static func resourceValues(ofItemAt url: URL) throws(FileCoordinationError)
        -> UbiquityResourceValues?
    {
        try VolumeInquiry().report(ofItemAt: FilePath(url))?.values
    }
}
