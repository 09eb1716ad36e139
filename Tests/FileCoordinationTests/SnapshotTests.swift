import Foundation
import Support
import Synchronization
import Testing

@testable import FileCoordination

/// Reading for an upload.
@Suite("Snapshots") struct SnapshotTests {
    @Test("a file is copied, and its claim has ended before the copy is used")
    func file() throws {
        let mount = try FakeMount()
        let url = try mount.file("letter.txt", "dear")
        let kept = try FileCoordinator().coordinate(readingItemAt: url, options: .forUploading) {
            #expect(mount.verbs == ["claim", "release"])
            try mount.file("letter.txt", "changed")
            #expect($0.lastPathComponent == "letter.txt" && $0 != url)
            #expect(try String(contentsOf: $0, encoding: .utf8) == "dear")
            return $0
        }
        #expect(!FileManager.default.fileExists(atPath: kept.path))
        #expect(mount.asked("release").count == 1)
    }

    @Test("a directory becomes a zip file that other programs can read")
    func directory() async throws {
        let mount = try FakeMount()
        let text = String(repeating: "abc", count: 200_000)
        try mount.file("p.rtfd/deep/größe.txt", text)
        try mount.file("p.rtfd/empty", "")
        try FileManager.default.createSymbolicLink(
            atPath: "\(mount.root)/p.rtfd/link", withDestinationPath: "empty")
        let names = try await FileCoordinator().coordinate(
            readingItemAt: mount.url("p.rtfd"), options: .forUploading
        ) { archive in
            #expect(archive.lastPathComponent == "p.rtfd.zip")
            let script = """
                import sys, zipfile
                archive = zipfile.ZipFile(sys.argv[1])
                assert archive.testzip() is None
                assert archive.read('p.rtfd/deep/größe.txt') == b'abc' * 200000
                info = archive.getinfo('p.rtfd/link')
                assert info.external_attr >> 28 == 0o12 and archive.read(info) == b'empty'
                print(','.join(archive.namelist()))
                """
            return try Command("python3", "-c", script, archive.path).succeed()
        }
        #expect(
            names.split(separator: "\n").first
                == "p.rtfd/,p.rtfd/deep/,p.rtfd/deep/größe.txt,p.rtfd/empty,p.rtfd/link")
        #expect(mount.verbs == ["claim", "release"])
    }

    @Test("an item that does not exist cannot be uploaded, and the error says so")
    func missing() throws {
        let mount = try FakeMount()
        do {
            try FileCoordinator().coordinate(
                readingItemAt: mount.url("none"), options: .forUploading
            ) { _ in fail() }
        } catch FileCoordinationError.unavailable {}
        #expect(mount.asked("release").count == 1)
    }
}
