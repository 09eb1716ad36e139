import FileCoordination
import Foundation
import Synchronization

/// A picture as the page shows it.
struct Picture: Codable, Hashable, Sendable {
    /// From the directory, without `/` in front.
    var path: String
    /// Bytes.
    var size: Int
    /// Another one for other contents.
    var version: String
    /// Whether its contents are on this device.
    var isHere: Bool
    /// How much of them has come, from 0 to 100; nil unless they are on their way.
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

/// The pictures of a directory: which there are, what becomes of them, and their contents.
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

    /// Follows the directory, whoever adds, changes, moves or removes something in it.
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

    /// Something each time that the pictures are others.
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

    /// Of a picture that is shown, and of nothing else that a page may ask for.
    func url(of path: String) throws -> URL {
        guard pictures.contains(where: { $0.path == path }) else {
            throw Failure(.notFound, "there is no picture \(path) (any more)")
        }
        return directory.appending(path: path)
    }

    /// What is at a URL, downloaded if it was not here.
    @concurrent func contents(of url: URL) async throws -> Data {
        let values = try UbiquityContainer.resourceValues(ofItemAt: url)
        if values?.downloadingStatus == .notDownloaded {
            // Reading would do it too, but tell nobody how far it is.
            try UbiquityContainer.startDownloadingItem(at: url)
        }
        let intent = FileAccessIntent.readingIntent(with: url)
        return try await withCheckedThrowingContinuation { done in
            // In a queue: reading waits for the network, which a task must not.
            FileCoordinator().coordinate(with: [intent], queue: reading) { error in
                if let error { return done.resume(throwing: error) }
                done.resume(with: Result { try Data(contentsOf: intent.url) })
            }
        }
    }
}

// MARK: Conflicts

/// A version of a picture that is in conflict with others.
struct Rival: Codable, Hashable, Sendable {
    var id: String
    var device: String
    var person: String
    /// Seconds since 1970.
    var time: Double
    var isCurrent: Bool
}

extension Shoebox {
    /// What is shown first, then what others saved at the same time.
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

    /// What a version looks like.
    @concurrent func version(_ id: String, of url: URL) async throws -> Data {
        let version = try FileVersion.version(ofItemAt: url, forPersistentIdentifier: id)
        guard let place = version?.url else {
            throw Failure(.notFound, "that version is not kept any more")
        }
        return try await contents(of: place)
    }

    /// Keeps one version of a picture; the others are history from then on, on all devices.
    @concurrent func keep(_ id: String, of url: URL) async throws {
        try await FileCoordinator().coordinate(writingItemAt: url) { url in
            let others = try FileVersion.unresolvedConflictVersionsOfItem(at: url) ?? []
            if let chosen = others.first(where: { $0.persistentIdentifier == id }) {
                try chosen.replaceItem(at: url)
            } else if try FileVersion.currentVersionOfItem(at: url)?.persistentIdentifier != id {
                throw Failure(.conflict, "it was settled elsewhere meanwhile: look again")
            }
            for version in others { try version.setResolved(true) }
        }
    }
}
