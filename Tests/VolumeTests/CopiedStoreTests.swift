import Foundation
import Support
import Testing

@testable import Volume

/// The tests do the recorder's steps, so that programs come before the first scan.
@Suite struct CopiedStoreTests {
    private let program = Program(process: 10, name: "vim")

    /// A store with a document that has two versions, and that was copied since.
    private func withCopy(_ body: (ProgramTree) throws -> Void) throws {
        let tree = try ProgramTree(isStepwise: true)
        _ = tree.volume.recorder.begin([])
        for directory in ["d", "d/e"] { try tree.mkdir(directory, by: program) }
        for text in ["1", "2"] {
            try tree.save("d/e/a", text, by: program)
            tree.settle()
        }
        try tree.crash(copied: true)
        try body(tree)
        tree.volume.recorder.abandon()
    }

    /// Events are processed after the scan. If the daemon is killed before, the next one processes
    /// them first, and they name directories by their new inode numbers.
    @Test(arguments: [false, true])
    func aDocumentThatIsRenamedDuringTheScanStaysTheSameOne(_ isKilled: Bool) throws {
        try withCopy { tree in
            _ = tree.volume.recorder.begin(tree.volume.logged)
            try tree.rename("d/e/a", "d/b", by: program)
            if isKilled {
                try tree.crash()
                _ = tree.volume.recorder.begin(tree.volume.logged)
            }
            tree.settle()
            let found = try texts(tree, "d/b")
            #expect(found == ["1", "2"])
        }
    }

    /// A scan may see a rename before its event is noted.
    @Test func aDocumentWhoseRenameIsNotNotedStaysTheSameOne() throws {
        try withCopy { tree in
            _ = tree.volume.recorder.begin(tree.volume.logged)
            let (old, new) = (tree.real("d/e/a"), tree.real("d/b"))
            #expect(rename(old, new) == 0)
            tree.settle()
            let found = try texts(tree, "d/b")
            #expect(found == ["1", "2"])
        }
    }

    /// Nothing tells where the document is now, so it counts as deleted. Its bytes are found in the
    /// other document, also by a daemon that begins after the deletion was noted.
    @Test(arguments: [false, true])
    func aDeletedDocumentKeepsWhatIsInAnother(_ isKilled: Bool) throws {
        try withCopy { tree in
            let (old, new) = (tree.real("d/e/a"), tree.real("d/b"))
            #expect(rename(old, new) == 0)
            let recorder = { tree.volume.recorder }
            let key = try #require(try tree.item("d/e/a")).key
            _ = recorder().begin(tree.volume.logged)
            if isKilled {
                while recorder().scanner.step() || recorder().settleMissing() {}
                try tree.crash()
                _ = recorder().begin(tree.volume.logged)
            }
            tree.settle()
            let deleted = try tree.volume.journal.read { try $0.item(key)?.deleted }
            #expect(deleted != nil)
            let (found, now) = (try texts(tree, key), try texts(tree, "d/b"))
            #expect(found == ["1", "2"] && now == ["2"])
        }
    }

    private func texts(_ tree: ProgramTree, _ path: String) throws -> [String] {
        try texts(tree, try #require(try tree.item(path)).key)
    }

    private func texts(_ tree: ProgramTree, _ key: Int64) throws -> [String] {
        let versions = try tree.volume.journal.read { try $0.versions(of: key) }
        return try versions.map { String(decoding: try tree.bytes(of: $0), as: UTF8.self) }
    }

    /// The inode numbers are forgotten then, so nothing else shows that they mean nothing.
    @Test func aCopyIsKnownUntilEverythingWasFoundAgain() throws {
        try withCopy { tree in
            let recorder = { tree.volume.recorder }
            _ = recorder().begin(tree.volume.logged)
            #expect(recorder().state.isCopy)
            for isSettled in [false, true] {
                try tree.crash()
                _ = recorder().begin(tree.volume.logged)
                #expect(recorder().state.isCopy)
                if isSettled { tree.settle() }
                recorder().processor.copiedStore.forgetWhenSettled()
            }
            try tree.crash()
            _ = recorder().begin(tree.volume.logged)
            #expect(!recorder().state.isCopy)
        }
    }
}
