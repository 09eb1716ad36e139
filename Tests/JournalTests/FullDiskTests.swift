import Foundation
import Glibc
import Journal
import Model
import Testing

/// These tests run on a file system of 3 MB. Only root can mount one.
@Suite(.enabled(if: geteuid() == 0, "needs root to mount a tmpfs"))
struct FullDiskTests {
    /// A small file system, which is mounted until the test ends.
    private final class SmallDisk {
        let scratch: Scratch
        var path: String { scratch.directory + "/disk/journal.sqlite" }

        init() throws {
            scratch = try Scratch()
            let point = scratch.directory + "/disk"
            try FileManager.default.createDirectory(
                atPath: point, withIntermediateDirectories: false)
            try #require(mount("tmpfs", point, "tmpfs", 0, "size=3m") == 0)
        }

        deinit { umount2(scratch.directory + "/disk", Int32(MNT_DETACH)) }
    }

    @Test func earlierRowsOutliveAFullDisk() throws {
        let disk = try SmallDisk()
        let journal = try Journal.open(path: disk.path, mayCreate: true)
        try journal.write { try $0.insert(file("before")) }
        #expect(
            failure(naming: disk.path) { () throws(VolumeError) in
                try journal.write { transaction in
                    for index in 0..<100_000 { try transaction.insert(file("f\(index)")) }
                }
            } == .full)
        #expect(try journal.read { try $0.itemCount() } == 2)
        // There is room again once the log is reused from its beginning after the failed
        // transaction.
        try journal.write { try $0.insert(file("after")) }
        try journal.close()
        let again = try Journal.open(path: disk.path, checked: true)
        let names = try again.read { try $0.children(of: Item.root).map(\.name.text) }
        #expect(names == ["after", "before"])
        try again.close()
    }

    @Test func aSwallowedErrorDoesNotCommitHalf() throws {
        let disk = try SmallDisk()
        let journal = try Journal.open(path: disk.path, mayCreate: true)
        #expect(
            failure(naming: disk.path) { () throws(VolumeError) in
                try journal.write { transaction in
                    for index in 0..<100_000 { _ = try? transaction.insert(file("f\(index)")) }
                }
            } == .full)
        #expect(try journal.read { try $0.itemCount() } == 1)
        try journal.close()
    }

    /// The journal exists, but SQLite makes its shared memory again at each opening.
    @Test func openingOnAFullDiskSaysThatItIsFull() throws {
        let disk = try SmallDisk()
        let journal = try Journal.open(path: disk.path, mayCreate: true)
        try journal.write { try $0.insert(file("before")) }
        try journal.close()
        let filler = disk.scratch.directory + "/disk/filler"
        #expect(FileManager.default.createFile(atPath: filler, contents: nil))
        let handle = try #require(FileHandle(forWritingAtPath: filler))
        while (try? handle.write(contentsOf: Data(count: 4096))) != nil {}
        try handle.close()
        for checked in [false, true] {
            #expect(
                failure(naming: disk.path) { () throws(VolumeError) in
                    let journal = try Journal.open(path: disk.path, checked: checked)
                    try journal.write { try $0.insert(file("after")) }
                } == .full)
        }
        try FileManager.default.removeItem(atPath: filler)
        let again = try Journal.open(path: disk.path, checked: true)
        #expect(try again.read { try $0.itemCount() } == 2)
        try again.close()
    }

    @Test func aDiskWithNoRoomAtAllIsFullAlsoForOpening() throws {
        let disk = try SmallDisk()
        let filler = disk.scratch.directory + "/disk/filler"
        #expect(FileManager.default.createFile(atPath: filler, contents: nil))
        let handle = try #require(FileHandle(forWritingAtPath: filler))
        while (try? handle.write(contentsOf: Data(count: 4096))) != nil {}
        try handle.close()
        #expect(
            failure(naming: disk.path) { () throws(VolumeError) in
                try Journal.open(path: disk.path, mayCreate: true)
            } == .full)
        try FileManager.default.removeItem(atPath: filler)
        let journal = try Journal.open(path: disk.path, mayCreate: true)
        #expect(try journal.read { try $0.itemCount() } == 1)
        let backup = disk.scratch.directory + "/disk/backup.sqlite"
        try journal.write { transaction in
            for index in 0..<4000 { try transaction.insert(file("f\(index)")) }
        }
        try journal.checkpoint()
        #expect(FileManager.default.createFile(atPath: filler, contents: nil))
        let second = try #require(FileHandle(forWritingAtPath: filler))
        while (try? second.write(contentsOf: Data(count: 4096))) != nil {}
        try second.close()
        #expect(
            failure(naming: backup) { () throws(VolumeError) in
                try journal.backup(to: backup)
            } == .full)
        #expect(!FileManager.default.fileExists(atPath: backup))
        #expect(try journal.read { try $0.itemCount() } == 4001)
        try journal.close()
    }
}
