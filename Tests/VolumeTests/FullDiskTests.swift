import CLinux
import Foundation
import Glibc
import Model
import Support
import SystemCalls
import Testing

@testable import Volume

/// A store on a file system of 24 MB.
@Suite(.serialized) struct FullDiskTests {
    let program = Program(process: 10, name: "cp")

    private func onSmallDisk(_ body: (ProgramTree, String) throws -> Void) throws {
        let scratch = Scratch()
        guard mount("tmpfs", scratch.path, "tmpfs", 0, "size=24m") == 0 else {
            print("not root: no small file system, not tested")
            return
        }
        do {
            let tree = try ProgramTree(store: scratch.path + "/store")
            try body(tree, scratch.path)
            tree.stop()
        }
        // Unmounts lazily, because the last descriptors are closed when the volume is freed.
        umount2(scratch.path, Int32(MNT_DETACH))
    }

    /// [traps 74, 75] Nothing is lost, and everything resumes automatically.
    @Test func savesWaitForSpace() throws {
        try onSmallDisk { tree, disk in
            var noise = Noise(seed: 1)
            let first = noise.bytes(2_000_000)
            let second = noise.bytes(2_000_000)
            try tree.save("a", first, by: program)
            try tree.save("b", "1", by: program)
            #expect(tree.quiet())
            let filler = try Descriptor(
                opening: disk + "/filler", flags: O_RDWR | O_CREAT, mode: 0o600)
            try tree.replace("a", second, by: program)
            try tree.save("b", "2", by: program)
            _ = fill(filler.raw)
            try wait(for: "the problem that versions cannot be recorded") {
                try VolumeStatus(of: tree.volume).problems.isEmpty ? nil : ()
            }
            #expect(tree.contents("a") == second)
            #expect(!(try tree.volume.stash.entries()).isEmpty)
            // Existing contents can be read meanwhile.
            #expect(try tree.volume.history.document(at: names("a")) != nil)
            try check(cl_ftruncate(filler.raw, 0))
            #expect(tree.quiet())
            #expect(try tree.versions("a") == [first, second])
            #expect(try tree.texts("b") == ["1", "2"])
            #expect(try VolumeStatus(of: tree.volume).problems == [])
            try tree.checkInvariants()
        }
    }

    /// Contents that cannot be copied to the stash are not overwritten.
    @Test func aWriterIsRefusedInsteadOfLosingAVersion() throws {
        try onSmallDisk { tree, disk in
            var noise = Noise(seed: 2)
            let bytes = noise.bytes(900_000)
            try tree.save("a", bytes, by: program)
            #expect(tree.quiet())
            let filler = try Descriptor(
                opening: disk + "/filler", flags: O_RDWR | O_CREAT, mode: 0o600)
            _ = fill(filler.raw)
            #expect(throws: Errno.noSpace) { try tree.save("a", "short", by: program) }
            #expect(tree.contents("a") == bytes)
            #expect(try tree.volume.stash.entries().isEmpty)
            try check(cl_ftruncate(filler.raw, 0))
            try tree.save("a", "short", by: program)
            #expect(try tree.versions("a") == [bytes, Array("short".utf8)])
            try tree.checkInvariants()
        }
    }

    /// The reserve is given up for the journal: changes of names are noted on a full disk, and the
    /// store can be closed and opened.
    @Test func theJournalGoesOnAndTheStoreOpens() throws {
        try onSmallDisk { tree, disk in
            try tree.save("0", "text", by: program)
            #expect(tree.quiet())
            let id = try #require(try tree.item("0")).id
            try wait(for: "the reserve") { tree.reserveSize > 0 ? () : nil }
            let filler = try Descriptor(
                opening: disk + "/filler", flags: O_RDWR | O_CREAT, mode: 0o600)
            _ = fill(filler.raw)
            for number in 0..<20 {
                try tree.rename("\(number)", "\(number + 1)", by: program)
                #expect(try tree.volume.items.path(of: id) == names("\(number + 1)"))
            }
            #expect(tree.reserveSize == 0)
            try tree.remount { _ = fill(filler.raw) }
            try tree.remount()
            #expect(try tree.volume.items.path(of: id) == names("20"))
            #expect(tree.contents("20") == Array("text".utf8))
            try check(cl_ftruncate(filler.raw, 0))
            try wait(for: "the reserve") { tree.reserveSize > 0 ? () : nil }
            try tree.checkInvariants()
        }
    }

    /// Other programs may take the reserve's space before the journal does.
    @Test func theLogKeepsItsSpaceWhenTheReserveIsTaken() throws {
        try onSmallDisk { tree, disk in
            try tree.save("0", "text", by: program)
            #expect(tree.quiet())
            let id = try #require(try tree.item("0")).id
            try wait(for: "the reserve") { tree.volume.store.reserve.isWhole ? () : nil }
            let filler = try Descriptor(
                opening: disk + "/filler", flags: O_RDWR | O_CREAT, mode: 0o600)
            var size = fill(filler.raw)
            for number in 0..<10 {
                // Space that is given up for one change is taken before the next.
                while case let more = fill(filler.raw, from: size), more > size { size = more }
                try tree.rename("\(number)", "\(number + 1)", by: program)
                #expect(try tree.volume.items.path(of: id) == names("\(number + 1)"))
            }
            try check(cl_ftruncate(filler.raw, 0))
            #expect(tree.quiet())
            try tree.checkInvariants()
        }
    }

    private func fill(_ descriptor: Int32, from start: Int64 = 0) -> Int64 {
        let block = [UInt8](repeating: 1, count: 1 << 16)
        var size = start
        while true {
            let count = block.withUnsafeBytes {
                cl_pwrite(descriptor, $0.baseAddress, 1 << 16, size)
            }
            if count <= 0 { return size }
            size += Int64(count)
        }
    }
}

extension ProgramTree {
    fileprivate var reserveSize: Int64 {
        var status = stat()
        guard cl_fstatat(AT_FDCWD, store + "/reserve", &status, 0) == 0 else { return 0 }
        return Int64(status.st_size)
    }
}
