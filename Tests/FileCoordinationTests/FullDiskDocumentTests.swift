import FileCoordination
import Foundation
import Glibc
import Support
import Testing

/// A document on a volume whose disk is full.
@Suite(
    "Documents on a full volume", .serialized,
    .enabled(if: geteuid() == 0, "mounting a small disk takes root"))
struct FullDiskDocumentTests {
    @Test("A18.15: on a full disk it is red, keeps the text and stays open; with room it is green")
    func fullDisk() throws {
        let disk = try SmallDisk("40m")
        try MountedVolume.with(store: "\(disk.path)/store") { volume in
            let path = "\(volume.path)/a.txt"
            let note = try Note.created(path, "kept")
            try volume.waitForDisk()
            let filler = "head -c 100000000 /dev/zero > '\(disk.path)/filler' || true"
            try Command("/bin/bash", "-c", filler).succeed()
            let typed = String(repeating: "typed ", count: 100_000)
            try onMain {
                note.delay = .milliseconds(20)
                note.text = typed
            }
            try note.wait(for: "red") { $0.documentState == .savingError && $0.errors.count > 1 }
            try onMain {
                let error = note.errors.first as? CocoaError
                #expect(error?.code == .fileWriteOutOfSpace, "\(note.errors)")
                // The user goes on typing and cannot close the document, because that would lose
                // the text.
                note.text += "and more"
                await #expect(throws: CocoaError.self) { try await note.close() }
                #expect(!note.documentState.contains(.closed) && note.hasUnsavedChanges)
            }
            #expect(try text(path) == "kept")
            try disk.grow(to: "400m")
            try note.wait(for: "green") { $0.documentState == .normal && !$0.hasUnsavedChanges }
            #expect(try text(path) == typed + "and more")
            try note.shut()
            try volume.waitForDisk()
            #expect(try versions(of: path).versions.count == 2, "what failed is no version")
            #expect(try deleted(in: volume.path) == [])
        }
    }
}
