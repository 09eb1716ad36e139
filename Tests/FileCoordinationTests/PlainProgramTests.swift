import Control
import Foundation
import Glibc
import Support
import Synchronization
import Testing

@testable import FileCoordination

/// Programs that do not coordinate, and a document with unsaved changes.
@Suite("Plain programs and open documents") struct PlainProgramTests {
    private func withUnsaved(
        _ path: String = "a.txt", _ body: (Note, String, String) throws -> Void
    ) throws {
        try withTurns([path]) { root in
            let note = try Note.opened("\(root)/\(path)")
            try note.type("unsaved")
            try body(note, root, "\(root)/\(path)")
            try note.shut()
        }
    }

    @Test(
        "the first attempt copies unsaved changes",
        arguments: [
            "cp PATH COPY", "cp -a PATH COPY", "install PATH COPY",
            "cp -p --sparse=never PATH COPY", "dd if=PATH of=COPY status=none",
            "tar -cf - -C ROOT a.txt | tar -xOf - > COPY",
        ])
    func copied(_ script: String) throws {
        let home = try TemporaryDirectory("copies")
        try withUnsaved { note, root, path in
            for round in 0..<3 {
                let copy = "\(home.path)/copy\(round)"
                try note.type("unsaved \(round)")
                try stranger(
                    script.replacing("PATH", with: path).replacing("COPY", with: copy)
                        .replacing("ROOT", with: root))
                let found = try text(copy)
                #expect(found == "unsaved \(round)")
            }
        }
    }

    @Test("a file keeps its inode number while a document saves it, and no other file gets it")
    func numbers() throws {
        try withUnsaved { note, root, path in
            let number = try FileStatus(of: path).inode
            for round in 0..<3 {
                try note.type("unsaved \(round)")
                try onMain { try await note.autosave() }
                _ = try versions(of: path)
                try stranger("for i in 1 2 3 4 5 6 7 8 9; do echo $i > \(root)/new\(round)$i; done")
                #expect(try FileStatus(of: path).inode == number)
            }
            let all = try Command("sh", "-c", "stat -c %i \(root)/* | sort | uniq -d").succeed()
            #expect(all == "")
            // A file that a program renames there by hand has its own number.
            try stranger("cp \(path) \(root)/other; mv \(root)/other \(path)")
            #expect(try FileStatus(of: path).inode != number)
        }
    }

    @Test("mv to another disk moves unsaved changes, too")
    func movedAway() throws {
        let home = try TemporaryDirectory("elsewhere")
        try withUnsaved { note, _, path in
            try stranger("mv \(path) \(home.path)/a.txt")
            #expect(try text("\(home.path)/a.txt") == "unsaved")
            try note.wait(for: "the end") { $0.documentState == .closed }
            #expect(!FileManager.default.fileExists(atPath: path))
        }
    }

    @Test(
        "a removed file is gone, its document closes, and the unsaved text is a version",
        arguments: ["rm PATH", "rm -r DIR", "rm PATH; echo new > PATH", "rm -r DIR; mkdir DIR"])
    func removed(_ script: String) throws {
        try withUnsaved("d/a.txt") { note, root, path in
            let attribute = FilePath(path).attribute("user.concord.id") ?? []
            let id = String(decoding: attribute, as: UTF8.self)
            try stranger(
                script.replacing("PATH", with: path).replacing("DIR", with: "\(root)/d"))
            try note.wait(for: "the end") { $0.documentState == .closed }
            #expect(note.said.allSatisfy { !$0.contains("error") })
            try onMain { #expect(note.errors.isEmpty && !note.hasUnsavedChanges) }
            let left = try Command("find", root, "-type", "f").succeed()
            #expect(left == (script.contains("echo") ? "\(path)\n" : ""))
            if script.contains("echo") { #expect(try text(path) == "new\n") }
            #expect(try contents(ofDocument: id, in: root).contains("unsaved"))
        }
    }

    @Test("a removal that another program's claim keeps from being announced closes the document")
    func notAnnounced() throws {
        try withUnsaved { note, root, path in
            let reader = try Beside("coordinate", "read", path, "--", "sh", "-c", "echo now; cat")
            try reader.wait(for: "now")
            let attribute = FilePath(path).attribute("user.concord.id") ?? []
            try stranger("rm \(path)")
            try note.wait(for: "the end") { $0.documentState == .closed }
            let id = String(decoding: attribute, as: UTF8.self)
            #expect(try contents(ofDocument: id, in: root).contains("unsaved"))
        }
    }

    @Test("a removal that is announced for a file and for its directory closes the document")
    func announcedTwice() throws {
        try withUnsaved { note, _, path in
            try onMain {
                note.file.deletionBegins()
                try #require(DocumentDeletion(note).begin())
            }
            try stranger("rm \(path)")
            try note.wait(for: "the end") { $0.documentState == .closed }
        }
    }

    /// As `rm -r` does while a document looks where it was.
    @Test("the volume of a path is found while its directory is made and removed")
    func vanishingDirectory() throws {
        let home = try TemporaryDirectory("vanishing")
        let directory = "\(home.path)/d"
        let isOver = Mutex(false)
        let remover = DispatchGroup()
        DispatchQueue.global().async(group: remover) {
            while !isOver.withLock({ $0 }) {
                mkdir(directory, 0o755)
                rmdir(directory)
            }
        }
        defer {
            isOver.withLock { $0 = true }
            remover.wait()
        }
        for _ in 0..<5_000 {
            #expect(try MountedPath.nearest(FilePath("\(directory)/a.txt")) == nil)
        }
    }

    private func contents(ofDocument id: String, in root: String) throws -> [String] {
        let client = try ControlClient(socket: MountedPath(FilePath(root)).socket)
        var request = Request(.versions)
        request.document = id
        return try client.ask(request, as: HistoryReport.self).versions.map { version in
            var piece = Request(.extract)
            (piece.document, piece.number) = (id, version.number)
            let report = try client.ask(piece, as: PieceReport.self)
            return String(decoding: Data(base64Encoded: report.data) ?? Data(), as: UTF8.self)
        }
    }
}
