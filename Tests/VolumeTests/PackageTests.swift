import CLinux
import Foundation
import Glibc
import Model
import SystemCalls
import Testing

@testable import Volume

@Suite struct PackageTests {
    let program = Program(process: 10, name: "TextEdit")

    private func make(_ tree: ProgramTree, _ path: String, _ text: String) throws {
        try tree.mkdir(path, by: program)
        try tree.save(path + "/TXT.rtf", text, by: program)
        try tree.mkdir(path + "/img", by: program)
        try tree.save(path + "/img/a.png", "png of \(text)", by: program)
        try tree.symlink("TXT.rtf", path + "/main", by: program)
    }

    private func versions(_ tree: ProgramTree, _ path: String) throws -> [[String: String]] {
        try #require(try tree.volume.history.document(at: names(path))).versions.map {
            try tree.packageFiles($0)
        }
    }

    private func whole(_ text: String) -> [String: String] {
        ["TXT.rtf": text, "img/a.png": "png of \(text)"]
    }

    @Test func aPackageIsOneDocument() throws {
        let tree = try ProgramTree()
        try make(tree, "Doc.rtfd", "one")
        #expect(tree.quiet())
        try tree.save("Doc.rtfd/TXT.rtf", "two", by: program)
        try tree.save("Doc.rtfd/img/a.png", "png of two", by: program)
        #expect(tree.quiet())
        try tree.replace("Doc.rtfd/TXT.rtf", Array("three".utf8), by: program)
        try tree.unlink("Doc.rtfd/img/a.png", by: program)
        #expect(tree.quiet())
        try tree.rename("Doc.rtfd/TXT.rtf", "Doc.rtfd/img/moved", by: program)
        #expect(tree.quiet())
        let expected = [
            whole("one"), whole("two"), ["TXT.rtf": "three"], ["img/moved": "three"],
        ]
        #expect(try versions(tree, "Doc.rtfd") == expected)
        let history = try #require(try tree.volume.history.document(at: names("Doc.rtfd/TXT.rtf")))
        #expect(history.isPackage)
        #expect(history.versions.map(\.program) == Array(repeating: "TextEdit", count: 4))
        #expect(history.versions.map(\.kind) == [.history, .history, .history, .current])
        try tree.checkInvariants()
        try tree.remount()
        #expect(tree.quiet())
        #expect(try versions(tree, "Doc.rtfd") == expected)
        try tree.checkInvariants()
    }

    /// A program's open has put a file's contents into the stash, and has not emptied the file yet.
    /// If the package were recorded now, the stash would lose them, and then the file.
    @Test func nothingIsRecordedWhileAFileIsBeingOpened() throws {
        let tree = try ProgramTree()
        try make(tree, "Doc.rtfd", "one")
        #expect(tree.quiet())
        var writing = Writing()
        let file = try Descriptor(opening: tree.real("Doc.rtfd/TXT.rtf"), flags: O_PATH)
        let access = try tree.volume.writing.open(
            &writing, file: file.raw, status: file.status(), truncates: true, isNew: false,
            traits: [], others: 0, unique: tree.nextUnique(), patience: .room, by: program.actor)
        guard case .direct = access else { throw Errno(EIO) }
        #expect(!tree.quiet(seconds: 1))
        try Data("two".utf8).write(to: URL(filePath: tree.real("Doc.rtfd/TXT.rtf")), options: [])
        tree.volume.writing.close(
            &writing, file: file.raw, traits: [], unique: tree.nextUnique())
        #expect(tree.quiet())
        #expect(
            try versions(tree, "Doc.rtfd") == [
                whole("one"), ["TXT.rtf": "two", "img/a.png": "png of one"],
            ])
        try tree.checkInvariants()
        tree.stop()
    }

    @Test func replacedByExchange() throws {
        let tree = try ProgramTree()
        try make(tree, "Doc.rtfd", "one")
        #expect(tree.quiet())
        let id = try tree.volume.history.document(at: names("Doc.rtfd"))?.id
        for text in ["two", "three"] {
            try make(tree, "New.rtfd", text)
            try tree.exchange("New.rtfd", "Doc.rtfd", by: program)
            try tree.removeTree("New.rtfd", by: program)
            #expect(tree.quiet())
        }
        #expect(try tree.volume.history.document(at: names("Doc.rtfd"))?.id == id)
        #expect(try versions(tree, "Doc.rtfd") == [whole("one"), whole("two"), whole("three")])
        try tree.checkInvariants()
    }

    /// A program prepares the new contents in a folder, exchanges it with the package and removes
    /// it.
    @Test(arguments: ["new", ".Doc.rtfd.concord-restore.part", "local/new", "Other.rtfd/new"])
    func exchangedWithAFolder(_ folder: String) throws {
        let tree = try ProgramTree()
        try tree.save(".concordignore", "local/\n", by: program)
        try tree.mkdir("local", by: program)
        try make(tree, "Doc.rtfd", "one")
        try make(tree, "Other.rtfd", "other")
        #expect(tree.quiet())
        let id = try tree.volume.history.document(at: names("Doc.rtfd"))?.id
        for (text, isQuiet) in [("two", false), ("three", true)] {
            try make(tree, folder, text)
            if isQuiet { #expect(tree.quiet()) }
            try tree.exchange(folder, "Doc.rtfd", by: program)
            if isQuiet { #expect(tree.quiet()) }
            try tree.removeTree(folder, by: program)
            #expect(tree.quiet())
        }
        #expect(try tree.volume.history.document(at: names("Doc.rtfd"))?.id == id)
        #expect(try versions(tree, "Doc.rtfd") == [whole("one"), whole("two"), whole("three")])
        #expect(
            try tree.volume.history.document(at: names("Other.rtfd"))?.versions.last?.kind
                == .current)
        #expect(try versions(tree, "Other.rtfd").last == whole("other"))
        try tree.checkInvariants()
        try tree.remount()
        #expect(tree.quiet())
        #expect(try versions(tree, "Doc.rtfd") == [whole("one"), whole("two"), whole("three")])
        try tree.checkInvariants()
    }

    @Test func aFolderThatIsExchangedWithAPackageKeepsItsDocuments() throws {
        let tree = try ProgramTree()
        try make(tree, "Doc.rtfd", "one")
        try make(tree, "folder", "two")
        #expect(tree.quiet())
        let ids = try ["Doc.rtfd", "folder/TXT.rtf"].map {
            try tree.volume.history.document(at: names($0))?.id
        }
        try tree.exchange("folder", "Doc.rtfd", by: program)
        #expect(tree.quiet())
        #expect(try tree.volume.history.document(at: names("Doc.rtfd"))?.id == ids[0])
        #expect(try versions(tree, "Doc.rtfd") == [whole("one"), whole("two")])
        #expect(try tree.texts("folder/TXT.rtf").last == "one")
        try tree.checkInvariants()
        try tree.exchange("Doc.rtfd", "folder", by: program)
        #expect(tree.quiet())
        #expect(try tree.volume.history.document(at: names("Doc.rtfd"))?.id == ids[0])
        #expect(try versions(tree, "Doc.rtfd") == [whole("one"), whole("two"), whole("one")])
        #expect(try tree.texts("folder/TXT.rtf").last == "two")
        try tree.checkInvariants()
    }

    @Test func removed() throws {
        let tree = try ProgramTree()
        try make(tree, "Doc.rtfd", "one")
        #expect(tree.quiet())
        try tree.removeTree("Doc.rtfd", by: program)
        #expect(tree.quiet())
        #expect(try tree.volume.history.document(at: names("Doc.rtfd"))?.state == .deleted)
        #expect(try versions(tree, "Doc.rtfd") == [whole("one")])
        try tree.checkInvariants()
    }

    @Test func aDirectoryThatBecomesAPackageAndBack() throws {
        let tree = try ProgramTree()
        try make(tree, "doc", "one")
        #expect(tree.quiet())
        try tree.rename("doc", "doc.rtfd", by: program)
        #expect(tree.quiet())
        #expect(try versions(tree, "doc.rtfd") == [whole("one")])
        try tree.checkInvariants()
        try tree.save("doc.rtfd/TXT.rtf", "two", by: program)
        try tree.save("doc.rtfd/img/a.png", "png of two", by: program)
        #expect(tree.quiet())
        try tree.rename("doc.rtfd", "doc", by: program)
        try tree.save("doc/TXT.rtf", "three", by: program)
        #expect(tree.quiet())
        #expect(try tree.texts("doc/TXT.rtf").last == "three")
        #expect(try tree.texts("doc/img/a.png") == ["png of two"])
        try tree.checkInvariants()
        try tree.rename("doc", "doc.rtfd", by: program)
        #expect(tree.quiet())
        #expect(
            try versions(tree, "doc.rtfd") == [
                whole("one"), whole("two"), ["TXT.rtf": "three", "img/a.png": "png of two"],
            ])
        try tree.checkInvariants()
    }

    @Test func byAttribute() throws {
        let tree = try ProgramTree()
        try make(tree, "box", "one")
        #expect(tree.quiet())
        let box = try Descriptor(opening: tree.real("box"), flags: O_RDONLY | O_DIRECTORY)
        let inode = FileSnapshot(try box.status()).inode
        try check(cl_setxattr_fd(box.raw, "user.concord.package", "1", 1, 0))
        tree.volume.events.packageAttributeChanged(inode: inode)
        #expect(tree.quiet())
        #expect(try versions(tree, "box") == [whole("one")])
        try tree.save("box/TXT.rtf", "two", by: program)
        #expect(tree.quiet())
        #expect(try versions(tree, "box").count == 2)
        try tree.remount()
        #expect(tree.quiet())
        #expect(try versions(tree, "box").count == 2)
        try tree.checkInvariants()
        try check(cl_removexattr_fd(box.raw, "user.concord.package"))
        tree.volume.events.packageAttributeChanged(inode: inode)
        #expect(tree.quiet())
        #expect(try tree.texts("box/TXT.rtf").last == "two")
        try tree.checkInvariants()
    }

    @Test func filesAndDirectoriesMovedInAndOut() throws {
        let tree = try ProgramTree()
        try make(tree, "Doc.rtfd", "one")
        try tree.save("loose", "1", by: program)
        try tree.save("loose", "2", by: program)
        try tree.mkdir("dir", by: program)
        try tree.save("dir/inner", "i", by: program)
        #expect(tree.quiet())
        try tree.rename("loose", "Doc.rtfd/loose", by: program)
        try tree.rename("dir", "Doc.rtfd/img/dir", by: program)
        #expect(tree.quiet())
        #expect(try tree.texts("loose") == ["1", "2"])
        #expect(try tree.volume.history.document(at: names("loose"))?.state == .deleted)
        #expect(try tree.texts("dir/inner") == ["i"])
        let filled = whole("one").merging(["loose": "2", "img/dir/inner": "i"]) { $1 }
        #expect(try versions(tree, "Doc.rtfd").last == filled)
        try tree.checkInvariants()
        try tree.rename("Doc.rtfd/img/dir", "dir", by: program)
        try tree.rename("Doc.rtfd/loose", "out", by: program)
        #expect(tree.quiet())
        #expect(try tree.texts("out") == ["2"])
        #expect(try tree.texts("dir/inner") == ["i"])
        #expect(try versions(tree, "Doc.rtfd").last == whole("one"))
        try tree.save("dir/inner", "j", by: program)
        #expect(try tree.texts("dir/inner") == ["i", "j"])
        try tree.checkInvariants()
    }

    @Test func aPackageInsideAPackageAndOutAgain() throws {
        let tree = try ProgramTree()
        try make(tree, "Outer.rtfd", "outer")
        try make(tree, "Inner.rtfd", "inner")
        #expect(tree.quiet())
        try tree.rename("Inner.rtfd", "Outer.rtfd/Inner.rtfd", by: program)
        #expect(tree.quiet())
        #expect(try versions(tree, "Inner.rtfd") == [whole("inner")])
        #expect(try versions(tree, "Outer.rtfd").last?.count == 4)
        try tree.checkInvariants()
        try tree.rename("Outer.rtfd/Inner.rtfd", "Again.rtfd", by: program)
        #expect(tree.quiet())
        #expect(try versions(tree, "Again.rtfd") == [whole("inner")])
        try tree.checkInvariants()
    }

    /// Large files in packages are written in place too.
    @Test func aLargeFileInAPackage() throws {
        let tree = try ProgramTree()
        try tree.mkdir("Lib.photoslibrary", by: program)
        var noise = Noise(seed: 9)
        let bytes = noise.bytes(2_500_000)
        try tree.save("Lib.photoslibrary/db", bytes, by: program)
        #expect(tree.quiet())
        try tree.writeInPlace("Lib.photoslibrary/db", noise.bytes(10), at: 1_000_000, by: program)
        #expect(tree.quiet())
        let history = try #require(try tree.volume.history.document(at: names("Lib.photoslibrary")))
        #expect(history.versions.count == 2)
        #expect(try tree.bytes(of: history.versions[0]) == bytes)
        try tree.checkInvariants()
    }
}
