import ChunkStore
import Foundation
import Glibc
import Model
import Testing

@Suite struct PackStoreTests {
    static let seed: UInt64 = 31_337

    @Test func whatIsStoredComesBack() throws {
        let scratch = Scratch()
        let store = try PackStore(directory: scratch.packs)
        var noise = Noise(seed: Self.seed)
        let text = Array(String(repeating: "All work and no play. ", count: 9_000).utf8)
        let chunks: [[UInt8]] = [
            [], [0], noise.bytes(1), noise.bytes(100), text, noise.bytes(200_000),
            [UInt8](repeating: 0, count: 4 << 20), noise.bytes(4 << 20),
            text + noise.bytes(1 << 20), noise.bytes(64 << 10) + text,
        ]
        let places = try chunks.map { try store.store($0) }
        try store.sync()
        let reopened = try PackStore(directory: scratch.packs)
        for (chunk, stored) in zip(chunks, places) {
            #expect(Int(stored.place.length) == chunk.count)
            #expect(stored.place.storedLength <= stored.place.length)
            #expect(try store.read(stored.id, at: stored.place) == chunk)
            #expect(try reopened.read(stored.id, at: stored.place) == chunk)
        }
        #expect(store.readCount == chunks.count)
        let found = reopened.found()
        #expect(found.damages == [])
        #expect(found.chunks == Dictionary(uniqueKeysWithValues: places.map { ($0.id, $0.place) }))
        #expect(reopened.verify() == [])
    }

    @Test func compressionIsForWhatGainsByIt() throws {
        let scratch = Scratch()
        let store = try PackStore(directory: scratch.packs)
        var noise = Noise(seed: Self.seed)
        let zeros = [UInt8](repeating: 0, count: 256 << 10)
        #expect(try store.store(zeros).place.storedLength < 100)
        let random = noise.bytes(256 << 10)
        #expect(try store.store(random).place.storedLength == 256 << 10)
        // The first 64 KiB decide for the rest.
        let late = noise.bytes(64 << 10) + zeros
        #expect(try store.store(late).place.storedLength == UInt32(late.count))
        // Saving four per cent is not worth it, ten per cent is.
        let four = noise.bytes(48 << 10) + [UInt8](repeating: 1, count: 2 << 10)
        #expect(try store.store(four).place.storedLength == UInt32(four.count))
        let ten = (0..<10).flatMap { _ in
            noise.bytes(9 << 10) + [UInt8](repeating: 1, count: 1 << 10)
        }
        #expect(try store.store(ten).place.storedLength < UInt32(ten.count))
    }

    /// The offsets that Format.md gives. They are frozen with format 1.
    @Test func goldenRecord() throws {
        let scratch = Scratch()
        let store = try PackStore(directory: scratch.packs)
        let (id, place) = try store.store(Array("abc".utf8))
        try store.store([])
        #expect(place == ChunkLocation(pack: 1, offset: 0, storedLength: 3, length: 3))
        #expect(id == .sha256(Array("abc".utf8)))
        let first =
            "ff43484b" + "01" + "00"
            + "01ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
            + "03000000" + "03000000" + "00000000" + "cd5e393c" + "616263"
        let second =
            "ff43484b" + "01" + "00"
            + "01e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
            + "00000000" + "00000000" + "3a000000" + "bf98261a"
        #expect(hexadecimal(try contents(of: scratch.pack(1))) == first + second)
    }

    @Test func verifyTellsHowFarItIs() throws {
        let scratch = Scratch()
        let store = try PackStore(directory: scratch.packs, packBytesMax: 1_000)
        for value in 0..<3 { try store.store(Noise.someBytes(900, seed: UInt64(value))) }
        var steps: [[UInt64]] = []
        #expect(store.verify { steps.append([$0, $1]) } == [])
        #expect(steps == [[955, 2865], [1910, 2865], [2865, 2865]])
    }

    @Test func theDirectoryIsTheOwnersAlone() throws {
        let scratch = Scratch()
        let store = try PackStore(directory: scratch.packs)
        try store.store([1])
        var status = stat()
        stat(scratch.packs, &status)
        #expect(status.st_mode & 0o777 == 0o700)
        stat(scratch.pack(1), &status)
        #expect(status.st_mode & 0o777 == 0o600)
    }

    @Test func anUnusableDirectoryIsNamed() throws {
        let scratch = Scratch()
        let missing = scratch.path + "/no/packs"
        let error = #expect(throws: VolumeError.self) { try PackStore(directory: missing) }
        #expect(error?.code == .notFound)
        #expect(error?.message.contains(missing) == true)
        let file = scratch.path + "/file"
        try Data([1]).write(to: URL(fileURLWithPath: file))
        #expect(throws: VolumeError.self) { try PackStore(directory: file) }
    }

    @Test func otherFilesInTheDirectoryAreLeftAlone() throws {
        let scratch = Scratch()
        _ = try PackStore(directory: scratch.packs)
        for name in ["notes.txt", "1.pack", "0000000G.pack", "+0000002.pack", "0000000A.pack"] {
            try Data([1]).write(to: URL(fileURLWithPath: scratch.packs + "/" + name))
        }
        let store = try PackStore(directory: scratch.packs)
        #expect(store.packs().isEmpty)
        #expect(store.bytes() == 0)
        #expect(try store.store([1]).place.pack == 1)
    }

    @Test func aFullPackIsFollowedByAnother() throws {
        let scratch = Scratch()
        let limit: UInt64 = 100_000
        let store = try PackStore(directory: scratch.packs, packBytesMax: limit)
        var noise = Noise(seed: Self.seed)
        var stored: [(id: Digest, place: ChunkLocation)] = []
        for _ in 0..<40 { stored.append(try store.store(noise.bytes(30_000))) }
        try store.sync()
        #expect(store.packs().map(\.pack) == Array(1...14))
        #expect(store.packs().allSatisfy { $0.bytes <= limit })
        #expect(store.bytes() == UInt64(40 * (30_000 + 55)))
        // A chunk that is longer than a pack gets a pack of its own.
        stored.append(try store.store(noise.bytes(250_000)))
        #expect(stored.last?.place.offset == 0)
        stored.append(try store.store(noise.bytes(10)))
        #expect(
            stored.last?.place == ChunkLocation(pack: 16, offset: 0, storedLength: 10, length: 10))
        for (id, place) in stored { #expect(Digest.sha256(try store.read(id, at: place)) == id) }
        #expect(store.found().chunks.count == 42)
    }

    @Test func theLastPackIsContinuedWhileItHasRoom() throws {
        let scratch = Scratch()
        var noise = Noise(seed: Self.seed)
        var packs: [UInt32] = []
        for _ in 0..<5 {
            let store = try PackStore(directory: scratch.packs, packBytesMax: 100_000)
            packs.append(try store.store(noise.bytes(40_000)).place.pack)
            try store.sync()
        }
        #expect(packs == [1, 1, 2, 2, 3])
        let store = try PackStore(directory: scratch.packs, packBytesMax: 30_000)
        #expect(
            try store.store([1]).place
                == ChunkLocation(pack: 4, offset: 0, storedLength: 1, length: 1))
        #expect(store.found().damages == [])
    }

    @Test func aChunkThatIsTooLongIsRefused() throws {
        let scratch = Scratch()
        let store = try PackStore(directory: scratch.packs)
        let error = #expect(throws: VolumeError.self) {
            try store.store([UInt8](repeating: 0, count: PackStore.Limits.chunkBytes + 1))
        }
        #expect(error?.code == .invalid)
        #expect(store.bytes() == 0)
    }

    /// There are more packs than are kept open, and readers at all places of a long file.
    @Test func readersRunBesideTheWriter() throws {
        let scratch = Scratch()
        let store = try PackStore(directory: scratch.packs, packBytesMax: 50_000)
        let shared = Shared()
        let threads = (0..<4).map { reader in
            let thread = Thread {
                var noise = Noise(seed: UInt64(reader))
                while true {
                    let (known, isDone) = shared.snapshot()
                    guard let (id, place) = known.randomElement(using: &noise) else { continue }
                    shared.note((try? store.read(id, at: place)).map { Digest.sha256($0) } == id)
                    if isDone { break }
                }
                shared.leave()
            }
            thread.start()
            return thread
        }
        var noise = Noise(seed: Self.seed)
        for round in 0..<400 {
            let length = Int(noise.next() % 20_000)
            let bytes =
                round % 2 == 0
                ? noise.bytes(length) : [UInt8](repeating: UInt8(round & 255), count: length)
            shared.add(try store.store(bytes))
        }
        shared.finish(readers: threads.count)
        #expect(shared.failures == 0)
        #expect(store.readCount == shared.reads)
        #expect(store.packs().count > PackStore.Limits.openPacks)
        #expect(descriptors(of: scratch.packs) <= PackStore.Limits.openPacks + 2)
        #expect(store.verify() == [])
    }

    /// The number of descriptors of this process that are open below a path.
    private func descriptors(of path: String) -> Int {
        let all = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []
        return all.count { name in
            (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/" + name))?
                .hasPrefix(path) == true
        }
    }
}

/// What the writer has stored, and what the readers have found.
private final class Shared: @unchecked Sendable {
    private let lock = NSCondition()
    private var known: [(id: Digest, place: ChunkLocation)] = []
    private var isDone = false
    private var left = 0
    private(set) var reads = 0
    private(set) var failures = 0

    func snapshot() -> ([(id: Digest, place: ChunkLocation)], Bool) {
        lock.withLock { (known, isDone) }
    }

    func add(_ chunk: (id: Digest, place: ChunkLocation)) { lock.withLock { known.append(chunk) } }

    func note(_ isRight: Bool) {
        lock.withLock {
            reads += 1
            failures += isRight ? 0 : 1
        }
    }

    func leave() {
        lock.withLock {
            left += 1
            lock.signal()
        }
    }

    func finish(readers: Int) {
        lock.withLock {
            isDone = true
            while left < readers { lock.wait() }
        }
    }
}
