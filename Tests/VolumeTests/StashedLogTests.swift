import Foundation
import Glibc
import Model
import Support
import SystemCalls
import Testing

@testable import Volume

/// The logs of databases that are kept with contents in the stash.
@Suite struct StashedLogTests {
    /// Whether a program writes to the log after it was kept.
    @Test(arguments: [false, true], ["-wal", "-journal"])
    func aClockThatWasSetBackLosesNoLog(isWritten: Bool, ending: String) throws {
        let scratch = Scratch()
        let directory = try Descriptor(opening: scratch.path, flags: O_PATH | O_DIRECTORY)
        let stash = Stash(directory: directory.raw, firstSequence: 1)
        let log = scratch.path + "/x.db" + ending
        try Data("log".utf8).write(to: URL(filePath: log))
        // The clock was an hour ahead when the program wrote the log.
        let ahead = timespec(tv_sec: time(nil) + 3_600, tv_nsec: 0)
        #expect(utimensat(AT_FDCWD, log, [ahead, ahead], 0) == 0)
        let snapshot = FileSnapshot(
            inode: 1, mode: 0o100644, size: 512, modified: 1, changed: 1)
        let spot = DirectoryEntry(directory: 1, name: Name("x.db"))
        let name = stash.newName(
            .displaced, snapshot, spot: spot,
            actor: Actor(process: 1, uid: 0, program: "rm"))
        "x.db".withCString { text in
            stash.linkLog(
                beside: Place(descriptor: directory.raw, inode: 1, name: text), of: name)
        }
        if isWritten {
            let handle = try FileHandle(forWritingTo: URL(filePath: log))
            try handle.write(contentsOf: Data("LOG".utf8))
            try handle.close()
        }
        #expect(unlink(log) == 0)
        let entry = try #require(Stash.parse(name))
        let isThere = try stash.openLog(of: entry) != nil
        #expect(isThere == !isWritten)
    }

    @Test("the log of a database whose name is not UTF-8 is kept")
    func aNameInBytes() throws {
        let scratch = Scratch()
        let directory = try Descriptor(opening: scratch.path, flags: O_RDONLY | O_DIRECTORY)
        let stash = Stash(directory: directory.raw, firstSequence: 1)
        let database = Name(bytes: [0x78, 0xFF] + Array(".db".utf8))
        let log = Name(bytes: database.bytes + Array("-wal".utf8))
        let made = log.withCString { openat(directory.raw, $0, O_WRONLY | O_CREAT, 0o600) }
        let file = Descriptor(owning: try check(made))
        try writeFully(file.raw, Array("log".utf8), at: 0)
        let snapshot = FileSnapshot(inode: 1, mode: 0o100644, size: 512, modified: 1, changed: 1)
        let name = stash.newName(
            .displaced, snapshot, spot: DirectoryEntry(directory: 1, name: database),
            actor: Actor(process: 1, uid: 0, program: "rm"))
        database.withCString { text in
            stash.linkLog(
                beside: Place(descriptor: directory.raw, inode: 1, name: text), of: name)
        }
        #expect(log.withCString { unlinkat(directory.raw, $0, 0) } == 0)
        let entry = try #require(Stash.parse(name))
        #expect(try stash.openLog(of: entry) != nil)
    }
}
