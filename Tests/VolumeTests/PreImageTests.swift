import CLinux
import Foundation
import Glibc
import Model
import Support
import SystemCalls
import Testing

@testable import Volume

/// Old blocks that are overwritten in place: holes, blocks that were never written, zeros and data.
@Suite(.serialized) struct PreImageTests {
    private let program = Program(process: 10, name: "dd")
    private static let block = Int(PreImageLog.blockSize)

    /// Nothing is recorded before everything is written.
    private static let slow: Settings = {
        var settings = ProgramTree.fast
        (settings.settleSeconds, settings.patienceSeconds) = (600, 600)
        return settings
    }()

    private func stashedBytes(_ tree: ProgramTree) throws -> Int64 {
        try tree.volume.stash.entries().reduce(0) { sum, entry in
            var status = stat()
            let path = tree.store + "/stash/" + entry.file
            return lstat(path, &status) == 0 ? sum + Int64(status.st_blocks) * 512 : sum
        }
    }

    /// Array comparison is slow in debug builds.
    private func equal(_ one: [UInt8], _ other: [UInt8]) -> Bool {
        one.count == other.count && memcmp(one, other, one.count) == 0
    }

    /// `truncate -s 24M a; dd if=/dev/urandom of=a conv=notrunc`, or with `fallocate -l`.
    @Test(arguments: [false, true], [false, true])
    func zerosTakeLittleSpace(isAllocated: Bool, isKilled: Bool) throws {
        let tree = try ProgramTree()
        let size = 24 << 20
        try tree.save("a", "", by: program)
        try tree.truncate("a", to: Int64(size), by: program)
        if isAllocated {
            let file = try Descriptor(opening: tree.real("a"), flags: O_RDWR)
            try check(cl_fallocate(file.raw, 0, 0, Int64(size)))
        }
        #expect(tree.quiet(seconds: 60))
        var noise = Noise(seed: 1)
        let piece = noise.bytes(1 << 20)
        let handle = try tree.open("a", O_RDWR, by: program)
        for offset in stride(from: 0, to: size, by: piece.count) {
            try tree.write(handle, piece, at: Int64(offset))
        }
        #expect(try stashedBytes(tree) < 2 << 20)
        if isKilled {
            try tree.crash { Glibc.close(handle.descriptor) }
        } else {
            tree.close(handle)
        }
        #expect(tree.quiet(seconds: 60))
        let versions = try tree.versions("a").suffix(2)
        try #require(versions.count == 2)
        #expect(equal(versions[versions.startIndex], [UInt8](repeating: 0, count: size)))
        #expect(equal(versions.last!, Array(repeatElement(piece, count: 24).joined())))
        try tree.checkInvariants()
        tree.stop()
    }

    enum Disk: CaseIterable {
        case own, ext4, xfs

        /// XFS without clones, which are made instead of logs where they can.
        func make() throws -> LoopDisk? {
            switch self {
            case .own: nil
            case .ext4: try LoopDisk(.ext4, megabytes: 300)
            case .xfs: try LoopDisk(.xfs, megabytes: 320, options: ["-m", "reflink=0"])
            }
        }
    }

    /// A file with everything in it, overwritten here and there, read through two logs, after a
    /// crash or not.
    @Test(arguments: Disk.allCases, [false, true])
    func mixedBlocks(_ disk: Disk, isKilled: Bool) throws {
        guard disk == .own || geteuid() == 0 && LoopDisk.Kind.xfs.isPossible else { return }
        let loop = try disk.make()
        let store = loop.map { $0.path + "/store" }
        let tree = try ProgramTree(store: store, settings: PreImageTests.slow)
        var noise = Noise(seed: 2)
        let block = PreImageTests.block
        // The tail is shorter than a mark.
        let size = 40 * block + 20
        var old = [UInt8](repeating: 0, count: size)
        try tree.save("a", "", by: program)
        try tree.truncate("a", to: Int64(size), by: program)
        let raw = try Descriptor(opening: tree.real("a"), flags: O_RDWR).release()
        try check(cl_fallocate(raw, 0, Int64(20 * block), Int64(10 * block)))
        func put(_ bytes: [UInt8], at offset: Int) throws {
            try writeFully(raw, bytes, at: Int64(offset))
            old.replaceSubrange(offset..<offset + bytes.count, with: bytes)
        }
        try put(noise.bytes(2 * block), at: 2 * block)
        // The first page of this block is zeros.
        try put(noise.bytes(100), at: 7 * block + 5_000)
        try put(noise.bytes(100), at: 22 * block + block - 100)
        try put([UInt8](repeating: 0, count: block), at: 33 * block)
        try check(cl_fsync(raw, 0))
        try put(noise.bytes(10), at: 11 * block + 30_000)
        try put(noise.bytes(10), at: 26 * block + 30_000)
        // A program that has it open would keep it from being recorded.
        Glibc.close(raw)
        _ = try tree.volume.history.document(at: names("a"), timeoutSeconds: 60)
        var contents = [old]
        // What the first save puts into holes is on its way to the disk when the second one
        // overwrites it: nothing has been allocated for it.
        let ranges = [
            [1 * block..<5 * block, 7 * block + 10..<7 * block + 20, 10 * block..<12 * block],
            [
                6 * block..<9 * block, 10 * block..<11 * block, 21 * block..<34 * block,
                size - 5..<size,
            ],
        ]
        for ranges in ranges {
            let handle = try tree.open("a", O_RDWR, by: program)
            #expect(handle.node.writing.preImages != nil)
            for range in ranges {
                let bytes = noise.bytes(range.count)
                try tree.write(handle, bytes, at: Int64(range.lowerBound))
                old.replaceSubrange(range, with: bytes)
            }
            contents.append(old)
            tree.close(handle)
        }
        // Cuts off blocks that the log must have first.
        let handle = try tree.open("a", O_RDWR, by: program)
        try tree.truncate("a", to: Int64(15 * block + 7), by: program)
        contents.append(Array(old[..<(15 * block + 7)]))
        tree.close(handle)
        if isKilled { try tree.crash() }
        let versions = try tree.versions("a")
        try #require(versions.count == contents.count)
        for (version, content) in zip(versions, contents) {
            #expect(equal(version, content))
        }
        try tree.checkInvariants()
        tree.stop()
    }

    /// The disk is full in the middle of a block: the log has the block's beginning, and the file
    /// still has all of it.
    @Test(arguments: [false, true]) func aBlockThatWasSavedInPart(isKilled: Bool) throws {
        let scratch = Scratch()
        guard mount("tmpfs", scratch.path, "tmpfs", 0, "size=24m") == 0 else {
            print("not root: no small file system, not tested")
            return
        }
        defer { umount2(scratch.path, Int32(MNT_DETACH)) }
        do {
            let tree = try ProgramTree(
                store: scratch.path + "/store", settings: PreImageTests.slow)
            var noise = Noise(seed: 3)
            let old = noise.bytes(2 << 20)
            try tree.save("a", old, by: program)
            _ = try tree.volume.history.document(at: names("a"), timeoutSeconds: 60)
            let handle = try tree.open("a", O_RDWR, by: program)
            let filler = try Descriptor(
                opening: scratch.path + "/filler", flags: O_RDWR | O_CREAT, mode: 0o600)
            let filled = fill(filler.raw)
            try check(cl_ftruncate(filler.raw, filled - 20_480))
            #expect(throws: Errno.noSpace) { try tree.write(handle, [1], at: 70_000) }
            // What the failed write has left in the log is gone.
            #expect(try stashedBytes(tree) == 0)
            try check(cl_ftruncate(filler.raw, 0))
            try tree.write(handle, [1], at: 1 << 20)
            tree.close(handle)
            if isKilled { try tree.crash() }
            var new = old
            new[1 << 20] = 1
            let versions = try tree.versions("a")
            try #require(versions.count == 2)
            #expect(equal(versions[0], old))
            #expect(equal(versions[1], new))
            try tree.checkInvariants()
            tree.stop()
        }
    }

    /// Returns the size up to which the disk could be filled.
    private func fill(_ descriptor: Int32) -> Int64 {
        let page = [UInt8](repeating: 1, count: 4096)
        var size: Int64 = 0
        while cl_pwrite(descriptor, page, page.count, size) == page.count { size += 4096 }
        return size
    }
}
