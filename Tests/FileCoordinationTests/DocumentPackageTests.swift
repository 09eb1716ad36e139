import Control
import Foundation
import Glibc
import Support
import Synchronization
import Testing

@testable import FileCoordination

/// How documents are stored on the disk: saving safely, packages, types, previews, bookmarks.
@Suite("Documents on the disk") struct DocumentPackageTests {
    @Test(
        "A18.22: a save is one version, and leaves nothing beside it", arguments: ["txt", "rtfd"])
    func oneVersion(type: String) throws {
        try withTurns([]) { root in
            let path = "\(root)/a.\(type)"
            let note = try Note.created(path, "0")
            let before = try versions(of: path)
            for number in 1...3 {
                try note.type("\(number)")
                try onMain { try await note.autosave() }
                let after = try versions(of: path)
                #expect(after.id == before.id, "the same item")
                #expect(after.versions.count == before.versions.count + number)
            }
            #expect(try deleted(in: root) == [])
            let names = try FileManager.default.contentsOfDirectory(atPath: root)
            #expect(names.filter { $0 != ".versions" } == ["a.\(type)"])
            try note.shut()
        }
    }

    @Test("A12.8: each coordinated write of a package makes a version, however soon the next comes")
    func saveAfterSave() throws {
        try withTurns([]) { root in
            let note = try Note.created("\(root)/a.rtfd", "0")
            for number in 1...5 {
                try note.type("\(number)")
                try onMain { try await note.autosave() }
            }
            try note.shut()
            let history = try versions(of: "\(root)/a.rtfd").versions
            let texts = try history.map { version in
                try text("\(root)/.versions/a.rtfd/\(version.fileName.text)/index.txt")
            }
            #expect(texts == ["0", "1", "2", "3", "4", "5"])
        }
    }

    @Test("A18.22: an uncoordinated reader gets the old or the new contents, whole")
    func whole() throws {
        try withTurns([]) { root in
            let path = "\(root)/a.txt"
            let note = try Note.created(path, String(repeating: "0", count: 100_000))
            let isDone = Mutex(false)
            let counts = Mutex<Set<Int>>([])
            let reader = DispatchSemaphore(value: 0)
            Thread.detachNewThread {
                while !isDone.withLock({ $0 }) {
                    let data = try? Data(contentsOf: URL(filePath: path))
                    counts.withLock {
                        _ = $0.insert(data.map { Set($0).count == 1 ? $0.count : -1 } ?? 0)
                    }
                }
                reader.signal()
            }
            for number in 1...9 {
                try note.type(String(repeating: "\(number)", count: 100_000))
                try onMain { try await note.autosave() }
            }
            isDone.withLock { $0 = true }
            reader.wait()
            #expect(counts.withLock { $0 } == [100_000])
            try note.shut()
        }
    }

    @Test("A18.22: a save that fails half way leaves the old contents", arguments: ["txt", "rtfd"])
    func failedSave(type: String) throws {
        final class Torn: Document {
            nonisolated override func writeContents(
                _ contents: any Sendable, to url: URL, for operation: SaveOperation,
                originalContentsURL: URL?
            ) throws {
                try super.writeContents(
                    contents, to: url, for: operation, originalContentsURL: originalContentsURL)
                throw SupportError("torn")
            }
            override func load(fromContents contents: any Sendable, ofType type: String) throws {}
            override func contents(forType type: String) throws -> any Sendable {
                type == "txt"
                    ? Data("half".utf8)
                    : FileWrapper(directoryWithFileWrappers: [:]) as any Sendable
            }
        }
        try withTurns([]) { root in
            let url = URL(filePath: "\(root)/a.\(type)")
            let note = try Note.created(url.path, "whole")
            try note.shut()
            try onMain {
                let torn = Torn(fileURL: url)
                try await torn.open()
                await #expect(throws: SupportError.self) {
                    try await torn.save(to: url, for: .overwriting)
                }
                FileCoordinator.removeFilePresenter(torn)
            }
            let index = type == "txt" ? url.path : "\(url.path)/index.txt"
            #expect(try text(index) == "whole")
            let names = try FileManager.default.contentsOfDirectory(atPath: root)
            #expect(names.filter { $0 != ".versions" } == ["a.\(type)"])
        }
    }

    @Test("A18.5: a package is read as a wrapper and written as one; assets are not written again")
    func packages() throws {
        try withTurns([]) { root in
            let path = "\(root)/a.rtfd"
            let note = try Note.created(path, "first")
            let picture = Data(repeating: 7, count: 1_000_000)
            try onMain {
                let pages = FileWrapper(directoryWithFileWrappers: [:])
                pages.addRegularFile(withContents: picture, preferredFilename: "picture.png")
                note.pages = pages
                note.updateChangeCount(.done)
                try await note.close()
            }
            let before = try FileStatus(of: "\(path)/picture.png")
            let again = try Note.opened(path)
            #expect(try again.shown() == "first")
            try again.type("second")
            try again.shut()
            #expect(try text("\(path)/index.txt") == "second")
            #expect(try Data(contentsOf: URL(filePath: "\(path)/picture.png")) == picture)
            let after = try FileStatus(of: "\(path)/picture.png")
            #expect(after.modified == before.modified)
        }
    }

    @Test("A20.4: parts that a newer program has added to a package stay when an older one saves")
    func unknownParts() throws {
        try withTurns(["a.rtfd/index.txt", "a.rtfd/future/marks.json"]) { root in
            let note = try Note.opened("\(root)/a.rtfd")
            try note.type("edited")
            try note.shut()
            #expect(try text("\(root)/a.rtfd/index.txt") == "edited")
            #expect(try text("\(root)/a.rtfd/future/marks.json") == "old")
        }
    }

    @Test("a package that another program changes inside is read again")
    func packageChanged() throws {
        try withTurns([]) { root in
            let path = "\(root)/a.rtfd"
            let (note, other) = (try Note.created(path, "first"), try Program())
            try other.claim("w", "write:\(path)")
            try other.file("put \(path)/index.txt theirs")
            try other.end("w")
            try note.wait(for: "their text") { $0.text == "theirs" }
            try note.type("mine")
            #expect(try other.claim("r", "read:\(path)").error == nil)
            #expect(try other.file("get \(path)/index.txt").text == "mine")
            try other.end("r")
            try note.shut()
        }
    }

    @Test("A18.25: a new type changes the extension of the same item")
    func extensionChange() throws {
        try withTurns([]) { root in
            let note = try Note.created("\(root)/a.txt", "text")
            let before = try versions(of: "\(root)/a.txt")
            try onMain {
                note.type = "md"
                note.text = "# Text"
                try await note.autosave()
                #expect(note.fileURL.lastPathComponent == "a.md" && !note.hasUnsavedChanges)
            }
            let after = try versions(of: "\(root)/a.md")
            #expect(after.id == before.id && after.versions.count == before.versions.count + 1)
            #expect(try text("\(root)/a.md") == "# Text")
            try note.shut()
            let names = try FileManager.default.contentsOfDirectory(atPath: root)
            #expect(names.filter { $0 != ".versions" } == ["a.md"])
            #expect(try deleted(in: root) == [])
        }
    }

    @Test("A18.25: a text that gets a picture becomes a package, and presenters follow")
    func typeChange() throws {
        try withTurns([]) { root in
            let (note, other) = (try Note.created("\(root)/a.rtf", "text"), try Program())
            try other.present("p", "\(root)/a.rtf")
            try onMain {
                note.type = "rtfd"
                note.text = "text with a picture"
                try await note.autosave()
                #expect(note.fileURL.lastPathComponent == "a.rtfd" && note.fileType == "rtfd")
            }
            #expect(try text("\(root)/a.rtfd/index.txt") == "text with a picture")
            let names = try FileManager.default.contentsOfDirectory(atPath: root)
            #expect(names.filter { $0 != ".versions" } == ["a.rtfd"])
            // The versions of the text alone can be restored.
            #expect(try deleted(in: root) == ["a.rtf"])
            #expect(try other.wait("message", "p", "moved").to == "\(root)/a.rtfd")
            // The document is presented at its new place.
            try note.type("more")
            try other.claim("r", "read:\(root)/a.rtfd")
            #expect(try other.file("get \(root)/a.rtfd/index.txt").text == "more")
            try other.end("r")
            // An item that already has the new name is not overwritten.
            try Data("other".utf8).write(to: URL(filePath: "\(root)/a.rtf"))
            try onMain {
                note.type = "rtf"
                note.text = "plain"
                await #expect(throws: CocoaError.self) { try await note.autosave() }
                note.type = nil
            }
            try note.shut()
            #expect(try text("\(root)/a.rtf") == "other")
        }
    }

    @Test("A18.23, A21.1: a preview written after the contents is in the same version")
    func preview() throws {
        final class Pictured: Document {
            var count = 0
            override func load(fromContents contents: any Sendable, ofType type: String) throws {}
            override func contents(forType type: String) throws -> any Sendable {
                count += 1
                return FileWrapper(directoryWithFileWrappers: [
                    "text": FileWrapper(regularFileWithContents: Data("text \(count)".utf8))
                ])
            }
            nonisolated override func writeContents(
                _ contents: any Sendable, andAttributes attributes: FileWrapper.Attributes,
                safelyTo url: URL, for operation: SaveOperation
            ) throws {
                try super.writeContents(
                    contents, andAttributes: attributes, safelyTo: url, for: operation)
                try Data("small".utf8).write(
                    to: url.appending(path: "preview.png"), options: .atomic)
            }
        }
        try withTurns([]) { root in
            let path = "\(root)/a.rtfd"
            try onMain {
                let document = Pictured(fileURL: URL(filePath: path))
                try await document.save(to: document.fileURL, for: .creating)
                try await document.save(to: document.fileURL, for: .overwriting)
                try await document.close()
            }
            let history = try versions(of: path)
            for version in history.versions {
                let files = try FileManager.default.contentsOfDirectory(
                    atPath: "\(root)/.versions/a.rtfd/\(version.fileName.text)")
                #expect(files.sorted() == ["preview.png", "text"], "version \(version.number)")
            }
            #expect(history.versions.count == 2)
        }
    }

    @Test("A22.5: a bookmark finds the document after a move, a save and a mount")
    func bookmarks() throws {
        try MountedVolume.with { volume in
            let note = try Note.created("\(volume.path)/a.txt", "old")
            let bookmark = try onMain { try await note.bookmark() }
            try note.type("new")
            try note.shut()
            #expect(try bookmark.resolve().path == "\(volume.path)/a.txt")
            mkdir("\(volume.path)/d e", 0o755)
            try stranger("mv '\(volume.path)/a.txt' '\(volume.path)/d e/b.txt'")
            // Another item has the old name.
            try Data("other".utf8).write(to: URL(filePath: "\(volume.path)/a.txt"))
            try volume.remount()
            let kept = try JSONDecoder().decode(
                FileBookmark.self, from: try JSONEncoder().encode(bookmark))
            let moved = "\(volume.path)/d e/b.txt"
            let again = try onMain {
                let note = try await Note(resolving: kept)
                try await note.open()
                #expect(note.fileURL.path == moved && note.text == "new")
                return note
            }
            try again.shut()
            try #require(unlink("\(volume.path)/d e/b.txt") == 0)
            #expect { try kept.resolve() } throws: { "\($0)".contains("It was deleted") }
        }
    }

    @Test("A22.5: it finds a volume that is mounted elsewhere, and a path where there is none")
    func bookmarksElsewhere() throws {
        let home = try TemporaryDirectory("documents")
        let kept = try MountedVolume.with(store: "\(home.path)/store") { volume in
            try Data("x".utf8).write(to: URL(filePath: "\(volume.path)/a"))
            return try FileBookmark(of: URL(filePath: "\(volume.path)/a"))
        }
        #expect { try kept.resolve() } throws: { "\($0)".contains("is not mounted") }
        try MountedVolume.with(store: "\(home.path)/store") { volume in
            let found = try kept.resolve()
            #expect(found.path == "\(volume.path)/a")
        }
        try Data("y".utf8).write(to: URL(filePath: "\(home.path)/b"))
        let plain = try FileBookmark(of: URL(filePath: "\(home.path)/b"))
        #expect(try plain.resolve().path == "\(home.path)/b")
        try FileManager.default.removeItem(atPath: "\(home.path)/b")
        #expect(throws: FileCoordinationError.self) { try plain.resolve() }
        #expect(throws: FileCoordinationError.self) {
            try FileBookmark(of: URL(filePath: "\(home.path)/none"))
        }
    }
}
