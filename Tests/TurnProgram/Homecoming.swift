import FileCoordination
import Foundation
import GRDB

/// Calls everything of the library that can be awaited from the main actor, and says after which
/// calls the code went on elsewhere. An optimized build is what this is for.
@MainActor struct Homecoming {
    private let directory: URL
    private var file: URL { directory.appending(path: "home.txt") }

    init(_ path: String) { directory = URL(filePath: path, directoryHint: .isDirectory) }

    func check() async throws {
        try Data("old".utf8).write(to: file)
        try await coordinate()
        try await document()
        try await managed()
        for await _ in MetadataQuery(searchScopes: [directory]).updates { break }
        say("updates")
        _ = try await FileVersion.nonlocalVersionsOfItem(at: file)
        say("nonlocalVersionsOfItem")
        if let container = try UbiquityContainer(ofItemAt: directory) {
            let outside = URL(filePath: "\(directory.path)-outside.txt")
            try await container.setUbiquitous(false, itemAt: file, destinationURL: outside)
            say("setUbiquitous")
            try FileManager.default.removeItem(at: outside)
        }
        Line(at: "home", name: "all").say()
    }

    private func coordinate() async throws {
        let (coordinator, other) = (FileCoordinator(), directory.appending(path: "other.txt"))
        try await coordinator.coordinate(readingItemAt: file) { _ in say("reading accessor") }
        say("coordinate(readingItemAt:)")
        try await coordinator.coordinate(readingItemAt: file, options: .forUploading) { _ in
            say("uploading accessor")
        }
        say("coordinate(readingItemAt:) for uploading")
        try await coordinator.coordinate(writingItemAt: file) { _ in say("writing accessor") }
        say("coordinate(writingItemAt:)")
        try await coordinator.coordinate(readingItemAt: file, writingItemAt: other) { _, _ in
            say("copying accessor")
        }
        say("coordinate(readingItemAt:writingItemAt:)")
        try await coordinator.coordinate(writingItemAt: file, writingItemAt: other) { _, _ in
            say("moving accessor")
        }
        say("coordinate(writingItemAt:writingItemAt:)")
        try await coordinator.coordinate(with: [.readingIntent(with: file)]) {
            say("intents' accessor")
        }
        say("coordinate(with:)")
        try await coordinator.prepare(forReadingItemsAt: [file], writingItemsAt: []) {
            say("batch accessor")
        }
        say("prepare")
        do {
            try await coordinator.coordinate(readingItemAt: file) { _ in
                throw CocoaError(.fileLocking)
            }
        } catch { say("an accessor that throws") }
        do {
            let missing = directory.appending(path: "missing")
            try await coordinator.coordinate(readingItemAt: missing, options: .forUploading) { _ in
            }
        } catch { say("a snapshot that fails") }
        coordinator.cancel()
        do { try await coordinator.coordinate(readingItemAt: file) { _ in } } catch {
            say("a call that fails")
        }
        do { try await coordinator.prepare(forReadingItemsAt: [file], writingItemsAt: []) {} } catch
        {
            say("a preparation that fails")
        }
    }

    private func document() async throws {
        let text = Text(fileURL: file)
        try await text.open()
        say("open")
        text.updateChangeCount(.done)
        try await text.autosave()
        say("autosave")
        try await text.save(to: file, for: .overwriting)
        say("save")
        try await text.revert(toContentsOf: file)
        say("revert")
        _ = try await text.performAsynchronousFileAccess { 1 }
        say("performAsynchronousFileAccess")
        let bookmark = try await text.bookmark()
        say("bookmark")
        for await _ in text.states { break }
        say("states")
        try await text.close()
        try await text.open()
        await Document.closeAll()
        say("closeAll")
        say("close")
        _ = try await Text(resolving: bookmark)
        say("init(resolving:)")
    }

    private func managed() async throws {
        let url = directory.appending(path: "home.db")
        let document = ManagedDocument(fileURL: url)
        try await document.save(to: url, for: .creating)
        say("creating a managed document")
        try await document.write { try $0.execute(sql: "CREATE TABLE a (b)") }
        say("write")
        _ = try await document.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM a") }
        say("read")
        try await document.close()
        say("closing a managed document")
    }

    private static let mainKey: DispatchSpecificKey<Bool> = {
        let key = DispatchSpecificKey<Bool>()
        DispatchQueue.main.setSpecific(key: key, value: true)
        return key
    }()

    /// The main actor is the main queue, which any thread may serve.
    private func say(_ call: String) {
        if DispatchQueue.getSpecific(key: Self.mainKey) != true {
            Line(at: "away", name: call).say()
        }
    }
}

private final class Text: Document {
    override func load(fromContents contents: any Sendable, ofType type: String) throws {}
    override func contents(forType type: String) throws -> any Sendable { Data("new".utf8) }
}
