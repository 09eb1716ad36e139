import Control
import Foundation
import Model
import Synchronization

/// Finds a file or directory again after the program was restarted, wherever it was moved
/// meanwhile. A program keeps bookmarks of the documents that were open.
///
/// On a volume it remembers the item, which keeps its identity when it is moved, renamed or saved,
/// and when the volume is mounted again, there or elsewhere. On other file systems it remembers the
/// path.
public struct FileBookmark: Codable, Hashable, Sendable {
    private let path: [UInt8]
    private let item: String?
    private let volume: String?
    private let isDirectory: Bool

    /// A bookmark of the item that is at a URL now. It asks the volume's daemon; do not call it on
    /// a main thread.
    ///
    /// - Throws: ``FileCoordinationError``: `.unavailable` when there is no item, or the volume's
    ///   daemon does not answer.
    public init(of url: URL) throws(FileCoordinationError) {
        let path = FilePath(url).absolute
        self.path = path.bytes
        guard let kind = path.kind else {
            throw FileCoordinationError(
                .unavailable, "\(path) does not exist, so it has no bookmark")
        }
        isDirectory = kind == .directory
        guard let place = try path.place() else {
            (item, volume) = (nil, nil)
            return
        }
        do throws(VolumeError) {
            let client = try ControlClient(socket: place.socket)
            item = try client.ask(
                Request(.status, path: place.components), as: DocumentReport.self
            ).id
            volume = try client.ask(Request(.status), as: VolumeReport.self).volume
        } catch {
            throw FileCoordinationError(error)
        }
    }

    /// Returns where the item is now. It asks the volume's daemon; do not call it on a main thread.
    ///
    /// - Throws: ``FileCoordinationError``: `.unavailable` when the item was deleted or its volume
    ///   is not mounted; `.denied` when it was moved and the volume belongs to another user.
    public func resolve() throws(FileCoordinationError) -> URL {
        let path = FilePath(bytes: path)
        guard let item else {
            if path.kind != nil { return URL(path, isDirectory: isDirectory) }
            throw FileCoordinationError(.unavailable, "\(path) does not exist any more")
        }
        if path.attribute("user.concord.id") == Array(item.utf8) {
            return URL(path, isDirectory: isDirectory)
        }
        // The volume of the old path is asked first, because daemons of other volumes may be slow.
        let own = (try? path.place())?.socket
        do throws(VolumeError) {
            if let own, let url = try find(item, own) { return url }
        } catch { throw FileCoordinationError(error) }
        return try findElsewhere(item, than: own, path)
    }

    private struct Answers {
        var url: URL?
        var failure: VolumeError?
    }

    /// Asks all other mounted volumes at once, and waits at most 5 seconds, because a daemon may be
    /// stopped.
    private func findElsewhere(_ item: String, than own: String?, _ path: FilePath)
        throws(FileCoordinationError) -> URL
    {
        let (answers, answered) = (Answering(), DispatchSemaphore(value: 0))
        var count = 0
        for mountPoint in FilePath.mountPoints {
            let thread = ThreadHandle("bookmark") { [self] in
                defer { answered.signal() }
                guard let name = mountPoint.attribute(MountedPath.attribute) else { return }
                let socket = String(decoding: name, as: UTF8.self)
                guard socket != own else { return }
                do throws(VolumeError) {
                    guard let url = try find(item, socket) else { return }
                    answers.state.withLock { $0.url = url }
                } catch { answers.state.withLock { $0.failure = error } }
            }
            guard let thread else { continue }
            thread.detach()
            count += 1
        }
        let deadline = DispatchTime.now() + .seconds(5)
        for _ in 0..<count where answers.state.withLock({ $0.url }) == nil {
            if answered.wait(timeout: deadline) == .timedOut { break }
        }
        let found = answers.state.withLock { $0 }
        if let url = found.url { return url }
        if let failure = found.failure { throw FileCoordinationError(failure) }
        throw FileCoordinationError(
            .unavailable, "the volume that \(path) was on is not mounted; mount it again")
    }

    private final class Answering: Sendable { let state = Mutex(Answers()) }

    /// Resolves the bookmark on a thread outside of the cooperative pool, because it waits for the
    /// volume.
    @concurrent fileprivate func resolved() async throws -> URL {
        let queue = DispatchQueue(label: "bookmark")
        return try await withCheckedThrowingContinuation { done in
            queue.async { done.resume(with: Result { try resolve() }) }
        }
    }

    private func find(_ item: String, _ socket: String) throws(VolumeError) -> URL? {
        let client = try ControlClient(socket: socket)
        let report = try client.ask(Request(.status), as: VolumeReport.self)
        guard report.volume == volume else { return nil }
        var request = Request(.status)
        request.document = item
        let names = try client.ask(request, as: DocumentReport.self).path?.path ?? []
        let root = FilePath(bytes: report.mountPoint.bytes)
        return URL(root.appending(names), isDirectory: isDirectory)
    }
}

extension Document {
    /// Returns what a program keeps in order to open this document again after a restart.
    public final func bookmark() async throws -> FileBookmark {
        try await performAsynchronousFileAccess { try FileBookmark(of: self.fileURL) }
    }

    /// The document of a bookmark, wherever it is now.
    public convenience init(resolving bookmark: FileBookmark) async throws {
        self.init(fileURL: try await bookmark.resolved())
    }
}
