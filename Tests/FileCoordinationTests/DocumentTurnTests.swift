import Control
import Foundation
import Glibc
import Support
import Synchronization
import Testing

@testable import FileCoordination

/// A document and other programs that read, write, move and delete its file.
@Suite("Documents and other programs") struct DocumentTurnTests {
    @Test("A19.2, A19.3: a reader gets unsaved changes")
    func savedForReaders() throws {
        try withTurns(["a.txt"]) { root in
            let (note, other) = (try Note.opened("\(root)/a.txt"), try Program())
            try note.type("unsaved")
            #expect(try other.claim("r", "read:\(root)/a.txt").text == "unsaved")
            try other.end("r")
            try onMain { #expect(!note.hasUnsavedChanges) }
            // A reader that asks for no changes does not get them.
            try note.type("more")
            #expect(
                try other.claim("w", "read+withoutChanges:\(root)/a.txt").text == "unsaved")
            try other.end("w")
            try note.shut()
        }
    }

    @Test("A19.2: a plain program gets them, too")
    func savedForPlainReaders() throws {
        try withTurns(["a.txt"]) { root in
            let note = try Note.opened("\(root)/a.txt")
            try note.type("unsaved")
            try stranger("cat \(root)/a.txt > \(root)/b")
            #expect(try text("\(root)/b") == "unsaved")
            try note.shut()
        }
    }

    @Test("the error of a failed save is thrown to the reader, and nothing is lost")
    func failingSave() throws {
        try withTurns(["a.txt"]) { root in
            let (note, other) = (try Note.opened("\(root)/a.txt"), try Program())
            note.writing.withLock { $0 = { throw SupportError("the pen is dry") } }
            try note.type("unsaved")
            try other.tell("claim r read:\(root)/a.txt")
            let said = try other.wait("ended", "r")
            #expect(said.code == "refused" && said.error?.contains("the pen is dry") == true)
            #expect(try note.light() == .savingError)
            note.writing.withLock { $0 = {} }
            try note.shut()
            #expect(try text("\(root)/a.txt") == "unsaved")
        }
    }

    @Test("A18.6, A22.2: contents by others are read again, with editing disabled meanwhile")
    func changedElsewhere() throws {
        try withTurns(["a.txt"]) { root in
            let (note, other) = (try Note.opened("\(root)/a.txt"), try Program())
            note.log.withLock { $0 = [] }
            try other.claim("w", "write:\(root)/a.txt")
            try other.file("put \(root)/a.txt theirs")
            #expect(try note.shown() == "old", "not before the turn is over")
            try other.end("w")
            try note.wait(for: "their text") { $0.text == "theirs" && $0.documentState == .normal }
            #expect(note.said == ["disable on main", "read", "load on main", "enable on main"])
            try onMain { #expect(!note.hasUnsavedChanges) }
            try note.shut()
        }
    }

    @Test("changes by plain programs are followed, too, and unsaved text is kept")
    func plainWriter() throws {
        try withTurns(["a.txt"]) { root in
            let note = try Note.opened("\(root)/a.txt")
            try stranger("printf theirs > \(root)/a.txt")
            try note.wait(for: "their text") { $0.text == "theirs" }
            // The document ignores requests to save, so its changes stay unsaved.
            note.isStubborn.withLock { $0 = true }
            try note.type("mine")
            try stranger("printf newer > \(root)/a.txt")
            try wait(for: "the file to be seen") {
                try versions(of: "\(root)/a.txt").versions.last?.size == 5 ? true : nil
            }
            try onMain { await note.accesses.settle() }
            #expect(try note.shown() == "mine")
            note.isStubborn.withLock { $0 = false }
            try note.shut()
            #expect(try text("\(root)/a.txt") == "mine")
            // The other program's contents are a version.
            let contents = try reachableContents(in: root)
            #expect(contents.contains(Data("newer".utf8)))
        }
    }

    @Test("A19.4: a document gets no messages about its own saves")
    func ownSaves() throws {
        try withTurns(["a.txt"]) { root in
            let (note, other) = (try Note.opened("\(root)/a.txt"), try Program())
            try other.present("p", "\(root)/a.txt")
            note.log.withLock { $0 = [] }
            for number in 0..<5 {
                try note.type("\(number)")
                try onMain { try await note.autosave() }
            }
            try other.wait("message", "p", "changed")
            // All messages for the document have arrived by now.
            try other.claim("r", "read:\(root)/a.txt")
            try other.end("r")
            try onMain { await note.accesses.settle() }
            #expect(!note.said.contains("load on main") && !note.said.contains("read"))
            try note.shut()
        }
    }

    @Test("A18.19: a program's own access asks other presenters, but not its document")
    func ownTurn() throws {
        try withTurns(["a.txt"]) { root in
            let (note, other) = (try Note.opened("\(root)/a.txt"), try Program())
            try other.present("p", "\(root)/a.txt")
            try note.type("unsaved")
            note.log.withLock { $0 = [] }
            try onMain {
                try await note.performAsynchronousFileAccess {
                    try FileCoordinator(filePresenter: note).coordinate(
                        writingItemAt: note.fileURL
                    ) { try Data("by itself".utf8).write(to: $0) }
                }
            }
            try other.wait("message", "p", "changed")
            #expect(other.messages("p").first == "relinquishToWriter")
            try onMain { await note.accesses.settle() }
            #expect(note.said == [])
            try onMain {
                try await note.revert(toContentsOf: note.fileURL)
                #expect(note.text == "by itself" && !note.hasUnsavedChanges)
            }
            try note.shut()
        }
    }

    @Test("A19.5: saving elsewhere replaces the item there, whose presenters close it")
    func saveAs() throws {
        try withTurns(["a.txt", "b.txt"]) { root in
            let (note, other) = (try Note.opened("\(root)/a.txt"), try Program())
            try other.present("p", "\(root)/b.txt")
            try note.type("new")
            try onMain {
                try await note.save(to: URL(filePath: "\(root)/b.txt"), for: .creating)
                #expect(note.fileURL.lastPathComponent == "b.txt" && !note.hasUnsavedChanges)
            }
            #expect(
                other.messages("p").prefix(2) == ["relinquishToWriter", "accommodateDeletion"])
            #expect(try text("\(root)/a.txt") == "old" && text("\(root)/b.txt") == "new")
            // Now this document is presented.
            try note.type("newer")
            #expect(try other.claim("a", "read:\(root)/a.txt").text == "old")
            #expect(try other.claim("b", "read:\(root)/b.txt").text == "newer")
            for name in ["a", "b"] { try other.end(name) }
            try note.shut()
        }
    }

    @Test("A22.3: a moved document follows its file, and saves there")
    func moved() throws {
        try withTurns(["a.txt", "d/x"]) { root in
            let note = try Note.opened("\(root)/a.txt")
            try stranger("mv \(root)/a.txt \(root)/d/b.txt")
            try note.wait(for: "the new name") { $0.fileURL.path == "\(root)/d/b.txt" }
            // It also follows when its directory is moved.
            try stranger("mv \(root)/d \(root)/e")
            try note.wait(for: "the new place") { $0.fileURL.path == "\(root)/e/b.txt" }
            try onMain { #expect(note.localizedName == "b" && note.documentState == .normal) }
            try note.type("there")
            try note.shut()
            #expect(try text("\(root)/e/b.txt") == "there")
            #expect(access("\(root)/a.txt", F_OK) != 0)
        }
    }

    @Test("A22.4: a document saves and closes before it is deleted")
    func deleted() throws {
        try withTurns(["a.txt"]) { root in
            let (note, other) = (try Note.opened("\(root)/a.txt"), try Program())
            try note.type("last words")
            try other.claim("d", "write+forDeleting:\(root)/a.txt")
            #expect(try other.file("get \(root)/a.txt").text == "last words")
            // The claim is granted as soon as the document presents nothing any more.
            try note.wait(for: "the end") { $0.documentState == .closed }
            try other.file("remove \(root)/a.txt")
            try other.end("d")
            // The versions are recorded a little later.
            try wait(for: "the version") {
                try reachableContents(in: root).contains(Data("last words".utf8)) ? true : nil
            }
        }
    }

    @Test("a document that cannot be saved is not deleted")
    func deletionRefused() throws {
        try withTurns(["a.txt"]) { root in
            let (note, other) = (try Note.opened("\(root)/a.txt"), try Program())
            note.writing.withLock { $0 = { throw SupportError("the pen is dry") } }
            try note.type("last words")
            try other.tell("claim d write+forDeleting:\(root)/a.txt")
            #expect(try other.wait("ended", "d").code == "refused")
            #expect(try note.light() == .savingError)
            note.writing.withLock { $0 = {} }
            try note.shut()
            #expect(try text("\(root)/a.txt") == "last words")
        }
    }

    @Test("A20.5, A20.6: opening, following and closing write nothing")
    func noLoops() throws {
        try withTurns(["a.txt"]) { root in
            let path = "\(root)/a.txt"
            let before = try versions(of: path)
            let date = try FileManager.default.attributesOfItem(atPath: path)[.modificationDate]
            for _ in 0..<3 {
                let note = try Note.opened(path)
                try note.shut()
            }
            #expect(try versions(of: path) == before)
            #expect(
                try FileManager.default.attributesOfItem(atPath: path)[.modificationDate] as? Date
                    == date as? Date)
            // Two documents of one file do not answer each other's saves with saves.
            let (one, two) = (try Note.opened(path), try Note.opened(path))
            try stranger("printf theirs > \(path)")
            for note in [one, two] { try note.wait(for: "their text") { $0.text == "theirs" } }
            try one.type("mine")
            try onMain { try await one.autosave() }
            try two.wait(for: "its text") { $0.text == "mine" }
            for note in [one, two] {
                try note.shut()
                #expect(note.said.count { $0 == "write" } == (note === one ? 1 : 0))
            }
            #expect(try versions(of: path).versions.count == before.versions.count + 2)
        }
    }

    @Test("two documents of one file save at the same time without a deadlock")
    func crossing() throws {
        try withTurns(["a.txt"]) { root in
            let path = "\(root)/a.txt"
            let (one, two) = (try Note.opened(path), try Note.opened(path))
            try onMain {
                for round in 0..<30 {
                    one.text = "one \(round)"
                    two.text = "two \(round)"
                    let saves = [one, two].map { note in
                        Task.immediate {
                            try await note.save(to: note.fileURL, for: .overwriting)
                        }
                    }
                    for save in saves { try await save.value }
                }
            }
            try one.wait(for: "one text") { $0.text == two.text }
            for note in [one, two] { try note.shut() }
        }
    }

    @Test("outside of volumes it opens and saves, and does not overwrite changes by others")
    func elsewhere() throws {
        let home = try TemporaryDirectory("documents")
        let path = "\(home.path)/a.txt"
        let note = try Note.created(path)
        chmod(path, 0o640)
        try note.type("saved")
        try onMain { try await note.autosave() }
        #expect(try text(path) == "saved")
        #expect(try FileStatus(of: path).mode & 0o777 == 0o640, "as it was")
        try Data("theirs".utf8).write(to: URL(filePath: path))
        try note.type("mine")
        try onMain {
            let error = await #expect(throws: DocumentError.self) { try await note.autosave() }
            #expect(error?.code == .changedElsewhere && note.documentState == .savingError)
            try await note.revert(toContentsOf: note.fileURL)
            #expect(note.text == "theirs")
        }
        try note.shut()
        // Opened through a link, the document is the link's target.
        try FileManager.default.createSymbolicLink(
            atPath: "\(home.path)/link", withDestinationPath: "a.txt")
        let linked = try Note.opened("\(home.path)/link")
        try linked.type("linked")
        try linked.shut()
        #expect(try text(path) == "linked")
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: home.path).sorted()
                == ["a.txt", "link"])
    }

    @Test("a document that is released leaves no presenter or queue behind")
    func lifetime() throws {
        let home = try TemporaryDirectory("documents")
        try Data("x".utf8).write(to: URL(filePath: "\(home.path)/a"))
        weak var last: Note?
        do {
            let note = try Note.opened("\(home.path)/a")
            last = note
            try note.shut()
        }
        try wait(for: "the document to be gone") { last == nil ? true : nil }
    }
}
