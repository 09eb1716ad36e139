import ChunkStore
import Foundation
import Glibc
import Model
import Testing

/// A disk with one megabyte.
private final class TinyDisk {
    let scratch = Scratch()
    var packs: String { scratch.path + "/packs" }

    init() throws {
        try #require(mount("tmpfs", scratch.path, "tmpfs", 0, "size=1m") == 0, "mount: \(errno)")
    }

    deinit { umount2(scratch.path, 0) }
}

@Suite(.enabled(if: geteuid() == 0, "Only root can mount a disk that fills."))
struct FullDiskTests {
    @Test func nothingHalfRemains() throws {
        let disk = try TinyDisk()
        var noise = Noise(seed: 3)
        let ballast = disk.scratch.path + "/ballast"
        try Data(noise.bytes(300_000)).write(to: URL(fileURLWithPath: ballast))
        let store = try PackStore(directory: disk.packs)
        var stored: [(id: Digest, place: ChunkLocation)] = []
        var refusal: VolumeError?
        while refusal == nil, stored.count < 100 {
            do { stored.append(try store.store(noise.bytes(50_000))) } catch {
                refusal = error as? VolumeError
            }
        }
        #expect(refusal?.code == .full)
        #expect(refusal?.message.contains("00000001.pack") == true)
        #expect(stored.count > 5)
        let end = UInt64(stored.count * 50_055)
        #expect(try contents(of: disk.packs + "/00000001.pack").count == Int(end))
        #expect(store.bytes() == end)
        #expect(throws: VolumeError.self) { try store.store(noise.bytes(200_000)) }
        #expect(store.verify() == [])

        try FileManager.default.removeItem(atPath: ballast)
        stored.append(try store.store(noise.bytes(50_000)))
        try store.sync()
        #expect(stored.last?.place.offset == end)
        for (id, place) in stored { #expect(Digest.sha256(try store.read(id, at: place)) == id) }
        #expect(store.found().damages == [])
        #expect(store.found().chunks.count == stored.count)
    }

    @Test func aCompactionWithoutRoomLosesNothing() throws {
        let disk = try TinyDisk()
        var noise = Noise(seed: 4)
        let store = try PackStore(directory: disk.packs)
        let stored = try (0..<14).map { _ in try store.store(noise.bytes(50_000)) }
        let error = #expect(throws: VolumeError.self) {
            try store.compact(1) { _, _ in true }
        }
        #expect(error?.code == .full)
        for (id, place) in stored { #expect(Digest.sha256(try store.read(id, at: place)) == id) }
        #expect(store.verify() == [])
    }
}
