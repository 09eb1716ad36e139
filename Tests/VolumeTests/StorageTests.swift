import CLinux
import ChunkStore
import Foundation
import Glibc
import Journal
import Model
import Support
import SystemCalls
import Testing

@testable import Volume

/// Bytes are stored once.
@Suite struct StorageTests {
    let program = Program(process: 10, name: "cp")

    private func packBytes(_ tree: ProgramTree) -> Int { Int(tree.volume.packs.bytes()) }

    /// The status agrees with du(1), also for an empty tree: the journal and what is reserved for
    /// it.
    @Test func theStatusShowsTheSizeOfAStore() throws {
        let tree = try ProgramTree()
        for index in 0..<200 { try tree.save("a", "\(index)", by: program) }
        try tree.unlink("a", by: program)
        #expect(tree.quiet())
        try wait(for: "the reserve") { tree.volume.store.reserve.isWhole ? () : nil }
        let status = try VolumeStatus(of: tree.volume)
        var taken: Int64 = 0
        for path in try FileManager.default.subpathsOfDirectory(atPath: tree.store)
        where !path.hasPrefix("tree") {
            var status = stat()
            if lstat("\(tree.store)/\(path)", &status) == 0, status.st_mode & S_IFMT == S_IFREG {
                taken += Int64(status.st_blocks) * 512
            }
        }
        #expect(abs(status.storeBytes - taken) < 300_000, "\(status.storeBytes) of \(taken)")
        #expect(status.reserveBytes > 0 && status.journalBytes > 0)
        #expect(status.reserveBytes + status.journalBytes <= status.storeBytes)
    }

    @Test func unchangedContentsAreInTheTreeOnly() throws {
        let tree = try ProgramTree()
        var noise = Noise(seed: 1)
        for index in 0..<40 { try tree.save("photo\(index)", noise.bytes(500_000), by: program) }
        try tree.checkInvariants()
        #expect(packBytes(tree) == 0)
        try tree.remount()
        try tree.rename("photo1", "photo one", by: program)
        try tree.unlink("photo one", by: program)
        try tree.checkInvariants()
        #expect((500_000..<501_000).contains(packBytes(tree)))
    }

    @Test(arguments: [false, true]) func aLargeFileChangedInPlaceCostsWhatChanged(cuts: Bool) throws
    {
        let tree = try ProgramTree()
        var noise = Noise(seed: 2)
        var bytes = noise.bytes(64 << 20)
        try tree.save("disk.img", bytes, by: program)
        if cuts { tree.quiet() }
        let patch = noise.bytes(1 << 20)
        try tree.writeInPlace("disk.img", patch, at: 20_000_000, by: program)
        let old = bytes
        bytes.replaceSubrange(20_000_000..<20_000_000 + patch.count, with: patch)
        #expect(try tree.versions("disk.img") == [old, bytes])
        try tree.checkInvariants()
        #expect(packBytes(tree) > 1 << 20)
        #expect(packBytes(tree) < 3 << 20)
    }

    @Test func aLargeFileReplacedCostsWhatDiffers() throws {
        let tree = try ProgramTree()
        var noise = Noise(seed: 3)
        var bytes = noise.bytes(60 << 20)
        try tree.save("film", bytes, by: program)
        tree.quiet()
        let old = bytes
        bytes.replaceSubrange(30_000_000..<30_000_000, with: noise.bytes(100_000))
        try tree.replace("film", bytes, by: program)
        #expect(try tree.versions("film") == [old, bytes])
        try tree.checkInvariants()
        #expect(packBytes(tree) < 2 << 20)
        try tree.save("film", old, by: program)
        try tree.checkInvariants()
        #expect(packBytes(tree) < 4 << 20)
    }

    /// From the third save on, a large file is stored ahead of time, so that it can be written
    /// directly.
    @Test func filesWrittenInPlaceRepeatedlyAreStoredAhead() throws {
        let tree = try ProgramTree()
        var noise = Noise(seed: 4)
        try tree.save("mail.mbox", noise.bytes(3_000_000), by: program)
        var guarded: [Bool] = []
        for _ in 0..<5 {
            tree.quiet()
            let handle = try tree.open("mail.mbox", O_RDWR, by: program)
            guarded.append(handle.preImages != nil)
            try tree.write(handle, noise.bytes(100), at: 1_000_000)
            tree.close(handle)
        }
        #expect(guarded == [true, true, false, false, false])
        #expect(try tree.versions("mail.mbox").count == 6)
        try tree.checkInvariants()
        #expect(packBytes(tree) < 5_000_000)
    }

    @Test func forgottenVersionsLeaveThePacks() throws {
        let tree = try ProgramTree()
        var noise = Noise(seed: 5)
        var contents: [[UInt8]] = []
        for _ in 0..<6 {
            contents.append(noise.bytes(400_000))
            try tree.save("a", contents.last!, by: program)
        }
        tree.quiet()
        try tree.volume.retention.setLabel("mine", version: 3, at: names("a"))
        let full = packBytes(tree)
        for number in [1, 2, 4, 5] {
            try tree.volume.retention.forget(version: number, at: names("a"))
        }
        #expect(throws: VolumeError.self) {
            try tree.volume.retention.forget(version: 6, at: names("a"))
        }
        #expect(throws: VolumeError.self) {
            try tree.volume.retention.forget(version: 9, at: names("a"))
        }
        try wait(for: "smaller packs") { packBytes(tree) > full / 3 ? nil : () }
        #expect((400_000..<410_000).contains(packBytes(tree)))
        #expect(try tree.versions("a") == [contents[2], contents[5]])
        #expect(try tree.volume.history.document(at: names("a"))?.versions.first?.label == "mine")
        try tree.checkInvariants()
        try tree.save("a", "next", by: program)
        #expect(
            try tree.volume.history.document(at: names("a"))?.versions.map(\.number) == [3, 6, 7])
        try tree.checkInvariants()
    }

    /// The file's attributes show no change, but its bytes differ from what was recorded.
    @Test func damageIsReportedAndDoesNotSpread() throws {
        let tree = try ProgramTree()
        var noise = Noise(seed: 6)
        let contents = (0..<3).map { _ in noise.bytes(300_000) }
        for bytes in contents { try tree.save("a", bytes, by: program) }
        try tree.save("b", "1", by: program)
        try tree.save("b", "2", by: program)
        tree.quiet()
        let versions = try #require(try tree.volume.history.document(at: names("a"))).versions
        let manifest = try tree.volume.versions.content(of: versions[0].id).manifest
        let first = manifest.entries[0].chunks[0].id
        let place = try #require(try tree.volume.journal.read { try $0.place(of: first) })
        try tree.remount {
            let path = tree.store + "/chunks/" + packName(place.pack)
            let file = try Descriptor(opening: path, flags: O_RDWR)
            try [UInt8](repeating: 0xAA, count: 16).withUnsafeBytes {
                try file.write($0, at: Int64(place.offset) + 100)
            }
        }
        #expect(tree.quiet())
        #expect(throws: VolumeError.self) { try tree.bytes(of: versions[0]) }
        #expect(try tree.bytes(of: versions[1]) == contents[1])
        #expect(try tree.texts("b") == ["1", "2"])
        let damage = Examination.findings(in: tree.volume, repair: true, progress: { _, _ in })
            .filter { $0.severity == .damage }
        #expect(damage.count == 1)
        #expect(damage.first?.message.contains("Version 1 of a ") == true)
    }

    @Test("a store explains placeholders to people who copy it") func note() throws {
        let tree = try ProgramTree()
        let text = try String(contentsOfFile: tree.store + "/README.txt", encoding: .utf8)
        #expect(text.contains("placeholders") && text.contains("user.concord.absent"))
        #expect(text.contains("fsctl download"))
        tree.stop()
    }
}
