import FileCoordination
import Foundation
import Synchronization

/// A picture as the page shows it.
struct Picture: Codable, Hashable, Sendable {
    /// The path relative to the directory, without a leading `/`.
    var path: String
    /// In bytes.
    var size: Int
    /// A text that changes with the contents.
    var version: String
    /// Whether its contents are on this device.
    var isHere: Bool
    /// The downloaded part of the contents, from 0 to 100; nil when they are not being downloaded.
    var percent: Double?
    var isInConflict: Bool

    static let types = [
        "avif": "image/avif", "bmp": "image/bmp", "gif": "image/gif", "jpeg": "image/jpeg",
        "jpg": "image/jpeg", "png": "image/png", "webp": "image/webp",
    ]

    init(_ item: MetadataItem, in directory: URL) {
        path = String(item.url.path.dropFirst(directory.path.count).drop { $0 == "/" })
        size = item.size
        version = "\(item.modificationDate.timeIntervalSince1970)-\(item.size)"
        isHere = item.ubiquity?.downloadingStatus != .notDownloaded
        percent = item.ubiquity?.percentDownloaded
        isInConflict = item.ubiquity?.hasUnresolvedConflicts ?? false
    }
}

/// The pictures of a directory, with their changes and contents.
final class Shoebox: Sendable {
    let directory: URL
    private let state = Mutex(State())
    private let reading = OperationQueue()

    private struct State {
        var pictures: [Picture] = []
        var listeners: [UUID: AsyncStream<Void>.Continuation] = [:]
    }

    init(_ directory: URL) {
        self.directory = directory
        reading.maxConcurrentOperationCount = 8
    }

    /// Follows all changes in the directory until the task is cancelled.
    func follow() async {
        var query = MetadataQuery(searchScopes: [directory]) { item in
            !item.isDirectory && Picture.types[item.url.pathExtension.lowercased()] != nil
        }
        query.notificationBatchingInterval = .milliseconds(100)
        for await update in query.updates {
            let pictures = update.results.map { Picture($0, in: directory) }
            let listeners = state.withLock { state in
                state.pictures = pictures
                return state.listeners.values
            }
            for listener in listeners { listener.yield() }
        }
    }

    var pictures: [Picture] { state.withLock { $0.pictures } }

    /// A value each time the pictures have changed.
    var changes: AsyncStream<Void> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let id = UUID()
        continuation.onTermination = { [weak self] _ in
            self?.state.withLock { _ = $0.listeners.removeValue(forKey: id) }
        }
        state.withLock { $0.listeners[id] = continuation }
        return stream
    }

    /// The URL of a picture that the page shows. Any other path is refused.
    func url(of path: String) throws -> URL {
        guard pictures.contains(where: { $0.path == path }) else {
            throw Failure(.notFound, "there is no picture \(path)")
        }
        return directory.appending(path: path)
    }

    /// The contents of the item at a URL, downloaded if they are not here.
    @concurrent func contents(of url: URL) async throws -> Data {
        let values = try UbiquityContainer.resourceValues(ofItemAt: url)
        if values?.downloadingStatus == .notDownloaded {
            // Reading would download it as well, but without showing progress.
            try UbiquityContainer.startDownloadingItem(at: url)
        }
        let intent = FileAccessIntent.readingIntent(with: url)
        return try await withCheckedThrowingContinuation { done in
            // Reading waits for the network, so it must not run on a task's thread.
            FileCoordinator().coordinate(with: [intent], queue: reading) { error in
                if let error { return done.resume(throwing: error) }
                done.resume(with: Result { try Data(contentsOf: intent.url) })
            }
        }
    }
}

// MARK: Conflicts

/// A version of a picture in a conflict, as the page shows it.
struct Rival: Codable, Hashable, Sendable {
    var id: String
    var device: String
    var person: String
    /// Seconds since 1970.
    var time: Double
    var isCurrent: Bool
}

extension Shoebox {
    /// The current version first, then the versions in conflict with it.
    @concurrent func rivals(of url: URL) async throws -> [Rival] {
        try await FileCoordinator().coordinate(readingItemAt: url) { url in
            let others = try FileVersion.unresolvedConflictVersionsOfItem(at: url) ?? []
            let current = try FileVersion.currentVersionOfItem(at: url)
            return ((current.map { [$0] } ?? []) + others).map { version in
                Rival(
                    id: version.persistentIdentifier,
                    device: version.localizedNameOfSavingComputer ?? "",
                    person: version.originatorName ?? "",
                    time: version.modificationDate?.timeIntervalSince1970 ?? 0,
                    isCurrent: version == current)
            }
        }
    }

    /// The contents of a version.
    @concurrent func version(_ id: String, of url: URL) async throws -> Data {
        let version = try FileVersion.version(ofItemAt: url, forPersistentIdentifier: id)
        guard let place = version?.url else {
            throw Failure(.notFound, "that version is no longer kept")
        }
        return try await contents(of: place)
    }

    /// Keeps one version of a picture. The others become history on all devices.
    @concurrent func keep(_ id: String, of url: URL) async throws {
        try await FileCoordinator().coordinate(writingItemAt: url) { url in
            let others = try FileVersion.unresolvedConflictVersionsOfItem(at: url) ?? []
            if let chosen = others.first(where: { $0.persistentIdentifier == id }) {
                try chosen.replaceItem(at: url)
            } else if try FileVersion.currentVersionOfItem(at: url)?.persistentIdentifier != id {
                throw Failure(.conflict, "the conflict was settled elsewhere meanwhile; look again")
            }
            for version in others { try version.setResolved(true) }
        }
    }
}
