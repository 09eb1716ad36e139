import FileCoordination
import Foundation

/// The program's state: the list of notes, the open note, and a conflict that is being settled.
@MainActor final class Program {
    let list: NoteList
    private let events: AsyncStream<Event>
    private let send: @Sendable (Event) -> Void
    private(set) var terminal: Terminal?

    var entries: [NoteList.Entry] = []
    var selected = 0
    /// The open note, and its text with the cursor.
    var note: Note?
    var buffer = TextBuffer()
    private var watching: Task<Void, Never>?
    /// The versions of a conflict that is being settled, and the index of the selected one.
    var conflicts: [Conflict] = []
    var pointed = 0
    /// A question that the user is answering, and what is done with the answer.
    var prompt:
        (question: String, answer: TextBuffer, action: @MainActor (String) async throws -> Void)?
    var message = ""

    private var isListing = false
    private var mustList = false
    private var isLeaving = false

    init(_ directory: URL) {
        let (events, continuation) = AsyncStream.makeStream(of: Event.self)
        self.events = events
        let send: @Sendable (Event) -> Void = { continuation.yield($0) }
        self.send = send
        list = NoteList(directory) { send(.listChanged) }
    }

    /// Runs until the user leaves.
    func run() async throws {
        let terminal = try Terminal(send)
        self.terminal = terminal
        defer { terminal.close() }
        relist()
        draw()
        for await event in events {
            switch event {
            case .key(let key): await attempt { try await self.press(key) }
            case .listChanged: relist()
            case .resized: break
            case .ended:
                await attempt { try await self.closeNote() }
                return
            }
            if isLeaving { return }
            draw()
        }
    }

    /// Runs `body` and shows its error in the last line of the screen.
    func attempt(_ body: @MainActor () async throws -> Void) async {
        do { try await body() } catch { message = error.localizedDescription }
    }

    func leave() { isLeaving = true }

    // MARK: The list

    /// Reads the list again. Calls that come while it is being read lead to one more reading.
    func relist() {
        mustList = true
        guard !isListing else { return }
        isListing = true
        Task {
            while mustList {
                mustList = false
                await attempt {
                    let here = entry?.url
                    entries = try await list.entries()
                    selected = entries.firstIndex { $0.url == here } ?? selected
                    selected = max(0, min(selected, entries.count - 1))
                }
            }
            isListing = false
            draw()
        }
    }

    var entry: NoteList.Entry? { entries.indices.contains(selected) ? entries[selected] : nil }

    // MARK: The note

    func open(_ note: Note, isNew: Bool = false) async throws {
        try await closeNote()
        note.changed = { [weak self, weak note] in
            guard let self, let note, self.note === note else { return }
            buffer.text = note.text
            draw()
        }
        do {
            if isNew {
                try await note.save(to: note.fileURL, for: .creating)
            } else {
                self.note = note
                watch(note)
                try await note.open()
            }
        } catch {
            forget()
            throw error
        }
        self.note = note
        buffer = TextBuffer()
        buffer.text = note.text
        if isNew { watch(note) }
    }

    private func watch(_ note: Note) {
        watching?.cancel()
        watching = Task { [weak self] in
            var wasOpen = false
            for await state in note.states {
                guard let self, self.note === note else { return }
                if state.contains(.closed), wasOpen {
                    message = "\(note.localizedName) is closed: it was deleted"
                    forget()
                }
                if !state.contains(.closed) { wasOpen = true }
                if !conflicts.isEmpty, !state.contains(.inConflict) {
                    message = "the conflict is settled"
                    conflicts = []
                }
                draw()
            }
        }
    }

    /// Closes the note. It stays open when something cannot be saved.
    func closeNote() async throws {
        guard let note else { return }
        // The watcher must not report this closing as a deletion.
        watching?.cancel()
        do { try await note.close() } catch {
            watch(note)
            throw error
        }
        forget()
        relist()
    }

    private func forget() {
        watching?.cancel()
        (note, conflicts) = (nil, [])
    }
}
