import Foundation
import Support
import Testing

@testable import FileCoordination

/// Packages whose parts are read when they are asked for, and documents that are moved.
@Suite("Lazily read packages, and moved documents", .serialized) struct LazyPackageTests {
    private final class Album: Document {
        var pages = FileWrapper(directoryWithFileWrappers: [:])

        nonisolated override var packageReadingOptions: FileWrapper.ReadingOptions { [] }

        override func load(fromContents contents: any Sendable, ofType type: String) throws {
            if let package = contents as? FileWrapper { pages = package }
        }
        override func contents(forType type: String) throws -> any Sendable {
            FileWrapper(directoryWithFileWrappers: pages.fileWrappers ?? [:])
        }
    }

    private func withAlbum(_ body: (Album, String) throws -> Void) throws {
        try withTurns([]) { root in
            let path = "\(root)/a.rtfd"
            let inner = "\(path)/inner"
            try FileManager.default.createDirectory(
                atPath: inner, withIntermediateDirectories: true)
            for name in ["one", "two", "inner/three"] {
                try Data("old \(name)".utf8).write(to: URL(filePath: "\(path)/\(name)"))
            }
            _ = try versions(of: path)
            let album = try onMain {
                let album = Album(fileURL: URL(filePath: path))
                try await album.open()
                return album
            }
            try body(album, path)
            try onMain { try await album.close() }
        }
    }

    private func part(_ name: String, of package: FileWrapper) throws -> FileWrapper {
        try name.split(separator: "/").reduce(package) { wrapper, name in
            try #require(wrapper.fileWrappers?[String(name)])
        }
    }

    private func contents(_ name: String, of package: FileWrapper) throws -> String? {
        try part(name, of: package).regularFileContents.map { String(decoding: $0, as: UTF8.self) }
    }

    @Test("a part is read when it is asked for")
    func lazily() throws {
        try withAlbum { album, _ in
            let package = try onMain { album.pages }
            let two = try part("two", of: package)
            #expect(two.state.withLock { $0.data } == nil)
            #expect(try contents("two", of: package) == "old two")
            #expect(two.state.withLock { $0.data } != nil)
            #expect(try part("one", of: package).state.withLock { $0.data } == nil)
        }
    }

    @Test(
        "the parts stay those of one version, whatever other programs do with the package",
        arguments: [
            "printf new > DOC/two; printf new > DOC/inner/three", "rm -r DOC/two DOC/inner",
            "rm DOC/two; printf 'new two' > DOC/two; mv DOC/inner DOC/other",
        ])
    func consistent(_ script: String) throws {
        try withAlbum { album, path in
            let package = try onMain { album.pages }
            try stranger(script.replacing("DOC", with: path))
            _ = try versions(of: path)
            #expect(try contents("two", of: package) == "old two")
            #expect(try contents("inner/three", of: package) == "old inner/three")
        }
    }

    @Test("a save keeps parts that were never read, and what another program has changed")
    func saved() throws {
        try withAlbum { album, path in
            try onMain {
                album.pages.addRegularFile(withContents: Data("4".utf8), preferredFilename: "four")
                album.updateChangeCount(.done)
                try await album.autosave()
            }
            #expect(try text("\(path)/two") == "old two" && text("\(path)/four") == "4")
            #expect(try text("\(path)/inner/three") == "old inner/three")
            let two = try part("two", of: try onMain { album.pages })
            #expect(two.state.withLock { $0.data } == nil)
        }
    }

    @Test(
        "a moved document is presented, saved and read at its new place", arguments: [true, false])
    func moved(byItself: Bool) throws {
        try withAlbum { album, path in
            let new = path.replacing("a.rtfd", with: "b c.rtfd")
            if byItself {
                try onMain { try await album.rename(to: "b c") }
                #expect(throws: FileCoordinationError.self) {
                    try onMain { try await album.rename(to: "b/c") }
                }
            } else {
                try stranger("mv '\(path)' '\(new)'")
            }
            try wait(for: "the new place") { album.fileURL.path == new ? true : nil }
            #expect(try contents("two", of: try onMain { album.pages }) == "old two")
            try stranger("printf new > '\(new)/one'")
            try wait(for: "the change at the new place") {
                try contents("one", of: try onMain { album.pages }) == "new" ? true : nil
            }
            try onMain {
                album.pages.addRegularFile(withContents: Data("4".utf8), preferredFilename: "four")
                album.updateChangeCount(.done)
                try await album.autosave()
            }
            #expect(try text("\(new)/four") == "4" && text("\(new)/two") == "old two")
            #expect(!FileManager.default.fileExists(atPath: path))
        }
    }

    @Test("a duplicate has the unsaved changes, and nothing is overwritten")
    func duplicated() throws {
        try withTurns(["a.txt", "b.txt"]) { root in
            let note = try Note.opened("\(root)/a.txt")
            try note.type("mine")
            let copy = URL(filePath: "\(root)/c.txt")
            try onMain { try await note.duplicate(to: copy) }
            #expect(try text(copy.path) == "mine" && text("\(root)/a.txt") == "mine")
            let taken = URL(filePath: "\(root)/b.txt")
            for isMove in [true, false] {
                let error = #expect(throws: CocoaError.self) {
                    try onMain {
                        if isMove {
                            try await note.move(to: taken)
                        } else {
                            try await note.duplicate(to: taken)
                        }
                    }
                }
                #expect(error?.code == .fileWriteFileExists)
            }
            #expect(try text(taken.path) == "old")
            #expect(note.fileURL.lastPathComponent == "a.txt")
            try note.shut()
        }
    }
}
