import CLinux
import Foundation
import Glibc
import Model
import SystemCalls
import Testing

@testable import Volume

/// Documents that are larger than what is free: a file system of 24 MB, and 14 MB in one file.
@Suite(.serialized) struct GivingUpTests {
    private let program = Program(process: 10, name: "cp")
    private static let size = 14_000_001

    /// `isSlow`: nothing is recorded unless a caller waits for it.
    private func onSmallDisk(isSlow: Bool = false, _ body: (ProgramTree) throws -> Void) throws {
        let scratch = Scratch()
        guard mount("tmpfs", scratch.path, "tmpfs", 0, "size=24m") == 0 else {
            print("not root: no small file system, not tested")
            return
        }
        // Unmounts lazily, because the last descriptors are closed when the volume is freed.
        defer { umount2(scratch.path, Int32(MNT_DETACH)) }
        var settings = ProgramTree.fast
        settings.freeShare = 0.1
        if isSlow { (settings.settleSeconds, settings.patienceSeconds) = (600, 600) }
        let tree = try ProgramTree(store: scratch.path + "/store", settings: settings)
        try body(tree)
        tree.stop()
    }

    private func saved(_ tree: ProgramTree, seed: UInt64) throws -> [UInt8] {
        var noise = Noise(seed: seed)
        let bytes = noise.bytes(GivingUpTests.size)
        try tree.save("a", bytes, by: program)
        #expect(try tree.versions("a") == [bytes])
        return bytes
    }

    enum Way: CaseIterable {
        /// `: > a`, `cp other a`
        case emptied
        /// truncate(2)
        case truncated
        /// `truncate -s 0 a` opens the file first.
        case truncatedByWriter
        /// `dd of=a conv=notrunc`
        case overwritten

        /// Returns what the file holds afterwards.
        fileprivate func change(_ tree: ProgramTree, by program: Program) throws -> [UInt8] {
            var noise = Noise(seed: 99)
            switch self {
            case .emptied:
                let bytes = noise.bytes(100_000)
                try tree.save("a", bytes, by: program)
                return bytes
            case .truncated:
                try tree.truncate("a", to: 0, by: program)
                return []
            case .truncatedByWriter:
                let handle = try tree.open("a", O_WRONLY, by: program)
                defer { tree.close(handle) }
                try tree.truncate("a", to: 10, by: program)
                return try tree.read(handle)
            case .overwritten:
                let bytes = noise.bytes(GivingUpTests.size)
                let handle = try tree.open("a", O_WRONLY, by: program)
                defer { tree.close(handle) }
                for start in stride(from: 0, to: bytes.count, by: 1 << 20) {
                    let end = min(start + 1 << 20, bytes.count)
                    try tree.write(handle, Array(bytes[start..<end]), at: Int64(start))
                }
                return bytes
            }
        }
    }

    @Test(arguments: Way.allCases, [false, true])
    func oldContentsGiveWayToTheirWriter(_ way: Way, isKilled: Bool) throws {
        try onSmallDisk { tree in
            _ = try saved(tree, seed: 1)
            let new = try way.change(tree, by: program)
            if isKilled {
                try tree.crash()
            } else {
                let status = try VolumeStatus(of: tree.volume)
                #expect(status.notices.contains { $0.contains("were removed since") })
                #expect(status.problems == [])
            }
            #expect(tree.quiet())
            #expect(tree.contents("a") == new)
            // An empty file has no version.
            #expect(try tree.versions("a") == (new.isEmpty ? [] : [new]))
            #expect(try tree.volume.stash.entries().isEmpty)
            try tree.checkInvariants()
        }
    }

    /// What gives way to no other program does not give way to this one.
    @Test(arguments: Way.allCases) func labelledContentsStay(_ way: Way) throws {
        try onSmallDisk { tree in
            let old = try saved(tree, seed: 2)
            try tree.volume.retention.setLabel("mine", version: 1, at: names("a"))
            #expect(throws: Errno.noSpace) { _ = try way.change(tree, by: program) }
            if way != .overwritten { #expect(tree.contents("a") == old) }
            #expect(try tree.versions("a").first == old)
            try tree.crash()
            #expect(try tree.versions("a").first == old)
        }
    }

    /// The bytes of another document's last version are in this file.
    @Test(arguments: [Way.emptied, .truncated]) func contentsOfAnotherDocumentStay(_ way: Way)
        throws
    {
        try onSmallDisk(isSlow: true) { tree in
            let old = try saved(tree, seed: 3)
            try tree.rename("a", "a~", by: program)
            try tree.save("a", "new", by: program)
            try tree.rename("a", "b", by: program)
            try tree.rename("a~", "a", by: program)
            #expect(throws: Errno.noSpace) { _ = try way.change(tree, by: program) }
            #expect(tree.contents("a") == old)
        }
    }

    /// The daemon is killed when the old contents are forgotten and nothing is written yet.
    @Test(arguments: [false, true]) func killedBeforeTheFirstByte(hasLog: Bool) throws {
        try onSmallDisk(isSlow: true) { tree in
            var expected = try saved(tree, seed: 4)
            if hasLog {
                let handle = try tree.open("a", O_WRONLY, by: program)
                try tree.write(handle, [1, 2, 3], at: 1 << 20)
                expected.replaceSubrange((1 << 20)..<(1 << 20) + 3, with: [1, 2, 3])
                #expect(tree.volume.oldContents.giveUp(try #require(handle.preImages)))
                #expect(try tree.volume.stash.entries().isEmpty)
                try tree.crash { Glibc.close(handle.descriptor) }
            } else {
                let item = try #require(try tree.item("a"))
                #expect(
                    tree.volume.oldContents.giveUp(
                        contentsOf: item.inode, nil, bytes: Int64(GivingUpTests.size)))
                #expect(try tree.item("a")?.current == nil)
                try tree.crash()
            }
            #expect(try tree.versions("a") == [expected])
            try tree.checkInvariants()
        }
    }

    /// Logs of earlier saves are read through the present contents. When these are overwritten
    /// without a log, they would be read from what is written next.
    @Test func earlierSavesThatAreReadThroughItGoToo() throws {
        try onSmallDisk(isSlow: true) { tree in
            var second = try saved(tree, seed: 5)
            try tree.writeInPlace("a", [1, 2, 3], at: 0, by: program)
            second.replaceSubrange(0..<3, with: [1, 2, 3])
            try tree.writeInPlace("a", [4, 5, 6], at: 1 << 20, by: program)
            #expect(try tree.volume.stash.entries().count == 2)
            try tree.save("a", "new", by: program)
            #expect(try tree.texts("a") == ["new"])
            #expect(try tree.volume.stash.entries().isEmpty)
            try tree.checkInvariants()
        }
    }

    /// An append destroys nothing, so nothing gives way to it.
    @Test func nothingIsGivenUpForAnAppend() throws {
        try onSmallDisk { tree in
            _ = try saved(tree, seed: 6)
            let version = try tree.item("a")?.current
            let handle = try tree.open("a", O_WRONLY | O_APPEND, by: program)
            let bytes = [UInt8](repeating: 7, count: 1 << 20)
            #expect(throws: Errno.noSpace) {
                for _ in 0..<20 { try tree.write(handle, bytes) }
            }
            #expect(try tree.item("a")?.current == version && version != nil)
            let status = try VolumeStatus(of: tree.volume)
            #expect(!status.notices.contains { $0.contains("were removed since") })
            tree.close(handle)
        }
    }
}
