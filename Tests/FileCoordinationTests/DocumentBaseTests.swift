import Control
import Foundation
import Glibc
import Support
import Testing

@testable import FileCoordination

/// Each save names the contents that it was made from. What others saved meanwhile is merged with
/// it or becomes a conflict version, and is never only in the history.
@Suite("A save names its base") struct DocumentBaseTests {
    private static let lines = "one\ntwo\nthree\nfour\nfive\nsix\n"

    /// Opens a document that has unsaved changes while another program writes, and then saves it.
    private func meanwhile(
        _ old: String, _ mine: String, _ others: (String) throws -> Void,
        then: (Note, String) throws -> Void
    ) throws {
        try withTurns(["a.txt"]) { root in
            let path = "\(root)/a.txt"
            try Data(old.utf8).write(to: URL(filePath: path))
            let note = try Note.opened(path)
            // The writes of plain programs must not make the document save before them.
            note.isStubborn.withLock { $0 = true }
            try note.type(mine)
            try others(path)
            note.isStubborn.withLock { $0 = false }
            try onMain { try await note.autosave() }
            try then(note, path)
            try note.shut()
        }
    }

    private func conflicts(of path: String) throws -> [String] {
        try versions(of: path).versions.filter { $0.kind == "conflict" }.map { version in
            let directory = URL(filePath: path).deletingLastPathComponent()
            return try text(
                directory.appending(path: ".conflicts/a.txt/\(version.fileName.text)").path)
        }
    }

    @Test(
        "changes of others are merged with unsaved ones, and the document shows both",
        arguments: [
            "echo seven >> PATH", "sed -i s/five/5/ PATH",
            "fsctl coordinate write --merging PATH -- sed -i s/five/5/ PATH",
            "sed s/five/5/ PATH > PATH~new; cat PATH~new > PATH; rm PATH~new",
        ])
    func merged(_ script: String) throws {
        try meanwhile(Self.lines, "ONE" + Self.lines.dropFirst(3)) { path in
            let tool = script.replacing("PATH", with: path)
            try stranger("PATH='\(Programs.directory)':$PATH; \(tool)")
        } then: { note, path in
            let theirs = script.contains("seven") ? "seven" : "5"
            try note.wait(for: "both") {
                $0.text.hasPrefix("ONE\n") && $0.text.contains("\(theirs)\n")
            }
            try wait(for: "no conflict") { try conflicts(of: path).isEmpty ? true : nil }
            try note.wait(for: "a green light") { $0.documentState == .normal }
            #expect(try text(path) == note.shown())
        }
    }

    @Test(
        "contents that cannot be merged are in conflict, and presenters are told",
        arguments: ["printf theirs > PATH", "sed -i s/old/theirs/ PATH"])
    func conflict(_ script: String) throws {
        let other = try Program()
        try meanwhile("old", "mine") { path in
            try other.present("p", "\(path) hears=versions,change")
            try stranger(script.replacing("PATH", with: path))
            // Once the other contents were already the current version, and once they were not
            // recorded yet.
            if script.hasPrefix("sed") { _ = try versions(of: path) }
        } then: { note, path in
            try other.wait("message", "p", "versionGained")
            try note.wait(for: "a yellow light") { $0.documentState == .inConflict }
            #expect(try conflicts(of: path) == ["theirs"])
            #expect(try text(path) == "mine" && note.shown() == "mine")
            // A second save does not conflict with the document's own first one.
            try note.type("mine again")
            try onMain { try await note.autosave() }
            _ = try versions(of: path)
            #expect(try conflicts(of: path) == ["theirs"])
        }
    }

    /// As `meanwhile`, for a package in which nobody has saved for so long that it is a version.
    private func meanwhileInPackage(
        _ mine: String, _ script: String, isRecorded: Bool = false,
        before: (String) throws -> Void = { _ in }, then: (Note, String) throws -> Void
    ) throws {
        try withTurns([]) { root in
            let path = "\(root)/a.rtfd"
            let note = try Note.created(path, "old")
            try note.shut()
            try Data("old".utf8).write(to: URL(filePath: "\(path)/page.txt"))
            _ = try versions(of: path)
            let again = try Note.opened(path)
            again.isStubborn.withLock { $0 = true }
            try again.type(mine)
            try before(path)
            let search = "PATH='\(Programs.directory)':$PATH"
            try stranger("\(search); \(script.replacing("DOC", with: path))")
            if isRecorded { _ = try versions(of: path) }
            again.isStubborn.withLock { $0 = false }
            try onMain { try await again.autosave() }
            try then(again, path)
            try again.shut()
        }
    }

    private func conflicts(of path: String, part: String) throws -> [String] {
        let root = URL(filePath: path).deletingLastPathComponent().path
        return try versions(of: path).versions.filter { $0.kind == "conflict" }.map { version in
            try text("\(root)/.conflicts/a.rtfd/\(version.fileName.text)/\(part)")
        }
    }

    @Test(
        "a package: changes of others in other files are merged with unsaved ones",
        arguments: [
            "printf theirs > DOC/page.txt", "sed -i s/old/theirs/ DOC/page.txt",
            "fsctl coordinate write --merging DOC -- sed -i s/old/theirs/ DOC/page.txt",
        ], [false, true])
    func mergedPackage(_ script: String, isRecorded: Bool) throws {
        try meanwhileInPackage("mine", script, isRecorded: isRecorded) { note, path in
            try wait(for: "both") { try text("\(path)/page.txt") == "theirs" ? true : nil }
            #expect(try text("\(path)/index.txt") == "mine")
            try wait(for: "no conflict") {
                try conflicts(of: path, part: "page.txt").isEmpty ? true : nil
            }
            try note.wait(for: "their page") {
                $0.pages?.fileWrappers?["page.txt"]?.regularFileContents == Data("theirs".utf8)
                    && $0.text == "mine"
            }
            try note.wait(for: "a green light") { $0.documentState == .normal }
        }
    }

    @Test(
        "a package: what cannot be merged is in conflict, and is what the others have saved",
        arguments: ["printf theirs > DOC/index.txt", "sed -i s/old/theirs/ DOC/index.txt"],
        [false, true])
    func packageInConflict(_ script: String, isRecorded: Bool) throws {
        let other = try Program()
        try meanwhileInPackage("mine", script, isRecorded: isRecorded) { path in
            try other.present("p", "\(path) hears=versions,change")
        } then: { note, path in
            try other.wait("message", "p", "versionGained")
            try note.wait(for: "a yellow light") { $0.documentState == .inConflict }
            #expect(try conflicts(of: path, part: "index.txt") == ["theirs"])
            #expect(try text("\(path)/index.txt") == "mine" && note.shown() == "mine")
            let all = try versions(of: path).versions
            let conflict = try #require(all.first { $0.kind == "conflict" })
            #expect(conflict.program == (script.hasPrefix("sed") ? "sed" : "sh"))
            // A second save does not conflict with the document's own first one.
            try note.type("mine again")
            try onMain { try await note.autosave() }
            #expect(try conflicts(of: path, part: "index.txt") == ["theirs"])
        }
    }

    @Test(
        "a package: equal changes, times and what a program still writes",
        arguments: ["printf mine > DOC/index.txt", "touch DOC/index.txt", "touch DOC"])
    func samePackage(_ script: String) throws {
        try meanwhileInPackage("mine", script) { note, path in
            #expect(try text("\(path)/index.txt") == "mine")
            #expect(try conflicts(of: path, part: "index.txt") == [])
            let errors = try onMain { note.errors.count }
            #expect(errors == 0)
        }
    }

    @Test("a package: what a program has written to a file that it still has open is kept, too")
    func busyPackage() throws {
        var held: FileHandle?
        try meanwhileInPackage("mine", "true") { path in
            held = try FileHandle(forWritingTo: URL(filePath: "\(path)/page.txt"))
            try held?.write(contentsOf: Data("theirs".utf8))
        } then: { note, path in
            try wait(for: "both") { try text("\(path)/page.txt") == "theirs" ? true : nil }
            #expect(try text("\(path)/index.txt") == "mine")
            try held?.close()
            try note.wait(for: "a green light") { $0.documentState == .normal }
            let errors = try onMain { note.errors.count }
            #expect(errors == 0)
        }
    }

    @Test("equal changes are no conflict, and neither is a changed time alone")
    func equal() throws {
        try meanwhile("old", "same") { path in
            try stranger("printf same > \(path)")
        } then: { _, path in
            let found = try conflicts(of: path)
            #expect(found.isEmpty)
        }
        try meanwhile("old", "mine") { path in
            try stranger("touch -d '1 hour ago' \(path)")
        } then: { note, path in
            let found = try conflicts(of: path)
            let kinds = try versions(of: path).versions.map(\.kind)
            #expect(found.isEmpty && kinds == ["history", "current"])
            #expect(try text(path) == "mine" && note.shown() == "mine")
        }
    }

    @Test("a daemon that is killed right after such a save still records the conflict")
    func killed() throws {
        try MountedVolume.with { volume in
            let path = "\(volume.path)/a.txt"
            try Data("old".utf8).write(to: URL(filePath: path))
            try volume.waitForDisk()
            // The draft is written as the library writes it.
            var status = stat()
            _ = stat(path, &status)
            let base = "\(status.st_size) \(status.st_mtim.tv_sec) \(status.st_mtim.tv_nsec)"
            try Command("sh", "-c", "printf theirs > \(path)").succeed()
            let draft = "\(volume.path)/.#draft.txt"
            try Data("mine".utf8).write(to: URL(filePath: draft))
            FilePath(draft).setAttribute("user.concord.base", Array(base.utf8))
            #expect(rename(draft, path) == 0)
            try volume.kill9()
            try volume.mount()
            try wait(for: "the conflict") { try conflicts(of: path) == ["theirs"] ? true : nil }
            #expect(try text(path) == "mine")
            // The document itself does not keep the attribute.
            FilePath(path).setAttribute("user.concord.base", Array(base.utf8))
            #expect(FilePath("\(volume.tree)/a.txt").attribute("user.concord.base") == nil)
        }
    }

    @Test("a save on another device is treated like a local one")
    func devices() throws {
        try Fleet.with(2) { fleet in
            try fleet.put(0, "a.txt", Self.lines)
            try fleet.put(0, "b.txt", "old")
            try fleet.expectEqual()
            let paths = ["a.txt", "b.txt"].map { "\(fleet.devices[1].path)/\($0)" }
            let notes = try paths.map(Note.opened)
            for note in notes { note.isStubborn.withLock { $0 = true } }
            try notes[0].type("ONE" + Self.lines.dropFirst(3))
            try notes[1].type("mine")
            try fleet.put(0, "a.txt", Self.lines.replacing("five", with: "5"))
            try fleet.put(0, "b.txt", "theirs")
            try fleet.settle([0])
            try wait(for: "their saves") {
                fleet.text(1, "a.txt")?.contains("5\n") == true
                    && fleet.text(1, "b.txt") == "theirs" ? true : nil
            }
            for note in notes {
                note.isStubborn.withLock { $0 = false }
                try onMain { try await note.autosave() }
            }
            let merged = "ONE" + Self.lines.dropFirst(3).replacing("five", with: "5")
            try notes[0].wait(for: "both") { $0.text == merged }
            try notes[1].wait(for: "a yellow light") { $0.documentState == .inConflict }
            for note in notes { try note.shut() }
            try fleet.settle()
            for index in 0..<2 {
                #expect(
                    fleet.text(index, "a.txt") == merged && fleet.text(index, "b.txt") == "mine")
                #expect(try fleet.conflicts(index, "a.txt").isEmpty)
                #expect(try fleet.conflicts(index, "b.txt") == ["theirs"])
            }
        }
    }
}
