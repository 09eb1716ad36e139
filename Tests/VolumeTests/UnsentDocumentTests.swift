import Model
import Testing

@testable import Journal
@testable import Volume

/// Other devices wait until the hub has a save, so what is not known counts as unsent.
@Suite("Whether the hub has a document") struct UnsentDocumentTests {
    private let program = Program(process: 10, name: "vim")

    @Test("a removed document is sent when its removal is, and an error tells nothing")
    func removed() throws {
        let tree = try ProgramTree()
        try tree.volume.journal.write { try $0.startChangeTracking() }
        try tree.save("a", "text", by: program)
        // A tree with nothing left in it would be no deletion.
        try tree.save("rest", "text", by: program)
        #expect(tree.quiet())
        let item = try #require(try tree.item("a"))
        let documents = tree.volume.openDocuments
        #expect(documents.isUnsent(item.id))
        try tree.unlink("a", by: program)
        #expect(tree.quiet())
        try tree.volume.journal.write { try $0.addUnsent(item.key) }
        #expect(documents.isUnsent(item.id))
        try tree.volume.journal.write { t in
            try t.removeUnsent(item.key)
            try t.append(OutboxRow(number: 1, item: item.id, operation: [1]))
        }
        #expect(documents.isUnsent(item.id))
        try tree.volume.journal.write { try $0.run("DELETE FROM outbox", []) }
        #expect(!documents.isUnsent(item.id) && !documents.isUnsent(.random()))
        try tree.volume.journal.write { try $0.run("ALTER TABLE outbox RENAME TO away", []) }
        #expect(documents.isUnsent(item.id))
        try tree.volume.journal.write { try $0.run("ALTER TABLE away RENAME TO outbox", []) }
        tree.stop()
    }
}
