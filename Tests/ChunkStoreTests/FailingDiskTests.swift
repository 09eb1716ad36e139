import ChunkStore
import Foundation
import Glibc
import Model
import Testing

/// The descriptor with which a store writes a pack. Another file can be put in its place for a
/// while.
private struct Switch {
    let descriptor: Int32
    private let original: Int32

    init(pack path: String) throws {
        let all = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")
        let link = { (name: String) in
            try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/" + name)
        }
        descriptor = try #require(all.first { link($0) == path }.flatMap { Int32($0) })
        original = dup(descriptor)
    }

    func put(_ other: Int32) {
        dup2(other, descriptor)
        close(other)
    }

    func putBack() { put(original) }
}

@Suite struct FailingDiskTests {
    /// After a failed fsync no later one counts, because the kernel has marked the lost pages
    /// clean.
    @Test func aFailedSyncStays() throws {
        let scratch = Scratch()
        let store = try PackStore(directory: scratch.packs)
        let stored = try store.store([1, 2, 3])
        let pack = try Switch(pack: scratch.pack(1))
        // A socket cannot be synced: fsync fails with EINVAL.
        pack.put(socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0))
        let thrown = #expect(throws: VolumeError.self) { try store.sync() }
        pack.putBack()
        let error = try #require(thrown)
        #expect(error.code == .system)
        #expect(error.message.contains(scratch.packs))
        #expect(throws: error) { try store.sync() }
        #expect(throws: error) { try store.store([4]) }
        #expect(throws: error) { try store.compact(1) { _, _ in true } }
        #expect(try store.read(stored.id, at: stored.place) == [1, 2, 3])
        let reopened = try PackStore(directory: scratch.packs)
        try reopened.store([4])
        try reopened.sync()
        #expect(reopened.found().chunks.count == 2)
        #expect(reopened.found().damages == [])
    }

    /// /dev/full refuses both the write and the truncation after it.
    @Test func aWriteThatCannotBeTakenBack() throws {
        let scratch = Scratch()
        let store = try PackStore(directory: scratch.packs)
        var stored = [try store.store([1, 2, 3])]
        let pack = try Switch(pack: scratch.pack(1))
        pack.put(open("/dev/full", O_RDWR))
        let error = #expect(throws: VolumeError.self) { try store.store([4]) }
        pack.putBack()
        #expect(error?.code == .full)
        stored.append(try store.store([5]))
        #expect(stored[1].place.offset == 58)
        for (id, place) in stored { #expect(Digest.sha256(try store.read(id, at: place)) == id) }
        #expect(store.found().chunks.count == 2)
        #expect(store.found().damages == [])
    }
}
