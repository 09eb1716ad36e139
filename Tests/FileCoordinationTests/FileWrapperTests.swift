import Foundation
import Glibc
import Support
import Testing

@testable import FileCoordination

/// Files, directories and links in memory.
@Suite("File wrappers") struct FileWrapperTests {
    private let home: TemporaryDirectory
    private func url(_ name: String) -> URL { URL(filePath: "\(home.path)/\(name)") }

    init() throws { home = try TemporaryDirectory("wrappers") }

    /// A package with a text, a picture, a link and a directory.
    private func package() -> FileWrapper {
        let package = FileWrapper(directoryWithFileWrappers: [:])
        package.addRegularFile(withContents: Data("text".utf8), preferredFilename: "index.txt")
        package.addRegularFile(withContents: Data("picture".utf8), preferredFilename: "a.png")
        let link = FileWrapper(symbolicLinkWithDestinationURL: URL(string: "a.png")!)
        link.preferredFilename = "cover"
        package.addFileWrapper(link)
        let inner = FileWrapper(directoryWithFileWrappers: [
            "deep": FileWrapper(regularFileWithContents: Data("deep".utf8))
        ])
        inner.preferredFilename = "inner"
        package.addFileWrapper(inner)
        return package
    }

    private func inode(_ name: String) throws -> UInt64 {
        var status = stat()
        try #require(lstat(url(name).path, &status) == 0)
        return UInt64(status.st_ino)
    }

    @Test("contents of all three kinds are read as they were written", arguments: [true, false])
    func roundTrip(isImmediate: Bool) throws {
        let written = package()
        written.fileWrappers?["a.png"]?.fileAttributes.permissions = 0o640
        try written.write(to: url("p.notes"))
        let read = try FileWrapper(
            url: url("p.notes"), options: isImmediate ? .immediate : [])
        #expect(read.isDirectory && read.filename == "p.notes")
        let children = try #require(read.fileWrappers)
        #expect(children.keys.sorted() == ["a.png", "cover", "index.txt", "inner"])
        #expect(children["index.txt"]?.regularFileContents == Data("text".utf8))
        #expect(children["a.png"]?.fileAttributes.permissions == 0o640)
        #expect(children["cover"]?.isSymbolicLink == true)
        #expect(
            try FileManager.default.destinationOfSymbolicLink(atPath: url("p.notes/cover").path)
                == "a.png")
        #expect(children["inner"]?.fileWrappers?["deep"]?.regularFileContents == Data("deep".utf8))
        // A wrapper of another kind has no such contents.
        #expect(read.regularFileContents == nil && children["cover"]?.fileWrappers == nil)
    }

    @Test("B8.1: lazy contents are read when they are asked for, unless they have changed since")
    func lazy() throws {
        try package().write(to: url("p"))
        let (lazy, immediate) = (
            try FileWrapper(url: url("p")), try FileWrapper(url: url("p"), options: .immediate)
        )
        let children = try #require(lazy.fileWrappers)
        try Data("changed".utf8).write(to: url("p/index.txt"))
        #expect(children["index.txt"]?.regularFileContents == nil)
        #expect(children["a.png"]?.regularFileContents == Data("picture".utf8))
        #expect(
            immediate.fileWrappers?["index.txt"]?.regularFileContents == Data("text".utf8))
        // Writing it elsewhere must fail, and must not leave half of it.
        #expect(throws: CocoaError.self) { try lazy.write(to: url("q"), options: .atomic) }
        #expect(try FileManager.default.contentsOfDirectory(atPath: home.path) == ["p"])
    }

    @Test("B8.4: a name that is taken is made unique in Apple's way")
    func names() {
        let directory = FileWrapper(directoryWithFileWrappers: [:])
        let keys = (0..<3).map { _ in
            directory.addRegularFile(withContents: Data(), preferredFilename: "a.txt")
        }
        #expect(keys == ["a.txt", "1__#$!@%!#__a.txt", "2__#$!@%!#__a.txt"])
        let second = directory.fileWrappers![keys[1]]!
        #expect(second.preferredFilename == "a.txt" && second.filename == keys[1])
        #expect(directory.keyForChildFileWrapper(second) == keys[1])
        directory.removeFileWrapper(second)
        #expect(directory.fileWrappers!.keys.sorted() == [keys[2], "a.txt"])
        // The name is free again.
        #expect(
            directory.addRegularFile(withContents: Data(), preferredFilename: "a.txt") == keys[1])
    }

    @Test("B8.3: unchanged children are linked, not written again")
    func unchanged() throws {
        try package().write(to: url("p"))
        let before = try inode("p/a.png")
        let read = try FileWrapper(url: url("p"), options: .immediate)
        let snapshot = FileWrapper(directoryWithFileWrappers: read.fileWrappers!)
        snapshot.removeFileWrapper(snapshot.fileWrappers!["index.txt"]!)
        snapshot.addRegularFile(withContents: Data("new".utf8), preferredFilename: "index.txt")
        try snapshot.write(to: url("p"), options: .atomic, originalContentsURL: url("p"))
        #expect(try inode("p/a.png") == before)
        #expect(try String(contentsOf: url("p/index.txt"), encoding: .utf8) == "new")
        #expect(try FileManager.default.contentsOfDirectory(atPath: home.path) == ["p"])
        // Children that have changed on the disk are written with the wrapper's contents.
        try Data("theirs".utf8).write(to: url("p/a.png"))
        try snapshot.write(to: url("p"), options: .atomic, originalContentsURL: url("p"))
        #expect(try String(contentsOf: url("p/a.png"), encoding: .utf8) == "picture")
    }

    @Test("an update leaves equal items alone and removes items that the wrapper lacks")
    func inPlace() throws {
        try package().write(to: url("p"))
        let (kept, replaced) = (try inode("p/a.png"), try inode("p/index.txt"))
        let read = try FileWrapper(url: url("p"), options: .immediate)
        read.removeFileWrapper(read.fileWrappers!["index.txt"]!)
        read.addRegularFile(withContents: Data("new".utf8), preferredFilename: "index.txt")
        read.removeFileWrapper(read.fileWrappers!["inner"]!)
        try read.write(to: url("p"))
        #expect(try inode("p/a.png") == kept)
        #expect(try inode("p/index.txt") != replaced)
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: url("p").path).sorted()
                == ["a.png", "cover", "index.txt"])
    }

    @Test("an atomic write shows the old contents or the new ones", arguments: 0..<20)
    func atomic(round: Int) throws {
        try package().write(to: url("p"))
        let big = FileWrapper(directoryWithFileWrappers: [:])
        for number in 0..<20 {
            big.addRegularFile(withContents: Data("\(number)".utf8), preferredFilename: "n")
        }
        let isDone = DispatchSemaphore(value: 0)
        let target = url("p")
        Thread.detachNewThread {
            try? big.write(to: target, options: .atomic)
            isDone.signal()
        }
        // One listing reads one directory, whichever of the two has the name when it is opened.
        var counts: Set<Int> = []
        repeat {
            let directory = open(target.path, O_RDONLY | O_DIRECTORY)
            var status = stat()
            #expect(directory >= 0 && fstat(directory, &status) == 0)
            close(directory)
            let index = access("\(target.path)/index.txt", F_OK) == 0
            let last = access("\(target.path)/19__#$!@%!#__n", F_OK) == 0
            counts.insert((index ? 1 : 0) + (last ? 2 : 0))
        } while isDone.wait(timeout: .now()) == .timedOut
        #expect(access("\(target.path)/19__#$!@%!#__n", F_OK) == 0)
        #expect(counts.subtracting([1, 2, 3]).isEmpty, "never neither: \(counts)")
    }

    @Test("it matches its origin until contents, names or permissions change there")
    func matching() throws {
        try package().write(to: url("p"))
        let read = try FileWrapper(url: url("p"))
        #expect(read.matchesContents(of: url("p")))
        #expect(!read.matchesContents(of: url("none")))
        let changes: [(String, () throws -> Void)] = [
            ("contents", { try Data("else".utf8).write(to: self.url("p/inner/deep")) }),
            ("a name", { try Data().write(to: self.url("p/more")) }),
            ("permissions", { _ = chmod(self.url("p/a.png").path, 0o600) }),
            (
                "a link",
                {
                    unlink(self.url("p/cover").path)
                    symlink("elsewhere", self.url("p/cover").path)
                }
            ),
        ]
        for (what, change) in changes {
            let before = try FileWrapper(url: url("p"))
            #expect(before.matchesContents(of: url("p")), "\(what)")
            try change()
            #expect(!before.matchesContents(of: url("p")), "\(what)")
        }
        let new = FileWrapper(regularFileWithContents: Data("one".utf8))
        try Data("one".utf8).write(to: url("one"))
        #expect(new.matchesContents(of: url("one")))
        try Data("two".utf8).write(to: url("one"))
        #expect(!new.matchesContents(of: url("one")))
    }

    @Test("A20.2: a package without its index is a directory without that child")
    func missingIndex() throws {
        try FileWrapper(directoryWithFileWrappers: [:]).write(to: url("p"))
        let read = try FileWrapper(url: url("p"), options: .immediate)
        #expect(read.fileWrappers?.isEmpty == true)
    }

    @Test("A20.3: a snapshot does not change when the package that is edited does")
    func snapshot() {
        let live = package()
        let snapshot = FileWrapper(directoryWithFileWrappers: live.fileWrappers!)
        live.removeFileWrapper(live.fileWrappers!["a.png"]!)
        #expect(snapshot.fileWrappers!["a.png"] != nil && live.fileWrappers!["a.png"] == nil)
    }

    @Test("a failed read names the item and the reason")
    func errors() throws {
        let error = #expect(throws: CocoaError.self) { try FileWrapper(url: url("none")) }
        #expect(error?.code == .fileReadNoSuchFile)
        #expect(error?.localizedDescription.contains("/none: ") == true)
        try #require(mkfifo(url("fifo").path, 0o600) == 0)
        #expect(throws: CocoaError.self) { try FileWrapper(url: url("fifo")) }
        try #require(mkdir(url("odd").path, 0o700) == 0)
        let name = url("odd").path + "/"
        _ = (Array(name.utf8) + [0xFF, 0]).withUnsafeBytes {
            close(open($0.baseAddress!.assumingMemoryBound(to: CChar.self), O_CREAT, 0o600))
        }
        let odd = try FileWrapper(url: url("odd"))
        #expect(odd.fileWrappers == nil)
        #expect(throws: CocoaError.self) {
            try FileWrapper(url: url("odd"), options: .immediate)
        }
    }
}
