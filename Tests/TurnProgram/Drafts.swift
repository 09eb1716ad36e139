import FileCoordination
import Foundation

// turns-program documents: works on documents as it is told, one command a line on standard input,
// and answers each with one JSON object. In texts, `_` stands for a space and `|` for a new line.
//
//     open name path       opens a document: a text, or a package with a text
//     type name text       into it; it saves when it is told to, or when others ask
//     deaf name yes|no     whether it ignores others that ask it to save
//     save name
//     show name            its text, and its state as the message
//     close name
//     read path            a coordinated read; the message is the state of the contents meanwhile
//     mark name path       a bookmark; find name: where the item is
//     volumes all          the paths of all volumes; standard path: the directory Notes of the
//                          volume that the environment names by that path
//     query name path      a query of a directory; found name: the paths of its results

/// A text that saves only if a command or another program wants it.
final class Draft: Document {
    private(set) var text = ""
    private var parts: [String: FileWrapper] = [:]
    var isDeaf = false
    private var isPackage: Bool { fileType == "rtfd" }

    override var autosaveDelay: Duration { .seconds(86_400) }

    func type(_ new: String) {
        text = new
        updateChangeCount(.done)
    }

    override func load(fromContents contents: any Sendable, ofType type: String) throws {
        parts = (contents as? FileWrapper)?.fileWrappers ?? [:]
        let data = contents as? Data ?? parts["text"]?.regularFileContents
        text = String(decoding: data ?? Data(), as: UTF8.self)
    }

    override func contents(forType type: String) throws -> any Sendable {
        let data = Data(text.utf8)
        guard isPackage else { return data }
        return FileWrapper(
            directoryWithFileWrappers: parts.merging([
                "text": FileWrapper(regularFileWithContents: data)
            ]) { $1 })
    }

    override func autosave() async throws {
        if !isDeaf { try await super.autosave() }
    }

    var light: String {
        if documentState.contains(.closed) { return "closed" }
        if documentState.contains(.savingError) { return "unsaved" }
        return documentState.contains(.inConflict) ? "conflict" : "normal"
    }
}

@MainActor final class Drafts {
    private var drafts: [String: Draft] = [:]
    private var bookmarks: [String: FileBookmark] = [:]
    private var results: [String: [String]] = [:]

    /// Returns when there are no more commands.
    func obey() async {
        // The main thread must stay free, because documents are used there.
        let lines = AsyncStream<String> { lines in
            Thread.detachNewThread {
                while let line = readLine() { lines.yield(line) }
                lines.finish()
            }
        }
        for await line in lines {
            let words = line.split(separator: " ").map(String.init)
            guard words.count > 1 else { continue }
            var said = Line(at: "done", name: words[0])
            do { try await obey(words[0], Array(words.dropFirst()), &said) } catch {
                said.add(error)
            }
            said.say()
        }
    }

    private func obey(_ verb: String, _ words: [String], _ said: inout Line) async throws {
        let (name, word) = (words[0], words.count > 1 ? words[1] : "")
        switch verb {
        case "open":
            let draft = Draft(fileURL: URL(filePath: word))
            drafts[name] = draft
            try await draft.open()
        case "type": drafts[name]?.type(word.replacing("_", with: " ").replacing("|", with: "\n"))
        case "deaf": drafts[name]?.isDeaf = word == "yes"
        case "save": try await drafts[name]?.autosave()
        case "show": (said.text, said.message) = (drafts[name]?.text, drafts[name]?.light)
        case "close": try await drafts[name]?.close()
        case "read":
            let url = URL(filePath: name)
            said.message = try await FileCoordinator().coordinate(readingItemAt: url) { url in
                try UbiquityContainer.resourceValues(ofItemAt: url)?.downloadingStatus.rawValue
            }
        case "mark": bookmarks[name] = try FileBookmark(of: URL(filePath: word))
        case "find":
            let bookmark = bookmarks[name]
            said.path = try await Task.detached { try bookmark?.resolve().path }.value
        case "volumes":
            said.paths = await Task.detached { UbiquityContainer.mounted.map(\.url.path) }.value
        case "standard":
            setenv(UbiquityContainer.environmentVariable, name, 1)
            said.path = try UbiquityContainer.standard?.documentsDirectory(named: "Notes").path
        case "query":
            let query = MetadataQuery(searchScopes: [URL(filePath: word)])
            Task {
                for await update in query.updates { results[name] = update.results.map(\.url.path) }
            }
        case "found": said.paths = results[name]
        default: throw Sentence(text: "\(verb) is no command")
        }
    }
}
