import FileCoordination
import Foundation

/// A document that is a text.
final class Note: Document {
    var text = "" { didSet { updateChangeCount(.done) } }

    override func load(fromContents contents: any Sendable, ofType type: String) throws {
        text = String(decoding: contents as? Data ?? Data(), as: UTF8.self)
        print("---\n\(text)---")
    }

    override func contents(forType type: String) throws -> any Sendable { Data(text.utf8) }

    override func handleError(_ error: any Error, userInteractionPermitted: Bool) {
        print("! \(error.localizedDescription)")
    }
}

/// The state as a traffic light.
func light(_ state: Document.State) -> String {
    if state.contains(.closed) { return "closed" }
    if state.contains(.savingError) { return "red: unsaved" }
    return state.contains(.inConflict) ? "yellow: in conflict" : "green"
}

// notes PATH: each line that is typed is added to the note.
let note = Note(fileURL: URL(filePath: CommandLine.arguments[1]))
Task { for await state in note.states { print("(\(light(state)))") } }
if FileManager.default.fileExists(atPath: note.fileURL.path) {
    try await note.open()
} else {
    try await note.save(to: note.fileURL, for: .creating)
}

// The main thread must stay free, because other programs wait for the document there.
let lines = AsyncStream<String> { lines in
    Thread.detachNewThread {
        while let line = readLine() { lines.yield(line) }
        lines.finish()
    }
}
for await line in lines { note.text += line + "\n" }
try await note.close()
