import Control
import Foundation
import Model
import Support
import Testing

/// A document that is deleted and restored, or whose name another document takes, has the same name
/// on all devices, however fast this happens.
@Suite("Deleted and restored", .serialized) struct UndeleteTests {
    @Test("the README's tour can be pasted as one block")
    func tour() throws {
        let readme = try String(
            contentsOf: URL(filePath: #filePath).deletingLastPathComponent()
                .appending(path: "../../README.md").standardized, encoding: .utf8)
        let lines = readme.split(separator: "\n").filter { $0.hasPrefix("    $ ") }
            .map { String($0.dropFirst(6)) }
        let first = try #require(lines.firstIndex { $0.contains("> letter.txt") })
        let last = try #require(lines.firstIndex { $0.hasPrefix("fsctl undelete letter.txt") })
        let block = lines[first...last].map { line in
            line.hasPrefix("fsctl ") ? Programs.fsctl + line.dropFirst(5) : line
        }
        try Fleet.with(2) { fleet in
            // The exit status 1 means that the files differ, as with diff(1).
            try fleet.shell(
                0,
                block.map { $0.contains(" diff ") ? "\($0) || [ $? = 1 ]" : "\($0) || exit 9" }
                    .joined(separator: "\n"))
            try fleet.expectEqual()
            for index in 0..<2 { #expect(try fleet.names(index) == ["letter.txt"]) }
            try expectAsWritten(fleet)
        }
    }

    /// What the tour says about the document in its end.
    private func expectAsWritten(_ fleet: Fleet) throws {
        let path = "\(fleet.devices[0].path)/letter.txt"
        for index in 0..<2 { #expect(fleet.text(index, "letter.txt") == "Dear reader,\n") }
        let texts = try reachableContents(in: fleet.devices[0].path).map {
            String(decoding: $0, as: UTF8.self)
        }
        #expect(texts.contains("Hello readers,\n"))
        // The deleted document keeps the version that has the label.
        let place = try MountedPath(FilePath(path))
        let client = try ControlClient(socket: place.socket)
        var request = Request(.versions, path: [])
        request.deleted = true
        var labels: Set<String> = []
        for document in try client.ask(request, as: DeletedReport.self).documents {
            var request = Request(.versions)
            request.document = document.id
            let history = try client.ask(request, as: HistoryReport.self)
            labels.formUnion(history.versions.compactMap(\.label))
        }
        let now = try client.ask(
            Request(.versions, path: place.components), as: HistoryReport.self)
        labels.formUnion(now.versions.compactMap(\.label))
        #expect(labels.contains("before the editor came"), "\(labels)")
    }

    @Test("a version's id is the same on all devices and can be used like its number")
    func identifiers() throws {
        try Fleet.with(2) { fleet in
            // The device has versions of its own, so the other device has another number for the
            // same version.
            try fleet.shell(
                0,
                """
                for i in 1 2 3; do
                echo $i > f; \(Programs.fsctl) wait --durable disk f || exit 9
                done
                """)
            try fleet.expectEqual()
            let paths = fleet.devices.map { "\($0.path)/f" }
            let ids = try paths.map { try History.of($0).versions.last?.id }
            let id = try #require(ids[0])
            #expect(ids[1] == id)
            for path in paths {
                let start = String(id.prefix(8))
                let table = try Programs.fsctl("versions", path).succeed()
                #expect(table.contains(id.prefix(6)))
                #expect(try Programs.fsctl("show", path, start).succeed() == "3\n")
                try Programs.fsctl("name", path, start, "the third").succeed()
            }
        }
    }

    @Test(
        "an earlier document of the same name is shown",
        arguments: ["mv f f~; echo 3 > f; rm f~", "rm f; echo 3 > f"])
    func earlier(save: String) throws {
        try MountedVolume.with { volume in
            let script = """
                cd \(volume.path)
                fsctl() { \(Programs.fsctl) "$@"; }
                echo 1 > f; fsctl wait --durable disk f; echo 2 > f; fsctl wait --durable disk f
                \(save)
                fsctl versions f
                """
            let said = try Command("sh", "-ec", script).succeed()
            let line = try #require(said.split(separator: "\n").last)
            #expect(line.contains("An earlier document of this name"), "\(said)")
            let id = try #require(line.split(separator: " ").last.map(String.init))
            let old = try Command(
                "sh", "-ec", "cd \(volume.path); \(Programs.fsctl) versions \(id) --json"
            ).succeed()
            #expect(old.components(separatedBy: "fileName").count == 3)
        }
    }

    @Test(
        "a freed name is reused while changes of its last owner are unsent",
        arguments: [
            "rm f; FSCTL undelete f", "rm f; echo c > f", "mv f g; echo c > f; rm g",
            "mv f d/g; echo c > f; rm d/g", "rm f; mkdir f; rmdir f; echo c > f",
        ])
    func names(_ commands: String) throws {
        try Fleet.with(2) { fleet in
            let commands = commands.replacing("FSCTL", with: Programs.fsctl)
            // The first save is sent at once; the second one follows so soon that it waits.
            try fleet.shell(
                0,
                """
                for i in 1 2 3 4; do
                mkdir $i; cd $i; mkdir d
                echo a > f; \(Programs.fsctl) wait --durable hub f || exit 9
                echo b > f; \(Programs.fsctl) wait --durable disk f || exit 9
                \(commands); cd ..
                done
                """)
            try fleet.expectEqual()
            for index in 0..<2 {
                for directory in 1...4 {
                    let path = "\(fleet.devices[index].path)/\(directory)"
                    let found = try FileManager.default.contentsOfDirectory(atPath: path)
                    #expect(found.sorted() == ["d", "f"])
                }
            }
        }
    }
}
