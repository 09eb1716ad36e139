import FileCoordination
import Foundation

/// A document that does not save by itself, with unsaved changes.
final class Unsaved: Document {
    private var text = ""

    override var autosaveDelay: Duration { .seconds(86_400) }
    override func load(fromContents contents: any Sendable, ofType type: String) throws {}
    override func contents(forType type: String) throws -> any Sendable { Data(text.utf8) }

    /// Opens it, changes it, and blocks the main thread if it is told to. Never returns.
    static func open(_ path: String) async throws {
        let document = Unsaved(fileURL: URL(filePath: path))
        try await document.open()
        document.text = "unsaved"
        document.updateChangeCount(.done)
        Line(at: "unsaved", name: path).say()
        if readLine() != nil {
            Line(at: "blocked", name: path).say()
            while true { sleep(1000) }
        }
        while true { try await Task.sleep(for: .seconds(1000)) }
    }
}
