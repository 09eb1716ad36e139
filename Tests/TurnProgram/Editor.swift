import FileCoordination
import Foundation
import Synchronization

final class Editor: FilePresenter {
    let presentedItemOperationQueue = OperationQueue()
    let presentedItemMessages: FilePresenterMessages = [
        .save, .change, .move, .accommodateDeletion,
    ]
    private let state: Mutex<(url: URL, text: String, isDirty: Bool)>

    init(url: URL) throws {
        state = Mutex((url, "", false))
        // Registered within the read, the presenter misses no later change.
        try FileCoordinator(filePresenter: self).coordinate(readingItemAt: url) { url in
            FileCoordinator.addFilePresenter(self)
            try read(url)
        }
    }

    var text: String { state.withLock { $0.text } }
    func edit(_ text: String) { state.withLock { ($0.text, $0.isDirty) = (text, true) } }
    func close() { FileCoordinator.removeFilePresenter(self) }

    var presentedItemURL: URL? { state.withLock { $0.url } }
    func presentedItemDidMove(to newURL: URL) { state.withLock { $0.url = newURL } }

    func presentedItemDidChange() {
        let url = state.withLock { $0.url }
        try? FileCoordinator(filePresenter: self).coordinate(readingItemAt: url, byAccessor: read)
    }

    func savePresentedItemChanges(completionHandler: @escaping @Sendable ((any Error)?) -> Void) {
        do {
            try save()
            completionHandler(nil)
        } catch { completionHandler(error) }
    }

    func accommodatePresentedItemDeletion(
        completionHandler: @escaping @Sendable ((any Error)?) -> Void
    ) {
        close()
        completionHandler(nil)
    }

    private func read(_ url: URL) throws {
        let text = try String(contentsOf: url, encoding: .utf8)
        // Text that was typed meanwhile is newer.
        state.withLock { if !$0.isDirty { $0.text = text } }
    }

    private func save() throws {
        let (url, text, isDirty) = state.withLock { $0 }
        guard isDirty else { return }
        try FileCoordinator(filePresenter: self).coordinate(writingItemAt: url) { url in
            try Data(text.utf8).write(to: url, options: .atomic)
        }
        state.withLock { $0.isDirty = $0.text != text }
    }
}
