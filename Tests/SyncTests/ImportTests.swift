import Control
import Foundation
import Support
import Testing

/// `concord import` on folders as Syncthing, Dropbox and Nextcloud leave them.
@Suite("Import") struct ImportTests {
    /// A directory outside of the volume, which a shell script has filled.
    private func folder(_ script: String) throws -> TemporaryDirectory {
        let folder = try TemporaryDirectory("folder")
        var command = Command(
            "/bin/bash", "-ec",
            """
            save() { mkdir -p "$(dirname "$1")"; printf %s "$2" > "$1"; touch -d "$3" "$1"; }
            \(script)
            """)
        command.directory = folder.path
        try command.succeed()
        return folder
    }

    private func run(
        _ folder: TemporaryDirectory, _ fleet: Fleet, as name: String = "taken"
    ) throws -> (status: Int32, output: String, errors: String) {
        let result = try Command(
            Programs.path("concord"), "import", folder.path, "\(fleet.devices[0].path)/\(name)"
        ).run()
        return (result.status, result.output, result.errors)
    }

    /// The texts of a document's versions and what kind each is.
    private func texts(
        _ fleet: Fleet, _ name: String, in directory: String
    ) throws -> [String: String] {
        var texts: [String: String] = [:]
        for version in try fleet.history(0, "\(directory)/\(name)").versions {
            let file = "\(directory)/.versions/\(name)/\(version.fileName.text)"
            texts[try #require(fleet.text(0, file))] = version.kind
        }
        return texts
    }

    @Test("Syncthing's conflicts and .stversions become conflicts, versions and deleted documents")
    func syncthing() throws {
        let folder = try folder(
            """
            mkdir .stfolder; save .stfolder/marker x 2024-01-01
            save .stignore '*.iso' 2024-01-01
            save sub/plan.txt now 2024-03-03T10:00
            save sub/plan.sync-conflict-20240302-101112-ABCDEFG.txt theirs 2024-03-02T10:00
            save .stversions/sub/plan~20240301-080000.txt first 2024-02-01T10:00
            save .stversions/sub/plan~20240302-080000.txt second 2024-03-01T10:00
            save .stversions/sub/gone~20240110-080000.txt 'gone, old' 2024-01-09T10:00
            save .stversions/sub/gone~20240111-080000.txt 'gone, new' 2024-01-10T10:00
            save .stversions/away/deep/trash.txt 'in no directory any more' 2024-01-10T10:00
            save orphan.sync-conflict-20240302-101112-ABCDEFG.txt alone 2024-03-02T10:00
            save '.syncthing.sub.tmp' half 2024-03-02T10:00
            ln -s sub/plan.txt link; chmod 640 sub/plan.txt
            """)
        try Fleet.with(2) { fleet in
            let first = try run(folder, fleet)
            #expect(first.status == 0, "\(first.errors)")
            #expect(
                first.output.contains(
                    "imported 4 documents, 5 old versions, 1 conflict and 2 deleted documents"),
                "\(first.output)")
            try fleet.settle()
            for index in 0..<2 {
                #expect(
                    try fleet.names(index, "taken") == [
                        ".stignore", "link", "orphan.sync-conflict-20240302-101112-ABCDEFG.txt",
                        "sub",
                    ])
                #expect(try fleet.names(index, "taken/sub") == ["plan.txt"])
                #expect(fleet.text(index, "taken/link") == "now")
                #expect(try fleet.conflicts(index, "taken/sub/plan.txt") == ["theirs"])
                try fleet.script(
                    index,
                    "[ \"$(stat -c %a-%y taken/sub/plan.txt | cut -c 1-14)\" = 640-2024-03-03 ]")
            }
            #expect(
                try texts(fleet, "plan.txt", in: "taken/sub") == [
                    "now": "current", "theirs": "conflict", "first": "history",
                    "second": "history",
                ])
            try fleet.script(
                0,
                """
                fsctl versions taken/sub/plan.txt | grep -q 2024-02-01
                fsctl resolve --keep current taken/sub/plan.txt
                """)
            // Nothing is imported twice, also not what was settled meanwhile.
            let second = try run(folder, fleet)
            #expect(second.status == 0, "\(second.errors)")
            #expect(
                second.output.contains(
                    "imported 0 documents, 0 old versions, 0 conflicts and 0 deleted documents"),
                "\(second.output)")
            try fleet.settle()
            #expect(try fleet.conflicts(1, "taken/sub/plan.txt") == [])
            try fleet.script(
                0,
                """
                fsctl undelete taken/sub/gone.txt
                [ "$(cat taken/sub/gone.txt)" = 'gone, new' ]
                fsctl versions --deleted taken/away/deep | grep -q trash.txt
                fsctl undelete --as back.txt taken/away/deep/trash.txt
                fsctl undelete taken/away/deep/trash.txt
                cat back.txt taken/away/deep/trash.txt | grep -c 'in no directory any more'
                """)
        }
    }

    @Test(
        "conflicted copies of Dropbox and Nextcloud become conflicts; other contents lose nothing")
    func conflictedCopies() throws {
        let folder = try folder(
            """
            save .dropbox cache 2024-01-01; save .sync_abc.db x 2024-01-01
            save 'a b.odt' mine 2024-03-03
            save "a b (Anna's conflicted copy 2024-03-02).odt" dropbox 2024-03-02
            save 'a b (conflicted copy 2024-03-01 101112).odt' nextcloud 2024-03-01
            save 'a b_conflict-20240229-101112.odt' owncloud 2024-02-29
            save 'a b (conflicted copy of the contract).pdf' 'a name of a person' 2024-03-01
            save same.txt equal 2024-03-03
            save 'same (conflicted copy 2024-03-02 101112).txt' equal 2024-03-02
            save here.txt 'from the folder' 2024-03-03
            mkdir empty; mkfifo pipe
            """)
        try Fleet.with(2) { fleet in
            try fleet.shell(0, "mkdir taken; printf here > taken/here.txt")
            try fleet.settle()
            let result = try run(folder, fleet)
            #expect(result.status == 1)
            #expect(result.errors.contains("pipe was not imported"), "\(result.errors)")
            try fleet.settle()
            for index in 0..<2 {
                #expect(
                    try fleet.names(index, "taken") == [
                        "a b (conflicted copy of the contract).pdf", "a b.odt", "empty",
                        "here.txt", "same.txt",
                    ])
                #expect(fleet.text(index, "taken/a b.odt") == "mine")
                #expect(
                    try fleet.conflicts(index, "taken/a b.odt") == [
                        "dropbox", "nextcloud", "owncloud",
                    ])
                #expect(try fleet.conflicts(index, "taken/same.txt") == [])
                #expect(fleet.text(index, "taken/here.txt") == "here")
                #expect(try fleet.conflicts(index, "taken/here.txt") == ["from the folder"])
            }
        }
    }

    @Test("wrong arguments are refused with a sentence")
    func refusals() throws {
        let folder = try folder("save a.txt a 2024-01-01")
        try Fleet.with(1) { fleet in
            try fleet.shell(0, "mkdir inside; echo x > file")
            let inside = try Command(
                Programs.path("concord"), "import", "\(fleet.devices[0].path)/inside",
                "\(fleet.devices[0].path)/taken"
            ).run()
            #expect(inside.status == 5 && inside.errors.contains("is on that volume already"))
            let nowhere = try Command(
                Programs.path("concord"), "import", folder.path, folder.path + "/taken"
            ).run()
            #expect(nowhere.status == 3 && nowhere.errors.contains("is not on a Concord volume"))
            #expect(try run(folder, fleet, as: "file").errors.contains("is not a directory"))
            let missing = try Command(
                Programs.path("concord"), "import", folder.path + "/none",
                "\(fleet.devices[0].path)/taken"
            ).run()
            #expect(missing.status == 3 && missing.errors.contains("is not a directory"))
        }
    }
}
