import CLinux
import Foundation
import Glibc
import Model
import Support
import Synchronization
import SystemCalls
import Testing

@testable import Volume

/// A file system of 24 MB, of which a tenth must stay free.
@Suite(.serialized) struct RoomTests {
    let program = Program(process: 10, name: "cp")

    private func onSmallDisk(
        _ settings: Settings = ProgramTree.fast, _ body: (ProgramTree, String) throws -> Void
    ) throws {
        let scratch = Scratch()
        guard mount("tmpfs", scratch.path, "tmpfs", 0, "size=24m") == 0 else {
            print("not root: no small file system, not tested")
            return
        }
        var settings = settings
        settings.freeShare = 0.1
        do {
            let tree = try ProgramTree(store: scratch.path + "/store", settings: settings)
            try body(tree, scratch.path)
            tree.stop()
        }
        // Unmounts lazily, because the last descriptors are closed when the volume is freed.
        umount2(scratch.path, Int32(MNT_DETACH))
    }

    private func wait(for what: String, _ isSo: () throws -> Bool) throws {
        let end = Date() + 30
        while try !isSo() {
            try #require(Date() < end, "no \(what)")
            usleep(5_000)
        }
    }

    private func free(_ disk: String) throws -> Int64 {
        let directory = try Descriptor(opening: disk, flags: O_RDONLY | O_DIRECTORY)
        return try #require(DiskSpace(of: directory.raw)).free
    }

    /// There is no space to record deleted contents, so they are removed.
    @Test func deletedContentsAreRemovedForSpace() throws {
        try onSmallDisk { tree, disk in
            var noise = Noise(seed: 1)
            let big = noise.bytes(14_000_000)
            try tree.save("kept", "1", by: program)
            for _ in 0..<3 {
                try tree.save("big", big, by: program)
                #expect(tree.quiet())
                try tree.unlink("big", by: program)
                try wait(for: "room") { try free(disk) > 18_000_000 }
            }
            #expect(try tree.texts("kept") == ["1"])
            let status = try VolumeStatus(of: tree.volume)
            #expect(status.notices.contains { $0.contains("were removed since") })
            #expect(status.problems == [])
            try tree.checkInvariants()
        }
    }

    /// The newest versions stay, and the labelled one regardless of its age.
    @Test func oldVersionsAreRemovedOldestFirst() throws {
        try onSmallDisk { tree, disk in
            var noise = Noise(seed: 2)
            var saved: [[UInt8]] = []
            for number in 1...40 {
                saved.append(noise.bytes(900_000))
                try tree.save("a", saved[saved.count - 1], by: program)
                if number == 2 {
                    try tree.volume.retention.setLabel("mine", version: 2, at: names("a"))
                }
                #expect(tree.quiet())
            }
            let left = try tree.versions("a")
            #expect(left.count > 3 && left.count < 40)
            #expect(left[0] == saved[1])
            #expect(Array(left.dropFirst()) == Array(saved.suffix(left.count - 1)))
            #expect(try free(disk) > 1_000_000)
            try tree.checkInvariants()
        }
    }

    /// The replaced contents of a file are removed to make room.
    @Test func replacedContentsAreRemovedForSpace() throws {
        try onSmallDisk { tree, disk in
            var noise = Noise(seed: 3)
            var last: [UInt8] = []
            for _ in 0..<4 {
                last = noise.bytes(9_000_000)
                try wait(for: "room") { try free(disk) > 10_000_000 }
                try tree.replace("a", last, by: program)
                #expect(tree.quiet())
                #expect(try tree.versions("a").last == last)
            }
            try tree.checkInvariants()
        }
    }

    /// Versions that only this device has, or that were not sent to the hub, stay.
    @Test func unsentVersionsStay() throws {
        try onSmallDisk { tree, disk in
            var noise = Noise(seed: 4)
            let big = noise.bytes(13_000_000)
            try tree.save("big", big, by: program)
            #expect(tree.quiet())
            let item = try #require(try tree.item("big"))
            try tree.volume.journal.write { try $0.addUnsent(item.key) }
            try tree.unlink("big", by: program)
            try wait(for: "a try") { tree.volume.room.hasFailed }
            #expect(try tree.volume.stash.entries().count == 1)
            try tree.volume.journal.write { try $0.removeUnsent(item.key) }
            try wait(for: "room") { try free(disk) > 18_000_000 }
            try tree.checkInvariants()
        }
    }

    /// A named version that only a former hub had stays: that hub may be gone.
    @Test(arguments: [false, true]) func versionsOfAFormerHubStay(isHubGone: Bool) throws {
        let tree = try ProgramTree()
        try tree.save("a", "one", by: program)
        #expect(tree.quiet())
        // From here on the recorder waits for ten minutes before it records a save.
        var settings = ProgramTree.fast
        (settings.settleSeconds, settings.patienceSeconds) = (600, 600)
        settings.closingSeconds = 0
        try tree.remount(settings: settings)
        let version = try #require(try tree.item("a")?.current)
        try tree.volume.journal.write { t in
            try t.setCurrentHub(volume: .random(), epoch: .random())
            try t.setDurability([version], to: .hub)
            try t.setLabel(version, "named")
            if isHubGone { try t.setCurrentHub(volume: .random(), epoch: .random()) }
        }
        try tree.replace("a", Array("two".utf8), by: program)
        let removable = Mutex<Int?>(nil)
        let recorder = tree.volume.recorder
        recorder.signal.change {
            recorder.tasks.append { recorder in
                let found = try? recorder.writer.journal.read {
                    try recorder.retention.contents.removable($0)
                }
                removable.withLock { $0 = found?.count }
            }
        }
        try wait(for: "an answer") { removable.withLock { $0 != nil } }
        #expect(removable.withLock { $0 } == (isHubGone ? 0 : 1))
        tree.stop()
    }

    /// While nothing can be noted or recorded for want of space, removals by programs are processed
    /// and make room.
    @Test func removalsAreProcessedWhileTheRecorderWaits() throws {
        try onSmallDisk { tree, disk in
            var noise = Noise(seed: 5)
            try tree.save("big", noise.bytes(14_000_000), by: program)
            #expect(tree.quiet())
            try tree.volume.recorder.carryOut { (recorder) throws(VolumeError) in
                recorder.pauses.pause(seconds: 3600)
            }
            try tree.unlink("big", by: program)
            var tries = 0
            try tree.volume.room.withRoom(for: 12_000_000) { () throws(Errno) in
                tries += 1
                if tries == 1 { throw .noSpace }
            }
            #expect(try free(disk) > 12_000_000)
            try tree.checkInvariants()
        }
    }

    /// Space that was freed for one program may be taken by another.
    @Test func aWriteIsTriedAgainWhileThereIsSpace() throws {
        try onSmallDisk { tree, _ in
            var tries = 0
            try tree.volume.room.withRoom { () throws(Errno) in
                tries += 1
                if tries < 5 { throw .noSpace }
            }
            #expect(tries == 5)
        }
    }

    /// A request during a search may be due to a removal that the search has not seen.
    @Test func aSearchAnswersEarlierRequestsOnly() throws {
        let scratch = Scratch()
        let directory = try Descriptor(opening: scratch.path, flags: O_RDONLY | O_DIRECTORY)
        var settings = Settings()
        settings.freeShare = 0.1
        let room = Room(directory: directory.raw, settings: settings)
        let search = room.begin()
        let result = Mutex<SpaceRequests.Answer?>(nil)
        let deadline = cl_clock_monotonic_ns() + 60_000_000_000
        Thread.detachNewThread {
            let answer = room.make(1, until: deadline)
            result.withLock { $0 = answer }
        }
        try wait(for: "a request") { room.due != nil }
        room.end(search, .nothing)
        #expect(room.due != nil)
        room.end(room.begin(), .freed)
        try wait(for: "an answer") { result.withLock { $0 } != nil }
        #expect(result.withLock { $0 } == .freed)
    }

    /// Nothing is removed for a program that asks for more than all that could be removed.
    @Test func nothingIsRemovedInVain() throws {
        try onSmallDisk { tree, _ in
            var noise = Noise(seed: 6)
            for _ in 0..<5 { try tree.save("a", noise.bytes(900_000), by: program) }
            #expect(tree.quiet())
            let before = try tree.versions("a")
            #expect(throws: Errno.noSpace) {
                try tree.volume.room.withRoom(for: 1 << 40) { () throws(Errno) in
                    throw .noSpace
                }
            }
            #expect(before.count == 5)
            #expect(try tree.versions("a") == before)
        }
    }

    /// Prior contents of packages are removed like those of files.
    @Test func contentsOfPackagesAreRemovedForSpace() throws {
        try onSmallDisk { tree, disk in
            var noise = Noise(seed: 7)
            try tree.mkdir("p.pages", by: program)
            let small = noise.bytes(1_000)
            try tree.save("p.pages/small", small, by: program)
            try tree.save("p.pages/big", noise.bytes(9_000_000), by: program)
            #expect(tree.quiet())
            for _ in 0..<3 {
                try tree.replace("p.pages/big", noise.bytes(9_000_000), by: program)
                try wait(for: "room") { try free(disk) > 10_000_000 }
                #expect(tree.quiet())
                #expect(tree.contents("p.pages/small") == small)
            }
            #expect(try tree.item("p.pages")?.current != nil)
            let status = try VolumeStatus(of: tree.volume)
            #expect(status.notices.contains { $0.contains("were removed since") })
            #expect(status.problems == [])
            try tree.checkInvariants()
        }
    }

    /// A file is removed, and the program that creates the next one under its name needs its space.
    @Test func aRemovedFileGivesWayToTheNextOneOfItsName() throws {
        try onSmallDisk { tree, disk in
            var noise = Noise(seed: 8)
            try tree.save("big", noise.bytes(14_000_000), by: program)
            try tree.unlink("big", by: program)
            let next = try tree.open("big", O_WRONLY | O_CREAT | O_EXCL, by: program)
            var tries = 0
            try tree.volume.room.withRoom(for: 12_000_000) { () throws(Errno) in
                tries += 1
                if tries == 1 { throw .noSpace }
            }
            #expect(try free(disk) > 12_000_000)
            tree.close(next)
            try tree.checkInvariants()
        }
    }

    /// A program appends to the file that fills the disk. The log of its old blocks is empty, so
    /// nobody waits for the program's own close.
    @Test func anAppenderIsRefusedWithoutWaitingForItself() throws {
        try onSmallDisk { tree, disk in
            var noise = Noise(seed: 9)
            try tree.save("big", noise.bytes(15_000_001), by: program)
            #expect(tree.quiet())
            let handle = try tree.open("big", O_WRONLY | O_APPEND, by: program)
            defer { tree.close(handle) }
            #expect(handle.node.writing.preImages != nil)
            let bytes = try free(disk) - 1_000_000
            #expect(throws: Errno.noSpace) {
                try tree.volume.room.withRoom(for: bytes) { () throws(Errno) in throw .noSpace }
            }
            #expect(tree.volume.room.hasFailed, "The search knew that nothing may be removed.")
        }
    }

    /// Where the file system clones, the copy of what the program is about to change shares all its
    /// blocks with the file, so its close frees none of them.
    @Test(
        .enabled(if: LoopDisk.Kind.xfs.isPossible && geteuid() == 0),
        arguments: [O_APPEND, 0] as [Int32])
    func clonesAreNoSpace(flags: Int32) throws {
        let disk = try LoopDisk(.xfs, megabytes: 320)
        var settings = ProgramTree.fast
        settings.freeShare = 0.1
        let tree = try ProgramTree(store: disk.path + "/store", settings: settings)
        var noise = Noise(seed: 10)
        try tree.save("big", noise.bytes(100_000_001), by: program)
        #expect(tree.quiet())
        let handle = try tree.open("big", O_WRONLY | flags, by: program)
        #expect(handle.node.writing.preImages == nil, "It was cloned.")
        try wait(for: "the measurement") {
            tree.volume.recorder.freeable.isCurrent(at: tree.volume.journal.transactionCount)
        }
        #expect(tree.volume.recorder.freeable.bytes < 1_000_000)
        let bytes = try free(disk.path) - 1_000_000
        #expect(throws: Errno.noSpace) {
            try tree.volume.room.withRoom(for: bytes) { () throws(Errno) in throw .noSpace }
        }
        #expect(tree.volume.room.hasFailed, "The search knew that nothing may be removed.")
        tree.close(handle)
        #expect(tree.quiet())
        try tree.checkInvariants()
        tree.stop()
    }

    /// What a program keeps open is stored in the packs too. That gives way before any version.
    @Test func duplicatesGiveWayFirst() throws {
        try onSmallDisk { tree, disk in
            var noise = Noise(seed: 8)
            try tree.save("a", "1", by: program)
            #expect(tree.quiet())
            let big = noise.bytes(6_000_000)
            try tree.replace("a", big, by: program)
            let handle = try tree.open("a", O_RDWR, by: program)
            #expect(tree.quiet())
            #expect(tree.volume.packs.bytes() > 5_000_000)
            tree.close(handle)
            #expect(tree.quiet())
            try tree.volume.room.withRoom(for: 14_000_000) { () throws(Errno) in
                guard let free = try? free(disk), free > 14_000_000 else { throw .noSpace }
            }
            #expect(tree.volume.packs.bytes() < 1_000_000)
            #expect(try tree.versions("a") == [Array("1".utf8), big])
            // What is overwritten now is copied first.
            try tree.save("a", "3", by: program)
            #expect(tree.quiet())
            #expect(try tree.versions("a") == [Array("1".utf8), big, Array("3".utf8)])
            try tree.checkInvariants()
        }
    }
}
