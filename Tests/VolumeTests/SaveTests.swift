import CLinux
import Foundation
import Glibc
import Model
import SystemCalls
import Testing

@testable import Volume

/// Single saves: what becomes a version, what does not, and who has saved it.
@Suite struct SaveTests {
    let program = Program(process: 10, name: "nano")
    let other = Program(process: 20, name: "cp", uid: 65534)

    @Test func personAndTimeAreKept() throws {
        let tree = try ProgramTree()
        let before = cl_clock_realtime_ns()
        try tree.save("a", "one", by: program)
        try tree.save("a", "two", by: other)
        let after = cl_clock_realtime_ns()
        let history = try #require(try tree.volume.history.document(at: names("a")))
        #expect(history.versions.map(\.program) == ["nano", "cp"])
        #expect(history.versions.map(\.person) == ["root", "nobody"])
        #expect(history.versions.map(\.durability) == [.disk, .disk])
        #expect(history.versions.allSatisfy { before <= $0.saved && $0.saved <= after })
        #expect(history.versions[0].modified < history.versions[1].modified)
        #expect(history.versions[0].deviceName == VolumeIdentity.hostName)
        #expect(history.state == .current)
        try tree.checkInvariants()
    }

    @Test(arguments: Pace.allCases) func equalBytesAndTouchAreNoVersion(pace: Pace) throws {
        let tree = try ProgramTree()
        try tree.save("a", "same", by: program)
        pace.pause(tree, 1)
        try tree.save("a", "same", by: program)
        pace.pause(tree, 2)
        try tree.replace("a", Array("same".utf8), by: other)
        pace.pause(tree, 3)
        try tree.writeInPlace("a", Array("same".utf8), at: 0, by: program)
        pace.pause(tree, 4)
        utimes(tree.real("a"), nil)
        let handle = try tree.open("a", O_RDWR, by: program)
        tree.close(handle)
        pace.pause(tree, 5)
        try tree.rename("a", "b", by: program)
        #expect(try tree.texts("b") == ["same"])
        try tree.checkInvariants()
    }

    /// [traps 11]
    @Test(arguments: Pace.allCases) func sameSizeAndTimePutBackIsAVersion(pace: Pace) throws {
        let tree = try ProgramTree()
        try tree.save("a", "aaaa", by: program)
        pace.pause(tree, 1)
        var status = stat()
        stat(tree.real("a"), &status)
        try tree.save("a", "bbbb", by: program)
        utimensat(AT_FDCWD, tree.real("a"), [status.st_mtim, status.st_mtim], 0)
        pace.pause(tree, 2)
        try tree.save("older", "cccc", by: program)
        utimensat(AT_FDCWD, tree.real("older"), [status.st_mtim, status.st_mtim], 0)
        try tree.rename("older", "a", by: program)
        #expect(try tree.texts("a") == ["aaaa", "bbbb", "cccc"])
        try tree.checkInvariants()
    }

    @Test(arguments: Pace.allCases) func aPlaceholderIsNoVersion(pace: Pace) throws {
        let tree = try ProgramTree()
        try tree.save("a", "", by: program)
        pace.pause(tree, 1)
        #expect(try tree.texts("a") == [])
        try tree.save("a", "content", by: program)
        pace.pause(tree, 0)
        tree.quiet()
        try tree.save("a", "", by: program)
        tree.quiet()
        #expect(try tree.texts("a") == ["content", ""])
        try tree.save("a", "again", by: program)
        #expect(try tree.texts("a") == ["content", "", "again"])
        #expect(try tree.volume.states.status(at: names("a")).durability == .disk)
        try tree.checkInvariants()
    }

    /// With passthrough the kernel opens the file below only after the request was answered. Until
    /// then nobody has it open, so no lease shows that a program is about to fill it.
    @Test func aFileThatIsBeingCreatedIsNoVersion() throws {
        let tree = try ProgramTree()
        try tree.save("a", "first", by: program)
        #expect(try tree.texts("a") == ["first"])
        try tree.unlink("a", by: program)
        let handle = try tree.open("a", O_CREAT | O_EXCL | O_RDWR, by: program)
        let below = try check(cl_reopen(handle.path, O_RDONLY))
        dup2(below, handle.descriptor)
        close(below)
        _ = tree.volume.recorder.catchUp(with: .path(names("a")), timeoutSeconds: 20)
        #expect(try tree.volume.states.status(at: names("a")).state == .writing)
        let opened = try check(cl_reopen(handle.path, O_RDWR))
        dup2(opened, handle.descriptor)
        close(opened)
        try tree.write(handle, Array("second".utf8))
        tree.close(handle)
        #expect(try tree.texts("a") == ["first", "second"])
        try tree.checkInvariants()
    }

    /// A backup by renaming holds the only bytes of the last version until that is stored.
    @Test(arguments: [true, false], [true, false])
    func aBackupWhoseTimesWereSetHasItsVersion(isBefore: Bool, isRemoved: Bool) throws {
        let tree = try ProgramTree()
        try tree.save("a", "first", by: program)
        #expect(try tree.texts("a") == ["first"])
        if isBefore { try tree.setTime("a", seconds: 10_413_792_000) }
        try tree.rename("a", "a~", by: program)
        if !isBefore { try tree.setTime("a~", seconds: 10_413_792_000) }
        try tree.save("a", "second", by: program)
        if isRemoved { try tree.unlink("a~", by: program) }
        #expect(tree.quiet())
        #expect(try tree.texts("a") == ["first", "second"])
        try tree.checkInvariants()
    }

    @Test(arguments: Pace.allCases) func unlinkAndCreateByAnotherIsAnotherDocument(pace: Pace)
        throws
    {
        let tree = try ProgramTree()
        try tree.save("a", "mine", by: program)
        let id = try #require(try tree.volume.history.document(at: names("a"))).id
        pace.pause(tree, 1)
        try tree.unlink("a", by: program)
        pace.pause(tree, 2)
        try tree.save("a", "yours", by: other)
        let history = try #require(try tree.volume.history.document(at: names("a")))
        #expect(history.id != id)
        #expect(try tree.texts("a") == ["yours"])
        let deleted = try tree.volume.history.deletedDocuments(in: [])
        #expect(deleted.map(\.id) == [id])
        let old = try #require(try tree.volume.history.document(id))
        #expect(old.state == .deleted)
        #expect(try tree.bytes(of: old.versions[0]) == Array("mine".utf8))
        try tree.checkInvariants()
    }

    @Test(arguments: Pace.allCases) func allNamesOfAHardLinkAreSaved(pace: Pace) throws {
        let tree = try ProgramTree()
        try tree.save("a", "1", by: program)
        pace.pause(tree, 1)
        try tree.link("a", "b", by: program)
        pace.pause(tree, 2)
        try tree.save("b", "2", by: program)
        pace.pause(tree, 3)
        try tree.save("a", "3", by: program)
        pace.pause(tree, 4)
        try tree.unlink("a", by: program)
        pace.pause(tree, 5)
        try tree.save("b", "4", by: program)
        #expect(try tree.texts("a") == ["1", "2", "3"])
        let texts = try tree.texts("b")
        // The link may have been created before the first content was recorded.
        #expect(texts == ["1", "2", "3", "4"])
        try tree.checkInvariants()
    }

    @Test(arguments: Pace.allCases) func aLinkReplacedByRenameKeepsItsBytes(pace: Pace) throws {
        let tree = try ProgramTree()
        try tree.save("a", "1", by: program)
        try tree.link("a", "b", by: program)
        pace.pause(tree, 1)
        try tree.replace("a", Array("2".utf8), by: program)
        pace.pause(tree, 2)
        try tree.save("b", "other", by: program)
        pace.pause(tree, 3)
        try tree.unlink("b", by: program)
        #expect(try tree.texts("a") == ["1", "2"])
        #expect(try tree.texts("b") == ["1", "other"])
        try tree.checkInvariants()
    }

    /// RELEASE is served after close(2) has returned, so an open can arrive before the close that
    /// preceded it.
    @Test(arguments: [true, false], [O_TRUNC, 0])
    func aCloseThatIsOvertaken(isOvertaken: Bool, flags: Int32) throws {
        let tree = try ProgramTree()
        try tree.save("a", "first", by: program)
        tree.quiet()
        let one = try tree.open("a", O_RDWR | O_TRUNC, by: program)
        try tree.write(one, Array("second".utf8))
        let numbers = (tree.nextUnique(), tree.nextUnique())
        let two = try tree.open(
            "a", O_RDWR | flags, by: other, unique: isOvertaken ? numbers.1 : numbers.0)
        tree.close(one, unique: isOvertaken ? numbers.0 : numbers.1)
        try tree.write(two, Array("third!".utf8))
        tree.close(two)
        // A program that empties the file replaces all of it, even if it was not closed: a child
        // that was just forked still has it open.
        let isSave = isOvertaken || flags & O_TRUNC != 0
        let expected = isSave ? ["first", "second", "third!"] : ["first", "third!"]
        #expect(try tree.texts("a") == expected)
        if isSave {
            let history = try #require(try tree.volume.history.document(at: names("a")))
            #expect(history.versions.map(\.program) == ["nano", "nano", "cp"])
        }
        try tree.checkInvariants()
    }

    /// Contents that are too large to be copied on suspicion wait for the close, or are copied when
    /// the whole is replaced.
    @Test(arguments: [O_TRUNC, O_APPEND, 0])
    func aCloseThatIsOvertakenOfALargeFile(flags: Int32) throws {
        var settings = ProgramTree.fast
        settings.copiedSizeMax = 4
        let tree = try ProgramTree(settings: settings)
        try tree.save("a", "first", by: program)
        tree.quiet()
        let one = try tree.open("a", O_RDWR | O_TRUNC, by: program)
        try tree.write(one, Array("second".utf8))
        let released = tree.nextUnique()
        var isClosed = false
        let close = {
            if !isClosed { tree.close(one, unique: released) }
            isClosed = true
        }
        tree.whenEarly = close
        let two = try tree.open("a", O_RDWR | flags, by: other)
        close()
        try tree.write(two, Array("third!".utf8))
        tree.close(two)
        let third = flags == O_APPEND ? "secondthird!" : "third!"
        #expect(try tree.texts("a") == ["first", "second", third])
        try tree.checkInvariants()
    }

    /// A close while other programs still write is no save; the last close is.
    @Test func theLastCloseSaves() throws {
        let tree = try ProgramTree()
        try tree.save("a", "0", by: program)
        let one = try tree.open("a", O_RDWR, by: program)
        let two = try tree.open("a", O_RDWR, by: other)
        try tree.write(one, Array("1".utf8))
        tree.close(one)
        #expect(try tree.texts("a") == ["0"])
        #expect(try tree.volume.history.document(at: names("a"))?.state == .writing)
        try tree.write(two, Array("2".utf8))
        tree.close(two)
        #expect(try tree.texts("a") == ["0", "2"])
        try tree.checkInvariants()
    }

    @Test func aMappingThatOutlivesItsHandleIsStillWriting() throws {
        let tree = try ProgramTree()
        try tree.save("a", "0123456789", by: program)
        tree.quiet()
        let handle = try tree.open("a", O_RDWR, by: program)
        let map = mmap(nil, 10, PROT_READ | PROT_WRITE, MAP_SHARED, handle.descriptor, 0)!
        map.storeBytes(of: UInt8(ascii: "x"), as: UInt8.self)
        tree.close(handle)
        usleep(100_000)
        #expect(try tree.volume.history.document(at: names("a"))?.state == .writing)
        map.storeBytes(of: UInt8(ascii: "y"), toByteOffset: 1, as: UInt8.self)
        munmap(map, 10)
        #expect(tree.quiet())
        #expect(try tree.texts("a") == ["0123456789", "xy23456789"])
        try tree.checkInvariants()
    }

    @Test func oldVersionsKeepTheirPermissionsAndTimes() throws {
        let tree = try ProgramTree()
        try tree.save("a", "1", by: program)
        chmod(tree.real("a"), 0o640)
        var status = stat()
        stat(tree.real("a"), &status)
        let time = FileSnapshot(status).modified
        try tree.save("a", "2", by: program)
        let history = try #require(try tree.volume.history.document(at: names("a")))
        let content = try tree.volume.versions.content(of: history.versions[0].id)
        #expect(content.manifest.entries[0].mode == 0o640)
        #expect(content.manifest.entries[0].modified == time)
        #expect(history.versions[0].modified == time)
    }
}
