import Control
import Foundation
import Model
import Synchronization

/// The file of a document: where it is and what was read or written there last, guarded by the
/// mutex `place`, and the queue in which it is read and written, one access after the other.
final class DocumentFile: Sendable {
    let place: Mutex<DocumentPlace>
    let queue = OperationQueue()

    init(_ url: URL) {
        place = Mutex(DocumentPlace(url: url))
        queue.maxConcurrentOperationCount = 1
    }

    var url: URL { place.withLock { $0.url } }

    // MARK: Access

    /// Runs `body` in the queue.
    @concurrent func perform<Value: Sendable>(
        _ body: @escaping @Sendable () throws -> Value
    ) async throws -> Value {
        try await withCheckedThrowingContinuation { done in
            queue.addOperation { done.resume(with: Result { try body() }) }
        }
    }

    /// Runs `body` in the queue while all `intents` are granted.
    ///
    /// Waiting does not block the queue, so `relinquishPresentedItem` can let other programs in
    /// while this document waits.
    @concurrent func access<Value: Sendable>(
        _ intents: [FileAccessIntent], for document: Document,
        _ body: @escaping @Sendable (FileCoordinator) throws -> Value
    ) async throws -> Value {
        try await withCheckedThrowingContinuation { done in
            // Asking resolves paths, which is file access, too, so it also runs in the file queue.
            queue.addOperation {
                let coordinator = FileCoordinator(filePresenter: document)
                coordinator.coordinate(with: intents, queue: self.queue) { error in
                    if let error { return done.resume(throwing: error) }
                    done.resume(with: Result { try body(coordinator) })
                }
            }
        }
    }

    // MARK: In the queue

    /// For a symbolic link, the document is the link's target, because a save would replace the
    /// link.
    func followLink() throws -> URL {
        let (url, path) = (url, FilePath(url))
        guard path.kind == .symlink else { return url }
        let target = URL(try path.followed(), isDirectory: url.hasDirectoryPath)
        place.withLock { $0.url = target }
        return target
    }

    /// Checks that the file is still what this document has read or written. On a volume nothing is
    /// overwritten: the save names its base, and other contents are merged with it or become a
    /// conflict version. Other file systems keep no versions, so there the save fails.
    func checkUnchanged(at url: URL) throws {
        let path = FilePath(url)
        let known = place.withLock { $0 }
        guard let old = known.stamp, let stamp = FileStamp(path), stamp != old else { return }
        if let hash = known.contentHash, stamp.size == old.size,
            (try? path.readAll())?.contentHash == hash
        {
            // Only the file's modification time has changed.
            return place.withLock { $0.stamp = stamp }
        }
        if let place = try path.place() {
            // The unseen contents of a package become a version with the name of their program
            // before they are replaced.
            if stamp.packageBase != nil { place.recordVersions() }
            return
        }
        throw DocumentError(
            .changedElsewhere,
            "another program has changed \(path) since it was read: revert the document, or save "
                + "it with .creating, there or under another name")
    }

    /// Notes what a save has put at `url`. Returns whether the document was elsewhere before.
    func noteWritten(_ contents: any Sendable, at url: URL) -> Bool {
        // The stamp is of what was written. Another program's contents may be at the path already.
        let written = place.withLock { $0.written?.base == nil ? nil : $0.written }
        let stamp = written ?? FileStamp(FilePath(url))
        return place.withLock { place in
            let hash = (contents as? Data)?.contentHash
            let source = place.source
            source?.move(to: FilePath(url))
            defer {
                place = DocumentPlace(
                    url: url, stamp: stamp, isBeingDeleted: place.isBeingDeleted,
                    contentHash: hash, source: source)
            }
            return place.url != url
        }
    }

    // MARK: Deletion

    /// A program that does not coordinate is deleting the file. It is soon known whether the file
    /// is gone; until then no save may take its name.
    func deletionBegins() { place.withLock { $0.isBeingDeleted = true } }

    var isBeingDeleted: Bool { place.withLock(\.isBeingDeleted) }
}

/// Where a document is, and what it has last seen there.
struct DocumentPlace: Sendable {
    var url: URL
    /// The stamp of what was read or written last, which is the base of the next save; nil
    /// before.
    var stamp: FileStamp?
    /// During a save: the stamp of what was written, taken before it got its name.
    var written: FileStamp?
    /// Whether a program is deleting the file at this moment.
    var isBeingDeleted = false
    /// A hash of a file of moderate size, by which a file whose time alone has changed is
    /// recognized.
    var contentHash: Int?
    /// Where the contents of a lazily read package come from.
    var source: PackageSource?
}
