import Control
import Foundation
import Support
import Testing

@testable import FileCoordination

/// Programs that know nothing of turns, with a document in which something is unsaved.
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
        "the first attempt copies what is unsaved",
        arguments: [
            "cp PATH COPY", "cp -a PATH COPY", "install PATH COPY", "cp -p --sparse=never PATH COPY",
            "dd if=PATH of=COPY status=none", "tar -cf - -C ROOT a.txt | tar -xOf - > COPY",
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
                #expect(try text(copy) == "unsaved \(round)")
            }
        }
    }

    @Test("a file keeps its number while a document saves it, and no other file gets that")
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
            // Who puts another file there by hand shows that file's.
            try stranger("cp \(path) \(root)/other; mv \(root)/other \(path)")
            #expect(try FileStatus(of: path).inode != number)
        }
    }
}
