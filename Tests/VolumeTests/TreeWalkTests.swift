import Foundation
import Glibc
import Model
import Support
import SystemCalls
import Testing

@testable import Volume

/// What opens items below a directory leaves it by no path, whoever put there what is in it.
final class TreeWalkTests {
    private let home: TemporaryDirectory
    private let root: Descriptor

    init() throws {
        home = try TemporaryDirectory("walk")
        let files = FileManager.default
        try files.createDirectory(
            atPath: home.path + "/tree/a/b", withIntermediateDirectories: true)
        try "inside".write(toFile: home.path + "/tree/a/b/c", atomically: false, encoding: .utf8)
        try "outside".write(toFile: home.path + "/secret", atomically: false, encoding: .utf8)
        for (name, target) in [("a/up", "../.."), ("a/b/link", "c"), ("away", home.path)] {
            try files.createSymbolicLink(
                atPath: "\(home.path)/tree/\(name)", withDestinationPath: target)
        }
        root = try Descriptor(opening: home.path + "/tree", flags: O_PATH | O_DIRECTORY)
    }

    private func open(_ path: String, _ flags: Int32 = O_RDONLY) -> Result<String, Errno> {
        Result { () throws(Errno) in
            let names = path.split(separator: "/").map { Name($0) }
            let file = try openBeneath(names, from: root.raw, flags: flags)
            var bytes = [UInt8](repeating: 0, count: 100)
            let count = read(file.raw, &bytes, bytes.count)
            return String(decoding: bytes.prefix(max(0, count)), as: UTF8.self)
        }
    }

    @Test("a path of ordinary names is opened")
    func ordinary() { #expect(open("a/b/c") == .success("inside")) }

    @Test(
        "symbolic links and .. lead nowhere",
        arguments: ["a/up/secret", "away/secret", "a/b/link", "../secret", "a/../../secret"])
    func escapes(_ path: String) {
        guard case .failure(let error) = open(path) else {
            Issue.record("\(path) was opened")
            return
        }
        #expect(error.isMissing || error.code == EXDEV, "\(error)")
    }

    @Test("O_PATH opens a symbolic link itself, and flags that it ignores are no error")
    func theLinkItself() throws {
        let link = try openBeneath(
            ["a", "b", "link"].map { Name($0) }, from: root.raw, flags: O_PATH | O_NONBLOCK)
        var status = stat()
        #expect(fstat(link.raw, &status) == 0 && status.st_mode & S_IFMT == S_IFLNK)
    }

    @Test("a path may be longer than system calls take")
    func long() throws {
        let names = [Name](repeating: Name(String(repeating: "d", count: 250)), count: 20)
        var directory = try openBeneath([], from: root.raw, flags: O_RDONLY | O_DIRECTORY)
        for name in names {
            #expect(name.withCString { mkdirat(directory.raw, $0, 0o700) } == 0)
            directory = try openBeneath([name], from: directory.raw, flags: O_RDONLY | O_DIRECTORY)
        }
        let again = try openBeneath(names, from: root.raw, flags: O_RDONLY | O_DIRECTORY)
        #expect(FileSnapshot(of: again.raw).inode == FileSnapshot(of: directory.raw).inode)
        for (index, name) in names.enumerated().reversed() {
            let parent = try openBeneath(
                Array(names[..<index]), from: root.raw, flags: O_RDONLY | O_DIRECTORY)
            #expect(name.withCString { unlinkat(parent.raw, $0, AT_REMOVEDIR) } == 0)
        }
    }
}
