import Control
import Foundation
import Glibc
import Model
import Synchronization

/// A version of an item: its current contents, earlier contents, or contents in conflict, which
/// another program or device saved at the same time.
///
/// Every save on a volume makes a version, which is kept according to the retention rules. Versions
/// travel with their document; their contents are downloaded when they are read.
///
/// Nothing here coordinates by itself, as with NSFileVersion (Rows.md, B3): list and read versions
/// in a coordinated read, change them in a coordinated write. The calls ask the volume's daemon and
/// wait for what it still has to record, so do not make them on a main thread.
///
/// Contents that were never saved can be added as a version
/// (``addVersionOfItem(at:withContentsOf:options:)``).
///
/// Two values are equal when they are the same version of the same file.
public struct FileVersion: Sendable {
    /// The item that this is a version of.
    public let itemURL: URL
    /// Identifies the version on all devices for as long as it is kept: 32 hexadecimal digits.
    public let persistentIdentifier: String
    private let facts: CachedReport

    init(itemURL: URL, persistentIdentifier: String, report: VersionReport? = nil) {
        self.itemURL = itemURL
        self.persistentIdentifier = persistentIdentifier
        facts = CachedReport(report)
    }

    /// Caches the daemon's answer, because a version never changes except for its kind.
    private final class CachedReport: Sendable {
        let report: Mutex<VersionReport?>

        init(_ report: VersionReport?) { self.report = Mutex(report) }
    }

    private var report: VersionReport? {
        if let known = facts.report.withLock({ $0 }) { return known }
        let found = (try? FileVersion.history(of: itemURL))??.versions.first {
            $0.id == persistentIdentifier
        }
        facts.report.withLock { $0 = found }
        return found
    }

    /// The version as the daemon knows it now; nil when it is no longer kept.
    private func current() throws(FileCoordinationError) -> VersionReport? {
        let found = try FileVersion.history(of: itemURL)?.versions.first {
            $0.id == persistentIdentifier
        }
        facts.report.withLock { $0 = found }
        return found
    }
}

extension FileVersion: Hashable {
    /// Whether both are the same version of the same file.
    public static func == (a: FileVersion, b: FileVersion) -> Bool {
        a.persistentIdentifier == b.persistentIdentifier && a.itemURL == b.itemURL
    }

    /// Hashes item and identifier.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(itemURL)
        hasher.combine(persistentIdentifier)
    }
}

// MARK: Finding

extension FileVersion {
    /// The current version. Nil when there is no such file, when nothing of it was recorded yet, or
    /// when it is on no Concord volume.
    public static func currentVersionOfItem(at url: URL) throws(FileCoordinationError)
        -> FileVersion?
    {
        try versions(of: url)?.first { $0.report?.kind == "current" }
    }

    /// All versions but the current one whose contents are on this device, and all in conflict,
    /// oldest first; nil when there is no such file.
    public static func otherVersionsOfItem(at url: URL) throws(FileCoordinationError)
        -> [FileVersion]?
    {
        try versions(of: url, local: true)?.filter { version in
            guard let report = version.report, report.kind != "current" else { return false }
            return report.kind == "conflict" || report.local != false
        }
    }

    /// Versions in conflict that are not settled yet, oldest first; nil when there is no such file.
    public static func unresolvedConflictVersionsOfItem(at url: URL)
        throws(FileCoordinationError) -> [FileVersion]?
    {
        try versions(of: url)?.filter { $0.report?.kind == "conflict" }
    }

    /// Versions whose contents are not on this device. A coordinated read of their ``url``
    /// downloads them.
    @concurrent
    public static func nonlocalVersionsOfItem(at url: URL) async throws(FileCoordinationError)
        -> [FileVersion]?
    {
        try versions(of: url, local: true)?.filter { $0.report?.local == false }
    }

    /// The version with that identifier; nil when it is no longer kept.
    public static func version(
        ofItemAt url: URL, forPersistentIdentifier identifier: String
    ) throws(FileCoordinationError) -> FileVersion? {
        try versions(of: url)?.first { $0.persistentIdentifier == identifier }
    }

    private static func versions(of url: URL, local: Bool = false) throws(FileCoordinationError)
        -> [FileVersion]?
    {
        try history(of: url, local: local)?.versions.map {
            FileVersion(itemURL: url, persistentIdentifier: $0.id, report: $0)
        }
    }

    private static func history(of url: URL, local: Bool = false) throws(FileCoordinationError)
        -> HistoryReport?
    {
        guard FilePath(url).kind != nil else { return nil }
        do throws(VolumeError) {
            return try ask(url, as: HistoryReport.self) { path in
                var request = Request(.versions, path: path)
                request.local = local ? true : nil
                return request
            }
        } catch {
            if error.code == .notFound || error.code == .invalid { return nil }
            throw FileCoordinationError(error)
        }
    }

    /// Nil when the item is on no volume.
    static func ask<Value: Codable & Sendable>(
        _ url: URL, as type: Value.Type, _ request: ([Name]) -> Request
    ) throws(VolumeError) -> Value? {
        let place: MountedPath?
        do throws(FileCoordinationError) { place = try FilePath(url).place() } catch {
            throw VolumeError(.offline, error.message)
        }
        guard let place else { return nil }
        return try ControlClient(socket: place.socket).ask(request(place.components), as: type)
    }
}

// MARK: Facts

extension FileVersion {
    /// Where the contents can be read, with the item's extension; nil when the version is no longer
    /// kept. Do not show it to people. For all versions but the current one the file is read-only.
    public var url: URL? {
        guard let report else { return nil }
        if report.kind == "current" { return itemURL }
        let item = FilePath(itemURL)
        let path = item.parent.appending(".versions").appending(item.name)
            .appending(Name(bytes: report.fileName.bytes))
        return URL(path, isDirectory: FilePath(itemURL).kind == .directory)
    }

    /// The item's name when it was saved.
    public var localizedName: String? { report?.name.text }
    /// The name of the device that saved it, at that time.
    public var localizedNameOfSavingComputer: String? { report?.deviceName }
    /// The login name of the user who saved it.
    public var originatorName: String? { report?.person }
    /// When the contents were last changed.
    public var modificationDate: Date? {
        report.map { Date(timeIntervalSince1970: Double($0.modified) / 1e9) }
    }
    /// Whether the version is in conflict with the current one, as of when it was last looked up.
    /// False for a version that is no longer kept.
    public var isConflict: Bool { report?.kind == "conflict" }
    /// Whether the version needs no decision: true for all versions that are not in conflict.
    public var isResolved: Bool { ((try? current()) ?? nil)?.kind != "conflict" }
    /// Whether retention may remove the version in time.
    public var isDiscardable: Bool {
        guard let report = (try? current()) ?? nil else { return true }
        return report.kind == "history" && report.label == nil
    }
    /// Whether the contents are on this device.
    public var hasLocalContents: Bool {
        let all = (try? FileVersion.versions(of: itemURL, local: true)) ?? []
        return all.first { $0 == self }?.report?.local ?? false
    }
}

// MARK: Changing

extension FileVersion {
    /// Settles a version in conflict, on all devices; from then on it is history. The item's
    /// contents do not change. For a version that is not in conflict, nothing happens.
    ///
    /// Only `fsctl resolve --undo` takes it back, so false throws `.invalid`.
    public func setResolved(_ isResolved: Bool) throws(FileCoordinationError) {
        guard isResolved else {
            throw FileCoordinationError(
                .invalid,
                "a settled version cannot be made a conflict again; use fsctl resolve --undo")
        }
        guard let report = try current(), report.kind == "conflict" else { return }
        do throws(VolumeError) {
            _ = try FileVersion.ask(itemURL, as: ResolutionReport.self) { path in
                var request = Request(.resolve, path: path)
                request.numbers = [report.number]
                request.program = ProcessInfo.processInfo.processName
                return request
            }
        } catch {
            // Another program has settled it in this moment.
            if error.code != .notFound { throw FileCoordinationError(error) }
        }
        facts.report.withLock { $0 = nil }
    }

    /// Keeps the version for ever (false), or lets retention remove it in time (true). The current
    /// version throws `.invalid`.
    public func setDiscardable(_ isDiscardable: Bool) throws(FileCoordinationError) {
        guard let report = try current() else { throw gone }
        guard report.kind != "current" else {
            throw FileCoordinationError(
                .invalid, "the current version of an item is never discarded")
        }
        try change(.name, report) { request in
            request.label = isDiscardable ? nil : report.label ?? "kept \(report.number)"
        }
    }

    /// Removes the version for good. The current version throws `.invalid`.
    public func remove() throws(FileCoordinationError) {
        guard let report = try current() else { return }
        if report.kind == "conflict" { try setResolved(true) }
        try change(.forget, report) { _ in }
    }

    /// Removes all versions except the current one and those in conflict.
    public static func removeOtherVersionsOfItem(at url: URL) throws(FileCoordinationError) {
        for version in try versions(of: url) ?? [] where version.report?.kind == "history" {
            try version.remove()
        }
    }

    private func change(
        _ verb: Verb, _ report: VersionReport, _ fill: (inout Request) -> Void
    ) throws(FileCoordinationError) {
        do throws(VolumeError) {
            _ = try FileVersion.ask(itemURL, as: Nothing.self) { path in
                var request = Request(verb, path: path)
                request.number = report.number
                fill(&request)
                return request
            }
        } catch {
            throw FileCoordinationError(error)
        }
        facts.report.withLock { $0 = nil }
    }

    private var gone: FileCoordinationError {
        FileCoordinationError(
            .unavailable, "that version of \(FilePath(itemURL)) is no longer kept")
    }
}
