import Control
import Foundation
import Support
import Synchronization
import Testing

@testable import FileCoordination

/// A document and its own file (Rows.md, A18), on a mount and elsewhere.
@Suite("Documents") struct DocumentTests {
    @Test("A18.2, A18.3, A18.20: opening reads in the queue and loads on the main actor")
    func opening() throws {
        try withTurns(["a.txt"]) { root in
            let note = try onMain { Note(fileURL: URL(filePath: "\(root)/a.txt")) }
            try onMain {
                #expect(note.documentState == .closed && note.fileModificationDate == nil)
                try await note.open()
                note.say("open")
                #expect(note.documentState == .normal && note.text == "old")
                #expect(note.fileModificationDate != nil && note.localizedName == "a")
            }
            #expect(note.said == ["read", "load on main", "open on main"])
            try note.shut()
        }
    }

    @Test("A18.4: a save writes the snapshot, not later edits; those stay unsaved")
    func snapshot() throws {
        try withTurns(["a.txt"]) { root in
            let note = try Note.opened("\(root)/a.txt")
            note.log.withLock { $0 = [] }
            try onMain {
                note.text = "first"
                let save = Task.immediate {
                    try await note.save(to: note.fileURL, for: .overwriting)
                }
                // The snapshot was taken before the call returned.
                #expect(note.said == ["contents on main"])
                note.text = "second"
                try await save.value
                #expect(note.hasUnsavedChanges)
                #expect(note.said == ["contents on main", "write"])
            }
            #expect(try text("\(root)/a.txt") == "first")
            try note.shut()
            #expect(try text("\(root)/a.txt") == "second")
        }
    }

    @Test("A18.4: the call with a handler takes the snapshot at once and calls back on main")
    func handlers() throws {
        try withTurns([]) { root in
            let path = "\(root)/a.txt"
            let note = try onMain { Note(fileURL: URL(filePath: path)) }
            try onMain {
                note.text = "first"
                let isSaved = await withCheckedContinuation { done in
                    note.save(to: note.fileURL, for: .creating) { done.resume(returning: $0) }
                    note.text = "second"
                }
                #expect(isSaved && isOnMain() && note.hasUnsavedChanges)
                let isClosed = await withCheckedContinuation { done in
                    note.close { done.resume(returning: $0) }
                }
                let missing = Note(fileURL: URL(filePath: "\(root)/none"))
                let isOpen = await withCheckedContinuation { done in
                    missing.open { done.resume(returning: $0) }
                }
                #expect(isClosed && !isOpen)
            }
            #expect(try text(path) == "second")
        }
    }

    @Test("A18.4: saves are written in the order of the calls")
    func order() throws {
        try withTurns(["a.txt"]) { root in
            let note = try Note.opened("\(root)/a.txt")
            try onMain {
                let saves = (0..<20).map { number in
                    note.text = "\(number)"
                    return Task.immediate {
                        try await note.save(to: note.fileURL, for: .overwriting)
                    }
                }
                for save in saves { try await save.value }
                #expect(!note.hasUnsavedChanges)
            }
            #expect(try text("\(root)/a.txt") == "19")
            try note.shut()
        }
    }

    @Test("A18.5, A18.24: contents that are neither data nor wrappers need an override")
    func otherContents() throws {
        final class Odd: Document {
            override func contents(forType type: String) throws -> any Sendable { 7 }
        }
        final class Own: Document {
            override func contents(forType type: String) throws -> any Sendable { 7 }
            nonisolated override func writeContents(
                _ contents: any Sendable, to url: URL, for operation: SaveOperation,
                originalContentsURL: URL?
            ) throws { try Data("\(contents)".utf8).write(to: url) }
        }
        let home = try TemporaryDirectory("documents")
        let url = URL(filePath: "\(home.path)/a")
        try onMain {
            let odd = Odd(fileURL: url)
            await #expect {
                try await odd.save(to: url, for: .creating)
            } throws: {
                "\($0)".contains("Odd must override writeContents")
            }
            let empty = Document(fileURL: url)
            await #expect(throws: DocumentError.self) {
                try await empty.save(to: url, for: .creating)
            }
            #expect(empty.documentState == [.closed, .savingError])
            // With an override it works.
            let own = Own(fileURL: url)
            try await own.save(to: url, for: .creating)
            try await own.close()
        }
        #expect(try text("\(home.path)/a") == "7")
        #expect(try FileManager.default.contentsOfDirectory(atPath: home.path) == ["a"])
    }

    @Test("A18.21: what an override of read(from:) returns is loaded")
    func incremental() throws {
        final class Head: Document {
            var head = ""
            nonisolated override func read(from url: URL) throws -> any Sendable {
                let file = try FileHandle(forReadingFrom: url)
                defer { try? file.close() }
                return String(decoding: try file.read(upToCount: 3) ?? Data(), as: UTF8.self)
            }
            override func load(fromContents contents: any Sendable, ofType type: String) throws {
                head = contents as? String ?? "?"
            }
        }
        try withTurns([]) { root in
            try Data("a long text".utf8).write(to: URL(filePath: "\(root)/a"))
            try onMain {
                let document = Head(fileURL: URL(filePath: "\(root)/a"))
                try await document.open()
                #expect(document.head == "a l")
                try await document.close()
            }
        }
    }

    @Test("A18.7, A18.9, A19.1: the document saves each change by itself")
    func autosaving() throws {
        try withTurns(["a.txt"]) { root in
            let note = try Note.opened("\(root)/a.txt")
            for round in ["one", "two"] {
                try onMain {
                    note.delay = .milliseconds(10)
                    note.text = round
                }
                try note.wait(for: "the save") { !$0.hasUnsavedChanges }
                #expect(try text("\(root)/a.txt") == round)
            }
            try note.shut()
        }
    }

    @Test("A18.7: a document that was closed with an unsaved change saves by itself again later")
    func openedAgain() throws {
        try withTurns(["a.txt"]) { root in
            let note = try Note.opened("\(root)/a.txt")
            try onMain {
                note.text = "first"
                try await note.close()
                note.delay = .milliseconds(10)
                try await note.open()
                note.text = "second"
            }
            try note.wait(for: "the document to save by itself") { !$0.hasUnsavedChanges }
            #expect(try text("\(root)/a.txt") == "second")
            try note.shut()
        }
    }

    @Test("A18.8: an empty file is opened as an empty document")
    func empty() throws {
        try withTurns([]) { root in
            try Data().write(to: URL(filePath: "\(root)/a.txt"))
            let note = try Note.opened("\(root)/a.txt")
            #expect(try note.shown() == "" && note.light() == .normal)
            try note.shut()
        }
    }

    @Test("A18.10: registering an undo is a change, and undoing takes the change back")
    func undo() throws {
        try withTurns(["a.txt"]) { root in
            let note = try Note.opened("\(root)/a.txt")
            try onMain {
                #expect(!note.hasUnsavedChanges)
                note.turnOver()
                #expect(note.hasUnsavedChanges)
                note.undoManager.undo()
                #expect(!note.hasUnsavedChanges)
                note.undoManager.redo()
                #expect(note.hasUnsavedChanges)
                try await note.autosave()
                #expect(!note.hasUnsavedChanges)
                note.undoManager.undo()
                #expect(note.hasUnsavedChanges)
            }
            try note.shut()
        }
    }

    @Test("A18.11, A18.12, A18.13: states are closed, normal, closed, each reported once")
    func states() throws {
        try withTurns(["a.txt"]) { root in
            let note = try onMain { Note(fileURL: URL(filePath: "\(root)/a.txt")) }
            let states = try onMain { () -> [Document.State] in
                var states: [Document.State] = []
                let stream = note.states
                try await note.open()
                try await note.close()
                let end = Task {
                    for await state in stream {
                        states.append(state)
                        if states.count > 1, state == .closed { break }
                    }
                }
                await end.value
                return states
            }
            #expect(
                states == [
                    .closed, .normal, .editingDisabled, [.closed, .editingDisabled], .closed,
                ])
        }
    }

    @Test("A18.13: a document that fails to open stays closed, and is neither presented nor saved")
    func failedOpen() throws {
        let home = try TemporaryDirectory("documents")
        let note = try onMain { Note(fileURL: URL(filePath: "\(home.path)/none")) }
        try onMain {
            await #expect(throws: CocoaError.self) { try await note.open() }
            #expect(note.documentState == .closed && note.errors.count == 1)
            #expect(!FileCoordinator.filePresenters.contains { $0 === note })
            note.text = "lost"
            #expect(!note.hasUnsavedChanges)
            await #expect(throws: DocumentError.self) {
                try await note.save(to: note.fileURL, for: .overwriting)
            }
        }
    }

    @Test("A18.15, A18.26: a full disk is a saving error, until there is room again")
    func fullDisk() throws {
        let disk = try SmallDisk("1m")
        let note = try Note.created("\(disk.path)/a.txt", "old")
        try note.type(String(repeating: "x", count: 3_000_000))
        try onMain {
            await #expect(throws: CocoaError.self) { try await note.autosave() }
            #expect(note.documentState == .savingError && note.hasUnsavedChanges)
            #expect((note.errors.first as? CocoaError)?.code == .fileWriteOutOfSpace)
        }
        #expect(try text("\(disk.path)/a.txt") == "old")
        #expect(try FileManager.default.contentsOfDirectory(atPath: disk.path) == ["a.txt"])
        try disk.grow(to: "8m")
        try onMain {
            try await note.autosave()
            #expect(note.documentState == .normal && !note.hasUnsavedChanges)
        }
        #expect(try text("\(disk.path)/a.txt").count == 3_000_000)
        try note.shut()
    }

    @Test("A18.15: a failed save is tried again by itself")
    func retry() throws {
        let home = try TemporaryDirectory("documents")
        let note = try Note.created("\(home.path)/a.txt")
        let isFailing = Mutex(true)
        note.writing.withLock { writing in
            writing = { if isFailing.withLock({ $0 }) { throw SupportError("no") } }
        }
        try onMain {
            note.delay = .milliseconds(5)
            note.text = "new"
        }
        try note.wait(for: "two failures") {
            $0.errors.count >= 2 && $0.documentState == .savingError
        }
        isFailing.withLock { $0 = false }
        try note.wait(for: "the save") { $0.documentState == .normal }
        #expect(try text("\(home.path)/a.txt") == "new")
        try note.shut()
    }

    @Test("A18.16: reverting disables editing, and discards unsaved changes")
    func reverting() throws {
        try withTurns(["a.txt"]) { root in
            let note = try Note.opened("\(root)/a.txt")
            note.log.withLock { $0 = [] }
            try onMain {
                note.text = "unsaved"
                try await note.revert(toContentsOf: note.fileURL)
                #expect(note.text == "old" && !note.hasUnsavedChanges)
                #expect(note.documentState == .normal)
                #expect(!note.undoManager.canUndo)
            }
            #expect(note.said == ["disable on main", "read", "load on main", "enable on main"])
            // Reverting to another file, such as a version, is a change.
            try Data("version".utf8).write(to: URL(filePath: "\(root)/b.txt"))
            try onMain {
                try await note.revert(toContentsOf: URL(filePath: "\(root)/b.txt"))
                #expect(note.hasUnsavedChanges)
            }
            try note.shut()
            #expect(try text("\(root)/a.txt") == "version")
        }
    }

    @Test("A18.18: a program's own accesses run between those of the document, one at a time")
    func ownAccess() throws {
        let home = try TemporaryDirectory("documents")
        let note = try Note.created("\(home.path)/a.txt")
        let busy = Atomic(0)
        note.writing.withLock { writing in
            writing = {
                #expect(busy.add(1, ordering: .relaxed).newValue == 1)
                busy.subtract(1, ordering: .relaxed)
            }
        }
        try onMain {
            let tasks = (0..<50).map { number in
                Task {
                    try await note.performAsynchronousFileAccess {
                        #expect(!isOnMain())
                        #expect(busy.add(1, ordering: .relaxed).newValue == 1)
                        busy.subtract(1, ordering: .relaxed)
                    }
                    try await note.save(to: note.fileURL, for: .overwriting)
                }
            }
            for task in tasks { try await task.value }
        }
        try note.shut()
    }

    @Test("A20.7: a discardable change causes no save")
    func discardable() throws {
        try withTurns(["a.txt"]) { root in
            let note = try Note.opened("\(root)/a.txt")
            try onMain {
                note.updateChangeCount(.discardable)
                #expect(!note.hasUnsavedChanges)
                note.updateChangeCount(.done)
                note.updateChangeCount(.cleared)
                #expect(!note.hasUnsavedChanges)
            }
            try note.shut()
            #expect(!note.said.contains("write"))
        }
    }
}

extension Note {
    /// A change that is undone by making it again.
    fileprivate func turnOver() {
        undoManager.registerUndo(withTarget: self) { $0.turnOver() }
    }
}
