import Foundation
import Glibc
import Support
import Testing

@testable import FileCoordination

/// Replacing a file by a version (Rows.md, B3.13 to B3.15).
@Suite("Replacing items by versions") struct ReplacingTests {
    /// Saves a file twice, so that the first version is in the history.
    private func saved(_ root: String, _ name: String) throws -> (URL, FileVersion) {
        let url = URL(filePath: "\(root)/\(name)")
        try Data("one".utf8).write(to: url)
        try Programs.fsctl("wait", url.path).succeed()
        try stranger("printf two > '\(url.path)'")
        try Programs.fsctl("wait", url.path).succeed()
        let old = try FileVersion.otherVersionsOfItem(at: url)?.first
        return (url, try #require(old))
    }

    @Test("B3.13: a file keeps its name, item and permissions, and its old contents are history")
    func existing() throws {
        try withTurns([]) { root in
            let (url, old) = try saved(root, "a.txt")
            #expect(chmod(url.path, 0o640) == 0)
            let item = try versions(of: url.path).id
            let result = try FileCoordinator().coordinate(writingItemAt: url) {
                try old.replaceItem(at: $0)
            }
            #expect(result == url)
            #expect(try text(url.path) == "one")
            var status = stat()
            #expect(stat(url.path, &status) == 0 && status.st_mode & 0o7777 == 0o640)
            let after = try versions(of: url.path)
            #expect(after.id == item, "the same item")
            let kinds = after.versions.map(\.kind)
            #expect(kinds == ["history", "history", "current"], "the version stays")
            let others = try FileVersion.otherVersionsOfItem(at: url) ?? []
            #expect(
                try others.compactMap { try $0.url.map { try text($0.path) } }
                    == ["one", "two"])
            #expect(try deleted(in: root) == [])
        }
    }

    @Test("B3.13: without a file a new, writable one is made")
    func missing() throws {
        try withTurns([]) { root in
            let (url, old) = try saved(root, "a.txt")
            let beside = URL(filePath: "\(root)/b.dat")
            #expect(try old.replaceItem(at: beside) == beside)
            #expect(try text(beside.path) == "one" && text(url.path) == "two")
            var status = stat()
            #expect(stat(beside.path, &status) == 0 && status.st_mode & 0o200 != 0)
            #expect(try versions(of: url.path).id != versions(of: beside.path).id)
        }
    }

    @Test("B3.13: a version of another type changes the extension, unless that name is taken")
    func otherType() throws {
        try withTurns([]) { root in
            let (url, old) = try saved(root, "a.txt")
            let item = try versions(of: url.path).id
            try stranger("mv '\(root)/a.txt' '\(root)/b.md'; printf x > '\(root)/b.txt'")
            let moved = URL(filePath: "\(root)/b.md")
            try Programs.fsctl("wait", moved.path).succeed()
            let version = try #require(
                try FileVersion.version(
                    ofItemAt: moved, forPersistentIdentifier: old.persistentIdentifier))
            #expect(throws: CocoaError.self) { try version.replaceItem(at: moved) }
            #expect(try text(moved.path) == "two" && text("\(root)/b.txt") == "x")
            #expect(unlink("\(root)/b.txt") == 0)
            let result = try version.replaceItem(at: moved)
            #expect(result.lastPathComponent == "b.txt")
            #expect(try text(result.path) == "one")
            #expect(try versions(of: result.path).id == item, "the same item")
            #expect(!FileManager.default.fileExists(atPath: moved.path))
        }
    }

    @Test("B3.14: byMoving removes the version; replacing by a removed one throws")
    func moving() throws {
        try withTurns([]) { root in
            let (url, old) = try saved(root, "a.txt")
            try old.replaceItem(at: URL(filePath: "\(root)/b.txt"), options: .byMoving)
            #expect(try versions(of: url.path).versions.map(\.kind) == ["current"])
            let gone = FileVersion(itemURL: url, persistentIdentifier: old.persistentIdentifier)
            let failure = #expect(throws: FileCoordinationError.self) {
                try gone.replaceItem(at: url)
            }
            #expect(failure?.code == .unavailable)
        }
    }

    @Test("a package is restored with everything in it")
    func package() throws {
        try withTurns(["p.rtfd/text"]) { root in
            let url = URL(filePath: "\(root)/p.rtfd")
            try Programs.fsctl("wait", url.path).succeed()
            try stranger("cd '\(url.path)'; rm text; mkdir new; printf x > new/y")
            try Programs.fsctl("wait", url.path).succeed()
            let old = try #require(try FileVersion.otherVersionsOfItem(at: url)?.first)
            try FileCoordinator().coordinate(writingItemAt: url) { _ = try old.replaceItem(at: $0) }
            #expect(try FileManager.default.contentsOfDirectory(atPath: url.path) == ["text"])
            #expect(try text("\(url.path)/text") == "old")
            #expect(try text("\(url.path)/text") == "old")
            try Data("new".utf8).write(to: url.appending(path: "text"))
        }
    }

    @Test("B3.6: contents that were never saved are added, and the current ones stay")
    func adding() throws {
        try withTurns([]) { root in
            let (url, _) = try saved(root, "a.txt")
            let item = try versions(of: url.path).id
            let other = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
            try Data("three".utf8).write(to: other)
            defer { try? FileManager.default.removeItem(at: other) }
            let added = try FileCoordinator().coordinate(writingItemAt: url) {
                try FileVersion.addVersionOfItem(at: $0, withContentsOf: other)
            }
            #expect(try text(url.path) == "two" && text(other.path) == "three")
            #expect(try text(try #require(added.url).path) == "three")
            #expect(!added.isConflict && added.hasLocalContents && added.localizedName == "a.txt")
            let after = try versions(of: url.path)
            #expect(after.id == item)
            #expect(after.versions.map(\.kind) == ["history", "current", "history"])
            #expect(try FileVersion.otherVersionsOfItem(at: url)?.last == added)
            // The next save has the current contents as its base, and the added version stays.
            try stranger("printf four > '\(url.path)'")
            try Programs.fsctl("wait", url.path).succeed()
            let last = try #require(try versions(of: url.path).versions.last)
            #expect(last.kind == "current" && last.parents == [after.versions[1].id])
            try added.replaceItem(at: url, options: .byMoving)
            #expect(try text(url.path) == "three")
            // No draft is left, and no deleted document has its name.
            #expect(try FileManager.default.contentsOfDirectory(atPath: root) == ["a.txt"])
            #expect(try deleted(in: root) == [])
            try Programs.fsctl("doctor", root).succeed()
        }
    }

    @Test("B3.6: byMoving removes the file; a package is added whole; kinds are not mixed")
    func addingPackages() throws {
        try withTurns(["p.rtfd/text"]) { root in
            let url = URL(filePath: "\(root)/p.rtfd")
            try Programs.fsctl("wait", url.path).succeed()
            let base = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
            defer { try? FileManager.default.removeItem(at: base) }
            let other = base.appending(path: "q.rtfd")
            try FileManager.default.createDirectory(
                at: other.appending(path: "inner"), withIntermediateDirectories: true)
            try Data("deep".utf8).write(to: other.appending(path: "inner/text"))
            let failure = #expect(throws: FileCoordinationError.self) {
                try FileVersion.addVersionOfItem(
                    at: url, withContentsOf: other.appending(path: "inner/text"))
            }
            #expect(failure?.code == .invalid)
            let added = try FileVersion.addVersionOfItem(
                at: url, withContentsOf: other, options: .byMoving)
            #expect(!FileManager.default.fileExists(atPath: other.path))
            #expect(try text("\(url.path)/text") == "old")
            let shown = try #require(added.url)
            #expect(try text(shown.appending(path: "inner/text").path) == "deep")
            try added.replaceItem(at: url)
            #expect(try text("\(url.path)/inner/text") == "deep")
            let nowhere = #expect(throws: FileCoordinationError.self) {
                try FileVersion.addVersionOfItem(
                    at: base.appending(path: "none"), withContentsOf: url)
            }
            #expect(nowhere?.code == .unavailable)
        }
    }
}
