import FileCoordination
import Foundation
import Synchronization

/// The notes of a directory. It presents the directory, so it is told of all changes by others. On
/// a file system that is no volume it is not.
final class NoteList: FilePresenter {
    struct Entry: Sendable {
        var url: URL
        var date: Date
        /// The first line that is not blank.
        var preview: String
        var isInConflict = false

        var name: String { url.lastPathComponent }
    }

    static let types = ["txt", "md", "notepkg"]

    let presentedItemOperationQueue = OperationQueue()
    let presentedItemMessages: FilePresenterMessages = [
        .move, .subitemAppearance, .subitemChange, .subitemMove, .subitemVersions,
    ]
    private let changed: @Sendable () -> Void
    private let directory: Mutex<URL>
    private let known = Mutex<[URL: Entry]>([:])

    init(_ directory: URL, changed: @escaping @Sendable () -> Void) {
        self.directory = Mutex(directory)
        self.changed = changed
        FileCoordinator.addFilePresenter(self)
    }

    var presentedItemURL: URL? { directory.withLock { $0 } }
    func url(of name: String) -> URL { directory.withLock { $0 }.appending(path: name) }

    func presentedItemDidMove(to newURL: URL) {
        directory.withLock { $0 = newURL }
        changed()
    }
    func presentedSubitemDidAppear(at url: URL) { changed() }
    func presentedSubitemDidChange(at url: URL) { changed() }
    func presentedSubitem(at oldURL: URL, didMoveTo newURL: URL) { changed() }
    func presentedSubitem(at url: URL, didGain version: FileVersion) { changed() }
    func presentedSubitem(at url: URL, didResolve version: FileVersion) { changed() }

    /// The present notes, sorted by name.
    @concurrent func entries() async throws -> [Entry] {
        let directory = url(of: "")
        let names = try FileManager.default.contentsOfDirectory(atPath: directory.path)
        var entries: [URL: Entry] = [:]
        for name in names where !name.hasPrefix(".") {
            let url = url(of: name)
            guard NoteList.types.contains(url.pathExtension.lowercased()) else { continue }
            entries[url] = entry(at: url)
        }
        known.withLock { $0 = entries }
        return entries.values.sorted {
            $0.name.localizedStandardCompare($1.name) == .orderedAscending
        }
    }

    /// Nil for a note that does not exist any more, and for other files.
    private func entry(at url: URL) -> Entry? {
        let text = url.pathExtension == "notepkg" ? url.appending(path: "text.txt") : url
        guard let facts = try? FileManager.default.attributesOfItem(atPath: text.path),
            facts[.type] as? FileAttributeType == .typeRegular,
            let date = facts[.modificationDate] as? Date
        else { return nil }
        var entry = Entry(url: url, date: date, preview: "")
        let values = try? UbiquityContainer.resourceValues(ofItemAt: url)
        entry.isInConflict = values?.hasUnresolvedConflicts ?? false
        let former = known.withLock { $0[url] }
        if let former, former.date == date {
            entry.preview = former.preview
        } else if values?.downloadingStatus == .notDownloaded {
            // Showing the list must not download everything in it; opening a note does.
            (entry.preview, entry.date) = ("(not on this device yet)", .distantPast)
        } else {
            // The coordinator does not wait. If another program is writing the note now, a change
            // message follows.
            let coordinator = FileCoordinator(filePresenter: self, waits: false)
            let read = try? coordinator.coordinate(
                readingItemAt: url, options: .withoutChanges
            ) { _ in try preview(of: text) }
            (entry.preview, entry.date) = (
                read ?? former?.preview ?? "", read == nil ? .distantPast : date
            )
        }
        return entry
    }

    private func preview(of url: URL) throws -> String {
        let file = try FileHandle(forReadingFrom: url)
        defer { try? file.close() }
        let start = String(decoding: try file.read(upToCount: 400) ?? Data(), as: UTF8.self)
        return start.split(separator: "\n").first { $0.contains { !$0.isWhitespace } }
            .map { String($0.prefix(200)) } ?? ""
    }
}

// Operations on notes as files.
extension NoteList {
    @concurrent func rename(_ url: URL, to newURL: URL) async throws {
        let coordinator = FileCoordinator(filePresenter: self)
        try await coordinator.coordinate(
            writingItemAt: url, options: .forMoving,
            writingItemAt: newURL, options: .forReplacing
        ) { from, to in
            try FileManager.default.moveItem(at: from, to: to)
        }
    }

    @concurrent func delete(_ url: URL) async throws {
        try await FileCoordinator(filePresenter: self).coordinate(
            writingItemAt: url, options: .forDeleting
        ) { try FileManager.default.removeItem(at: $0) }
    }
}
