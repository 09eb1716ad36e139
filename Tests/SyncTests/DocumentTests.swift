import FileCoordination
import Foundation
import Support
import Synchronization
import Testing

/// Open documents on two devices (Rows.md, A22, and the states that need two devices).
@Suite("Documents on two devices", .serialized) struct DocumentTests {
    @Test("A22.2: changes of the other device appear, and nothing is unsaved")
    func content() throws {
        try Fleet.with(2) { fleet in
            try fleet.put(0, "a.txt", "old")
            try fleet.settle()
            let notes = try (0..<2).map { try Note.opened(fleet, $0, "a.txt") }
            for round in 0..<4 {
                let (writer, listener) = (notes[round % 2], notes[1 - round % 2])
                try onMain {
                    writer.text = "round \(round)"
                    try await writer.autosave()
                }
                try listener.wait(for: "round \(round)") {
                    $0.text == "round \(round)" && $0.documentState == .normal
                }
                try onMain { #expect(!listener.hasUnsavedChanges) }
            }
            for note in notes { try note.shut() }
            try fleet.expectEqual()
            #expect(try fleet.conflicts(0, "a.txt") == [])
        }
    }

    @Test("B3.6: a version that was added stays on its device, and nothing waits for it")
    func addedVersion() throws {
        try Fleet.with(2) { fleet in
            try fleet.put(0, "a.txt", "old")
            try fleet.put(0, "other", "kept aside")
            try fleet.settle()
            let root = URL(filePath: fleet.devices[0].path)
            let added = try FileVersion.addVersionOfItem(
                at: root.appending(path: "a.txt"),
                withContentsOf: root.appending(path: "other"))
            try fleet.put(0, "a.txt", "new")
            try fleet.expectEqual()
            let there = URL(filePath: fleet.devices[1].path + "/a.txt")
            #expect(fleet.text(1, "a.txt") == "new")
            #expect(
                try FileVersion.version(
                    ofItemAt: there, forPersistentIdentifier: added.persistentIdentifier) == nil)
            #expect(try text(added) == "kept aside")
            try Programs.fsctl("evict", "\(root.path)/a.txt").succeed()
            #expect(try text(added) == "kept aside")
            try fleet.expectSound()
        }
    }

    @Test("A22.3: the open document follows a move on the other device")
    func name() throws {
        try Fleet.with(2) { fleet in
            try fleet.put(0, "a.txt", "old")
            try fleet.settle()
            let note = try Note.opened(fleet, 1, "a.txt")
            try fleet.shell(0, "mkdir d; mv a.txt d/b.txt")
            let path = "\(fleet.devices[1].path)/d/b.txt"
            try note.wait(for: "the new name") { $0.fileURL.path == path }
            try onMain { note.text = "typed there" }
            try note.shut()
            try fleet.expectEqual()
            #expect(fleet.text(0, "d/b.txt") == "typed there")
        }
    }

    @Test("A22.4: a deletion on the other device closes the document and keeps unsaved changes")
    func deletion() throws {
        try Fleet.with(2) { fleet in
            try fleet.put(0, "a.txt", "old")
            try fleet.put(0, "b.txt", "old")
            try fleet.settle()
            let notes = try ["a.txt", "b.txt"].map { try Note.opened(fleet, 1, $0) }
            try onMain { notes[1].text = "last words" }
            try fleet.shell(0, "rm a.txt b.txt")
            for note in notes { try note.wait(for: "the end") { $0.documentState == .closed } }
            try fleet.expectEqual()
            let root = fleet.devices[1].path
            #expect(try reachableContents(in: root).contains(Data("last words".utf8)))
        }
    }

    /// Opens "a.txt" on both devices and edits it on both at the same time; the second edit wins.
    private func notesInConflict(_ fleet: Fleet) throws -> [Note] {
        try fleet.put(0, "a.txt", "old")
        try fleet.settle()
        let notes = try (0..<2).map { try Note.opened(fleet, $0, "a.txt") }
        for index in 0..<2 { try fleet.offline(index) }
        for (index, note) in notes.enumerated() {
            try onMain {
                note.text = "by \(index)"
                try await note.autosave()
            }
            try fleet.devices[index].waitForDisk()
        }
        for index in 0..<2 { try fleet.online(index) }
        for note in notes {
            try note.wait(for: "the conflict") {
                $0.documentState == .inConflict && $0.text == "by 1"
            }
        }
        try fleet.settle()
        return notes
    }

    private func text(_ version: FileVersion) throws -> String {
        try String(contentsOf: #require(version.url), encoding: .utf8)
    }

    @Test("A19.6: the versions of an open document, and the devices of its conflict versions")
    func versions() throws {
        try Fleet.with(2) { fleet in
            let notes = try notesInConflict(fleet)
            for note in notes {
                let coordinator = FileCoordinator(filePresenter: note)
                let (current, others) = try coordinator.coordinate(readingItemAt: note.fileURL) {
                    (
                        try FileVersion.currentVersionOfItem(at: $0),
                        try FileVersion.otherVersionsOfItem(at: $0) ?? []
                    )
                }
                #expect(current?.localizedNameOfSavingComputer == "dev1")
                let rivals = others.filter(\.isConflict)
                #expect(rivals.map(\.localizedNameOfSavingComputer) == ["dev0"])
                #expect(rivals.map(\.localizedName) == ["a.txt"])
                #expect(rivals.allSatisfy { $0.originatorName?.isEmpty == false })
                #expect(try rivals.map(text) == ["by 0"])
                let (mine, theirs) = (current?.modificationDate, rivals.first?.modificationDate)
                #expect(try #require(mine) > #require(theirs))
                // The common ancestor is there, too.
                let earlier = others.filter { !$0.isConflict }
                #expect(earlier.map(\.localizedNameOfSavingComputer) == ["dev0"])
                #expect(try earlier.map(text) == ["old"])
            }
            // The user restores an old version.
            let url = notes[0].fileURL
            let rival = try #require(
                try FileVersion.unresolvedConflictVersionsOfItem(at: url)?.first?.url)
            try onMain {
                try await notes[0].revert(toContentsOf: rival)
                try await notes[0].autosave()
            }
            try notes[1].wait(for: "what was taken back") { $0.text == "by 0" }
            for note in notes { try note.shut() }
        }
    }

    @Test("A18.14: in conflict when both have edited, until it is settled; it may be edited")
    func conflict() throws {
        try Fleet.with(2) { fleet in
            let notes = try notesInConflict(fleet)
            try onMain {
                notes[0].text = "edited in conflict"
                try await notes[0].autosave()
                #expect(notes[0].documentState == .inConflict)
            }
            try notes[1].wait(for: "the edit") {
                $0.text == "edited in conflict" && $0.documentState == .inConflict
            }
            for note in notes { try note.shut() }
            // The document is in conflict when it is opened again.
            for index in 0..<2 {
                let again = try Note.opened(fleet, index, "a.txt")
                try onMain { #expect(again.documentState == .inConflict) }
                try again.shut()
            }
            // A conflict that is settled on one device is settled on both.
            let last = try (0..<2).map { try Note.opened(fleet, $0, "a.txt") }
            let url = URL(filePath: "\(fleet.devices[1].path)/a.txt")
            try FileCoordinator().coordinate(writingItemAt: url) { url in
                for version in try FileVersion.unresolvedConflictVersionsOfItem(at: url) ?? [] {
                    try version.setResolved(true)
                }
            }
            for note in last {
                try note.wait(for: "the end of the conflict") { $0.documentState == .normal }
                try note.shut()
            }
        }
    }

    @Test("A17.5: signing out saves and closes what is open; the documents stay here")
    func signingOut() throws {
        try Fleet.with(2) { fleet in
            try fleet.put(0, "a.txt", "old")
            try fleet.settle()
            let note = try Note.opened(fleet, 1, "a.txt")
            try onMain { note.text = "typed" }
            try Programs.fsctl("signout", "--at", fleet.devices[1].path).succeed()
            try note.wait(for: "the end") { $0.documentState == .closed }
            // The last edit was sent before the document was closed.
            try wait(seconds: 30, for: "what was typed") {
                fleet.text(0, "a.txt") == "typed" ? true : nil
            }
            let again = try Note.opened(fleet, 1, "a.txt")
            try onMain { #expect(again.text == "typed" && again.documentState == .normal) }
            try again.shut()
        }
    }

    @Test("A20.1, A22.6: a changed text is sent without its picture, as the counters show")
    func parts() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(
                0,
                """
                mkdir a.rtfd; printf old > a.rtfd/TXT.rtf
                head -c 3000000 /dev/urandom > a.rtfd/picture.png
                """)
            try fleet.expectEqual()
            let before = try fleet.devices.map { try #require(try fleet.report($0).hub) }
            let path = "\(fleet.devices[0].path)/a.rtfd"
            try onMain {
                let letter = Letter(fileURL: URL(filePath: path))
                try await letter.open()
                letter.text = "new"
                try await letter.save(to: letter.fileURL, for: .overwriting)
                try await letter.close()
            }
            try fleet.expectEqual()
            #expect(fleet.text(1, "a.rtfd/TXT.rtf") == "new")
            let after = try fleet.devices.map { try #require(try fleet.report($0).hub) }
            let sent = after[0].bytesUp - before[0].bytesUp
            let received = after[1].bytesDown - before[1].bytesDown
            #expect((1..<100_000).contains(sent) && (1..<100_000).contains(received))
        }
    }

    @Test("progressAvailable: while its contents are downloaded")
    func downloading() throws {
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "head -c 9000000 /dev/zero | tr '\\0' x > a.txt")
            try fleet.settle()
            let path = "\(fleet.devices[1].path)/a.txt"
            try Programs.fsctl("evict", path).succeed()
            let states = Mutex<[Document.State]>([])
            let note = try onMain {
                let note = Note(fileURL: URL(filePath: path))
                let stream = note.states
                let listening = Task {
                    for await state in stream {
                        states.withLock { $0.append(state) }
                        if state.contains(.progressAvailable) { #expect(note.progress != nil) }
                        if state == .normal { break }
                    }
                }
                try await note.open()
                await listening.value
                return note
            }
            #expect(states.withLock { $0 }.contains([.closed, .progressAvailable]))
            try onMain { #expect(note.text.utf8.count == 9_000_000 && note.progress == nil) }
            try note.shut()
        }
    }
}

/// A document with a text and pictures.
private final class Letter: Document {
    var text = ""
    private var package = FileWrapper(directoryWithFileWrappers: [:])

    override func load(fromContents contents: any Sendable, ofType type: String) throws {
        package = contents as? FileWrapper ?? package
    }

    override func contents(forType type: String) throws -> any Sendable {
        let snapshot = FileWrapper(directoryWithFileWrappers: package.fileWrappers ?? [:])
        if let old = snapshot.fileWrappers?["TXT.rtf"] { snapshot.removeFileWrapper(old) }
        snapshot.addRegularFile(withContents: Data(text.utf8), preferredFilename: "TXT.rtf")
        return snapshot
    }
}

/// A text document that saves only on request.
private final class Note: Document {
    var text = "" { didSet { updateChangeCount(.done) } }
    override var autosaveDelay: Duration { .seconds(3600) }

    override func load(fromContents contents: any Sendable, ofType type: String) throws {
        text = String(decoding: contents as? Data ?? Data(), as: UTF8.self)
    }

    override func contents(forType type: String) throws -> any Sendable { Data(text.utf8) }

    nonisolated static func opened(_ fleet: Fleet, _ index: Int, _ name: String) throws -> Note {
        let path = "\(fleet.devices[index].path)/\(name)"
        return try onMain {
            let note = Note(fileURL: URL(filePath: path))
            try await note.open()
            return note
        }
    }

    nonisolated func shut() throws { try onMain { try await self.close() } }

    nonisolated func wait(
        for what: String, _ condition: @escaping @MainActor @Sendable (Note) -> Bool
    ) throws {
        try Support.wait(seconds: 30, for: what) { try onMain { condition(self) } ? true : nil }
    }
}
