import FileCoordination
import Foundation

// Handles keys.
extension Program {
    func press(_ key: Key) async throws {
        // Letters that were typed before the terminal was read arrive as one text. Each may be a
        // command, after which the next one means something else.
        if case .text(let text) = key, text.count > 1, lettersAreCommands {
            for letter in text { try await press(.text(String(letter))) }
            return
        }
        message = ""
        if prompt != nil {
            try await pressInPrompt(key)
        } else if let note, !conflicts.isEmpty {
            try await press(key, settling: note)
        } else if let note {
            try await press(key, editing: note)
        } else {
            try await pressInList(key)
        }
    }

    private var lettersAreCommands: Bool { prompt == nil && (note == nil || !conflicts.isEmpty) }

    private func pressInList(_ key: Key) async throws {
        switch key {
        case .up: selected = max(0, selected - 1)
        case .down: selected = max(0, min(selected + 1, entries.count - 1))
        case .enter:
            if let entry { try await open(Note(fileURL: entry.url)) }
        case .text("n"): ask("Name of the new note") { try await self.create($0) }
        case .text("r"):
            guard let entry else { return }
            ask("New name", entry.name) {
                try await self.list.rename(entry.url, to: self.free($0, entry.url.pathExtension))
            }
        case .text("d"):
            guard let entry else { return }
            ask("Delete \(entry.name), on all devices? y or n") { answer in
                if answer == "y" { try await self.list.delete(entry.url) }
            }
        case .text("q"), .control("c"): leave()
        default: break
        }
    }

    private func create(_ name: String) async throws {
        try await open(Note(fileURL: free(name, "txt")), isNew: true)
    }

    /// The URL for a note of that name, which must be free. `type` is added if no type was typed.
    private func free(_ name: String, _ type: String) throws -> URL {
        if name.contains("/") { throw Failure("a name must not contain /: choose another one") }
        let isTyped = NoteList.types.contains((name as NSString).pathExtension.lowercased())
        let url = list.url(of: isTyped ? name : "\(name).\(type)")
        if FileManager.default.fileExists(atPath: url.path) {
            throw Failure("\(url.lastPathComponent) exists already: choose another name")
        }
        return url
    }

    // MARK: Editing

    private func press(_ key: Key, editing note: Note) async throws {
        // Waits while the note is being read again, which takes a moment. Keys stay in the queue
        // meanwhile.
        for await state in note.states where !state.contains(.editingDisabled) { break }
        switch key {
        case .text(let text): buffer.insert(text)
        case .enter: buffer.insert("\n")
        case .tab: buffer.insert("    ")
        case .backspace, .control("h"): buffer.deleteBackward()
        case .delete: buffer.deleteForward()
        case .control("z"): note.undoManager.undo()
        case .control("y"): note.undoManager.redo()
        case .control("a"): ask("File to attach") { try await self.attach($0, to: note) }
        case .control("r"):
            conflicts = try await note.conflicts()
            pointed = 0
            if conflicts.isEmpty { message = "there is no conflict" }
        case .escape: try await closeNote()
        case .control("c"):
            try await closeNote()
            leave()
        default: _ = buffer.move(key, page: terminal?.size.rows ?? 24)
        }
        if self.note === note, buffer.text != note.text { note.edit(buffer.text) }
    }

    private func attach(_ path: String, to note: Note) async throws {
        let url = URL(filePath: (path as NSString).expandingTildeInPath)
        let file = try await FileCoordinator().coordinate(readingItemAt: url) {
            try FileWrapper(url: $0, options: .immediate)
        }
        note.attach(file)
        try await note.autosave()
    }

    // MARK: Settling

    private func press(_ key: Key, settling note: Note) async throws {
        let version = conflicts[pointed].version
        switch key {
        case .up: pointed = max(0, pointed - 1)
        case .down: pointed = min(pointed + 1, conflicts.count - 1)
        case .text("k"):
            let choice = conflicts[pointed].isCurrent ? .current : Conflict.Choice.other(version)
            try await settle(note, choice)
        case .text("b"):
            // The current version cannot become a note of its own, so this means the first other
            // one.
            let other = conflicts[pointed].isCurrent ? conflicts[1].version : version
            try await settle(note, .both(other))
        case .escape: conflicts = []
        default: break
        }
    }

    private func settle(_ note: Note, _ choice: Conflict.Choice) async throws {
        let all = conflicts
        conflicts = []
        try await note.settle(all, choice)
        conflicts = try await note.conflicts()
        pointed = 0
    }

    // MARK: Questions

    private func ask(
        _ question: String, _ answer: String = "",
        _ action: @escaping @MainActor (String) async throws -> Void
    ) {
        var buffer = TextBuffer()
        buffer.insert(answer)
        prompt = (question, buffer, action)
    }

    private func pressInPrompt(_ key: Key) async throws {
        switch key {
        case .text(let text): prompt?.answer.insert(text)
        case .backspace: prompt?.answer.deleteBackward()
        case .delete: prompt?.answer.deleteForward()
        case .enter:
            guard let asked = prompt else { return }
            prompt = nil
            if !asked.answer.text.isEmpty { try await asked.action(asked.answer.text) }
            relist()
        case .escape, .control("c"): prompt = nil
        default: _ = prompt?.answer.move(key, page: 1)
        }
    }
}
