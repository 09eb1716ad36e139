import Control
import Foundation
import Model
import Synchronization

/// A volume as the place of documents that shall be on all devices.
///
/// It replaces the part of `FileManager` that is about iCloud on Apple's platforms (Rows.md, A17,
/// B4). A volume is either mounted or not, so there is no container identifier and nothing to wait
/// for: make a container from any URL on the volume, and compare its ``identityToken()`` with the
/// one that you kept.
public struct UbiquityContainer: Hashable, Sendable {
    /// The root of the volume.
    public let url: URL
    let socket: String

    /// Identifies the owner of a volume. It is the same on all devices of a person and after a
    /// restart. It is opaque; keep it and compare it.
    public struct IdentityToken: Codable, Hashable, Sendable {
        private let text: String
        init(_ text: String) { self.text = text }
    }

    /// The volume on which an item is or would be; nil for another file system.
    ///
    /// - Throws: ``FileCoordinationError``: `.unavailable` for a volume whose daemon does not
    ///   answer.
    public init?(ofItemAt url: URL) throws(FileCoordinationError) {
        guard let place = try FilePath(url).place() else { return nil }
        self.url = URL(place.mountPoint, isDirectory: true)
        socket = place.socket
    }

    /// The identity; nil while the volume is signed out or has never belonged to a hub. It does not
    /// change in airplane mode.
    ///
    /// - Throws: ``FileCoordinationError``: `.unavailable` when the daemon does not answer.
    public func identityToken() throws(FileCoordinationError) -> IdentityToken? {
        do throws(VolumeError) {
            return try ControlClient(socket: socket).ask(
                Request(.identity), as: IdentityReport.self
            ).token.map(IdentityToken.init)
        } catch {
            throw FileCoordinationError(error)
        }
    }

    /// Each new identity of the volume, until the stream is cancelled; nil when the volume is
    /// signed out. Begin to listen before you read ``identityToken()``.
    ///
    /// The stream ends when the volume's daemon ends.
    public var identityChanges: AsyncStream<IdentityToken?> {
        let (stream, changes) = AsyncStream.makeStream(of: IdentityToken?.self)
        do throws(VolumeError) {
            let client = try CoordinationClient(
                socket: socket,
                pushed: { push in
                    guard let event = push.event, event.kind == .identity else { return }
                    changes.yield(event.token.map(IdentityToken.init))
                }, ended: { changes.finish() })
            changes.onTermination = { _ in client.close() }
            _ = try client.ask(Request(.watch, path: []), as: Nothing.self)
        } catch { changes.finish() }
        return stream
    }

    // MARK: Items

    /// Whether an item is meant for all devices, uploaded or not; false when there is no item.
    public static func isUbiquitousItem(at url: URL) -> Bool {
        (try? resourceValues(ofItemAt: url))??.isUbiquitous ?? false
    }

    /// Moves an item onto the volume (true) or off it (false), which removes it from all other
    /// devices. Its presenters get a move message. The directory of `destinationURL` must exist.
    ///
    /// - Throws: ``FileCoordinationError``: `.invalid` when the URL that must be on the volume is
    ///   not, and the errors of a coordinated write. `CocoaError` for errors of the file system;
    ///   `.fileWriteFileExists` when there is an item at `destinationURL`. Then the item stays
    ///   where it was.
    @concurrent
    public func setUbiquitous(_ isUbiquitous: Bool, itemAt url: URL, destinationURL: URL)
        async throws
    {
        let inside = FilePath(isUbiquitous ? destinationURL : url)
        guard try inside.place()?.socket == socket else {
            throw FileCoordinationError(
                .invalid, "\(inside) is not on the volume at \(FilePath(self.url))")
        }
        let coordinator = FileCoordinator()
        try await coordinator.coordinate(
            writingItemAt: url, options: .forMoving,
            writingItemAt: destinationURL, options: .forReplacing
        ) { from, to in
            let (source, target) = (FilePath(from), FilePath(to))
            guard target.kind == nil else {
                throw CocoaError(
                    .fileWriteFileExists, userInfo: [NSFilePathErrorKey: target.description])
            }
            if (try? source.move(to: target)) != nil { return }
            // On another file system the item is copied completely before it gets its name, and the
            // old one is removed last.
            let draft = target.draft
            do {
                try FileManager.default.copyItem(at: from, to: URL(draft))
                try draft.move(to: target)
            } catch {
                draft.remove()
                throw error
            }
            coordinator.item(at: from, didMoveTo: to)
            source.remove()
        }
    }

    /// Removes the local copy of an item's contents, for a directory those of all that it contains.
    /// They are downloaded again when they are read. Do not call it within a coordinated write of
    /// the item.
    ///
    /// - Throws: ``FileCoordinationError``: `.refused`, with the reason, when something must stay
    ///   because it is not at the hub yet, in use, presented or pinned. Other contents may have
    ///   been evicted then.
    public static func evictItem(at url: URL) throws(FileCoordinationError) {
        let place = try place(of: url)
        let report: EvictedReport
        do throws(VolumeError) {
            report = try ControlClient(socket: place.socket).ask(
                Request(.evict, path: place.components), as: EvictedReport.self)
        } catch {
            throw FileCoordinationError(error)
        }
        guard let kept = report.kept.first else { return }
        throw FileCoordinationError(.refused, "\(kept.path.text) stays here: \(kept.reason)")
    }

    /// Begins to download an item's contents and returns. Contents that are here already are left
    /// alone. ``resourceValues(ofItemAt:)`` show the progress and errors.
    ///
    /// - Throws: ``FileCoordinationError``: `.invalid` on another file system.
    public static func startDownloadingItem(at url: URL) throws(FileCoordinationError) {
        let place = try place(of: url)
        guard downloads.withLock({ $0.begin(place.path) }) else { return }
        let thread = ThreadHandle("download") {
            do throws(VolumeError) {
                let request = Request(.download, path: place.components)
                _ = try ControlClient(socket: place.socket).ask(
                    request, as: Nothing.self, timeoutSeconds: 3600
                ) { step in
                    downloads.withLock { $0.underWay[place.path] = step.fraction * 100 }
                }
                downloads.withLock { $0.end(place.path, nil) }
            } catch {
                downloads.withLock { $0.end(place.path, error.message) }
            }
        }
        if let thread { return thread.detach() }
        downloads.withLock { $0.end(place.path, nil) }
        throw FileCoordinationError(.unavailable, "no thread could be started for the download")
    }

    /// The downloads that this process has begun.
    struct Downloads {
        /// The progress of each download, from 0 to 100.
        var underWay: [FilePath: Double] = [:]
        private(set) var failed: [FilePath: String] = [:]

        /// Called when a download begins or ends.
        var listeners: [Int: @Sendable () -> Void] = [:]

        fileprivate mutating func begin(_ path: FilePath) -> Bool {
            failed[path] = nil
            if underWay[path] != nil { return false }
            underWay[path] = 0
            for listener in listeners.values { listener() }
            return true
        }

        fileprivate mutating func end(_ path: FilePath, _ failure: String?) {
            underWay[path] = nil
            failed[path] = failure
            for listener in listeners.values { listener() }
        }
    }
    static let downloads = Mutex(Downloads())

    private static func place(of url: URL) throws(FileCoordinationError) -> MountedPath {
        if let place = try FilePath(url).place() { return place }
        throw FileCoordinationError(
            .invalid, "\(FilePath(url)) is on no Concord volume, so its contents are only here")
    }
}
