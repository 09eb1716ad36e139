import Control
import Foundation
import Model
import Synchronization

/// A volume, as the place where documents are that shall be on all devices.
///
/// What `FileManager` says of iCloud on Apple's platforms (Rows.md, A17, B4). A volume is
/// mounted or it is not; so there is no container identifier, and nothing to wait for: make it of
/// any URL on the volume, and compare its ``identityToken()`` with the one that you kept.
public struct UbiquityContainer: Hashable, Sendable {
    /// The root of the volume.
    public let url: URL
    let socket: String

    /// Who a volume belongs to: the same on all devices of a person, and after each restart.
    /// Opaque; keep it, and compare.
    public struct IdentityToken: Codable, Hashable, Sendable {
        private let text: String
        init(_ text: String) { self.text = text }
    }

    /// The volume that an item is on, or would be on; nil where that is another file system.
    ///
    /// - Throws: ``FileCoordinationError``: `.unavailable` for a volume without a daemon.
    public init?(ofItemAt url: URL) throws(FileCoordinationError) {
        guard let place = try FilePath(url).place() else { return nil }
        self.url = URL(place.mountPoint, isDirectory: true)
        socket = place.socket
    }

    /// Nil while the volume is signed out, or has never belonged to a hub; what it is otherwise it
    /// also is in airplane mode.
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

    /// Each identity that the volume gets, after the change, for as long as somebody listens: nil
    /// when it is signed out. Listen first, then look at ``identityToken()``.
    ///
    /// It ends when the volume's daemon does: what was mounted is not there any more.
    public var identityChanges: AsyncStream<IdentityToken?> {
        let (stream, changes) = AsyncStream.makeStream(of: IdentityToken?.self)
        do throws(VolumeError) {
            let client = try TurnClient(
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

    /// Whether an item is meant for all devices, uploaded or not; false of what is not there.
    public static func isUbiquitousItem(at url: URL) -> Bool {
        (try? resourceValues(ofItemAt: url))??.isUbiquitous ?? false
    }

    /// Moves an item onto the volume (true), or off it, which takes it from all other devices. Its
    /// presenters hear of the move. Directories that `destinationURL` names must be there.
    ///
    /// - Throws: ``FileCoordinationError``: `.invalid` when what is to be on the volume is not, and
    ///   else as a coordinated write. `CocoaError`: what the file system says;
    ///   `.fileWriteFileExists` when there is something. It is where it was then.
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
            // From another file system: whole before it has its name; the old one goes last.
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

    /// Removes the local copy of an item's contents, of a directory of all it contains; they come
    /// back when they are read. Not within a coordinated write of the item.
    ///
    /// - Throws: ``FileCoordinationError``: `.refused` when something stays here, with the reason:
    ///   it is not at the hub yet, in use, or pinned. Others may have been evicted then.
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

    /// Begins to download an item's contents, and returns; of what is here nothing happens. Its
    /// ``resourceValues(ofItemAt:)`` tell how far that is, and what went wrong.
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
        throw FileCoordinationError(.unavailable, "there is no thread to download it in")
    }

    /// What this process downloads.
    struct Downloads {
        /// From 0 to 100.
        var underWay: [FilePath: Double] = [:]
        private(set) var failed: [FilePath: String] = [:]

        fileprivate mutating func begin(_ path: FilePath) -> Bool {
            failed[path] = nil
            if underWay[path] != nil { return false }
            underWay[path] = 0
            return true
        }

        fileprivate mutating func end(_ path: FilePath, _ failure: String?) {
            underWay[path] = nil
            failed[path] = failure
        }
    }
    static let downloads = Mutex(Downloads())

    private static func place(of url: URL) throws(FileCoordinationError) -> MountedPath {
        if let place = try FilePath(url).place() { return place }
        throw FileCoordinationError(
            .invalid, "\(FilePath(url)) is on no Concord volume: its contents are here only")
    }
}
