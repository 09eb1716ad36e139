import Control
import Foundation
import Glibc
import Model
import Synchronization

/// A version of an item: what it shows now, what it showed before, or what somebody saved at the
/// same time, which is a version in conflict.
///
/// Every save on a volume is a version, and stays one for a time (retention, see `fsctl versions`).
/// Versions travel with their document; their contents come to a device when they are read.
///
/// Nothing here coordinates by itself, as NSFileVersion does not (Rows.md, B3): list and
/// read versions in a coordinated read, change them in a coordinated write. Calls ask the volume's
/// daemon and wait for what it has to record: not on a main thread.
///
/// What is saved is a version; other contents can be added as one
/// (``addVersionOfItem(at:withContentsOf:options:)``).
///
/// Two are equal when they are the same version of the same file.
public struct FileVersion: Sendable {
    /// The item it is a version of.
    public let itemURL: URL
    /// Its name for as long as it is kept, on all devices: 32 hexadecimal digits.
    public let persistentIdentifier: String
    private let facts: Facts

    init(itemURL: URL, persistentIdentifier: String, report: VersionReport? = nil) {
        self.itemURL = itemURL
        self.persistentIdentifier = persistentIdentifier
        facts = Facts(report)
    }

    /// What was asked once is remembered: a version does not change, but for what it is.
    private final class Facts: Sendable {
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

    /// As the daemon has it now; nil when it is gone.
    private func current() throws(FileCoordinationError) -> VersionReport? {
        let found = try FileVersion.history(of: itemURL)?.versions.first {
            $0.id == persistentIdentifier
        }
        facts.report.withLock { $0 = found }
        return found
    }
}

extension FileVersion: Hashable {
    /// The same version of the same file.
    public static func == (a: FileVersion, b: FileVersion) -> Bool {
        a.persistentIdentifier == b.persistentIdentifier && a.itemURL == b.itemURL
    }

    /// By item and identifier.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(itemURL)
        hasher.combine(persistentIdentifier)
    }
}

// MARK: Finding

extension FileVersion {
    /// What the item shows now. Nil when there is no such file, or nothing of it was recorded yet,
    /// or it lies on no Concord volume.
    public static func currentVersionOfItem(at url: URL) throws(FileCoordinationError)
        -> FileVersion?
    {
        try versions(of: url)?.first { $0.report?.kind == "current" }
    }

    /// All the others whose contents are on this device, and those in conflict, oldest first; nil
    /// when there is no such file.
    public static func otherVersionsOfItem(at url: URL) throws(FileCoordinationError)
        -> [FileVersion]?
    {
        try versions(of: url, local: true)?.filter { version in
            guard let report = version.report, report.kind != "current" else { return false }
            return report.kind == "conflict" || report.local != false
        }
    }

    /// Versions in conflict that nobody has settled, oldest first; nil when there is no such file.
    public static func unresolvedConflictVersionsOfItem(at url: URL)
        throws(FileCoordinationError) -> [FileVersion]?
    {
        try versions(of: url)?.filter { $0.report?.kind == "conflict" }
    }

    /// Versions whose contents are not on this device: a coordinated read of their ``url``
    /// downloads them.
    @concurrent
    public static func nonlocalVersionsOfItem(at url: URL) async throws(FileCoordinationError)
        -> [FileVersion]?
    {
        try versions(of: url, local: true)?.filter { $0.report?.local == false }
    }

    /// The version that once had that identifier; nil when it is not kept any more.
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

    /// Nil: on no volume.
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
    /// Where its contents can be read, with the item's extension; nil when it is not kept any more.
    /// Make no text of it for people. Of a version in conflict and an older one it is read-only.
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
    /// The device that saved it, as it was called then.
    public var localizedNameOfSavingComputer: String? { report?.deviceName }
    /// The login name of who saved it.
    public var originatorName: String? { report?.person }
    /// When its contents were last changed.
    public var modificationDate: Date? {
        report.map { Date(timeIntervalSince1970: Double($0.modified) / 1e9) }
    }
    /// In conflict with the current one, settled or not. False for one that is gone: what a
    /// presenter hears of may be settled by the time it looks.
    public var isConflict: Bool { report?.kind == "conflict" }
    /// Whether nobody has to decide about it; true for all that are in no conflict.
    public var isResolved: Bool { ((try? current()) ?? nil)?.kind != "conflict" }
    /// Whether retention may remove it when its time has come.
    public var isDiscardable: Bool {
        guard let report = (try? current()) ?? nil else { return true }
        return report.kind == "history" && report.label == nil
    }
    /// Whether its bytes are on this device.
    public var hasLocalContents: Bool {
        let all = (try? FileVersion.versions(of: itemURL, local: true)) ?? []
        return all.first { $0 == self }?.report?.local ?? false
    }
}

// MARK: Changing

extension FileVersion {
    /// Settles a version in conflict, on all devices; it is history from then on. What the item
    /// shows stays. Settled already, or never in conflict: nothing happens.
    ///
    /// There is no way back but `fsctl resolve --undo`: false throws `.invalid`.
    public func setResolved(_ isResolved: Bool) throws(FileCoordinationError) {
        guard isResolved else {
            throw FileCoordinationError(.invalid, "a settled version cannot be made unsettled")
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
            // Somebody else has settled it in this moment.
            if error.code != .notFound { throw FileCoordinationError(error) }
        }
        facts.report.withLock { $0 = nil }
    }

    /// Keeps it for ever (false), or lets retention have it (true). Not of the current version.
    public func setDiscardable(_ isDiscardable: Bool) throws(FileCoordinationError) {
        guard let report = try current() else { throw gone }
        guard report.kind != "current" else {
            throw FileCoordinationError(.invalid, "what an item shows now is never discarded")
        }
        try change(.name, report) { request in
            request.label = isDiscardable ? nil : report.label ?? "kept \(report.number)"
        }
    }

    /// Removes it for good. Not the current one: that throws `.invalid`.
    public func remove() throws(FileCoordinationError) {
        guard let report = try current() else { return }
        if report.kind == "conflict" { try setResolved(true) }
        try change(.forget, report) { _ in }
    }

    /// Removes all versions but the current one and those in conflict.
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
        FileCoordinationError(.unavailable, "that version of \(FilePath(itemURL)) is not kept")
    }
}
