import ChunkStore
import Foundation
import Glibc
import Model

/// A temporary directory for a test. It is removed with this object.
final class Scratch {
    let path: String

    init() {
        var template = Array("/tmp/chunkstore-test-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else { fatalError("mkdtemp: \(errno)") }
        path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    var packs: String { path + "/packs" }

    func pack(_ number: UInt32) -> String { packs + "/" + packName(number) }

    /// Returns the descriptor of an empty file without a name.
    func file() -> Int32 {
        var template = Array((path + "/file-XXXXXX").utf8CString)
        let descriptor = mkstemp(&template)
        unlink(template)
        return descriptor
    }
}

/// Pseudo-random bytes, which are equal for equal seeds.
struct Noise: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        var word = state
        word = (word ^ word >> 32) &* 0xD6E8_FEB8_6659_FD93
        return word ^ word >> 32
    }

    static func someBytes(_ count: Int, seed: UInt64) -> [UInt8] {
        var noise = Noise(seed: seed)
        return noise.bytes(count)
    }

    mutating func bytes(_ count: Int) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: (count + 7) / 8 * 8) { buffer, used in
            let raw = UnsafeMutableRawBufferPointer(buffer)
            for offset in stride(from: 0, to: count, by: 8) {
                raw.storeBytes(of: next(), toByteOffset: offset, as: UInt64.self)
            }
            used = count
        }
    }
}

/// Content in memory, without holes.
struct MemoryContent: ContentSource {
    let bytes: [UInt8]

    mutating func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64)
        throws(VolumeError) -> Int
    {
        let rest = bytes[min(Int(offset), bytes.count)...].prefix(buffer.count)
        buffer.copyBytes(from: rest)
        return rest.count
    }
}

func chunks(of bytes: [UInt8]) throws -> [ChunkReference] {
    try cutContent(of: MemoryContent(bytes: bytes), size: UInt64(bytes.count)) { _, _ in }
}

extension PackStore {
    /// Appends bytes under their digest.
    @discardableResult
    func store(_ bytes: [UInt8]) throws -> (id: Digest, place: ChunkLocation) {
        let id = Digest.sha256(bytes)
        let place = try bytes.withUnsafeBytes { try append(id, $0) }
        return (id, place)
    }

    /// The chunks and damages that a scan finds.
    func found() -> (chunks: [Digest: ChunkLocation], damages: [PackDamage]) {
        var chunks: [Digest: ChunkLocation] = [:]
        let damages = scan { id, place in chunks[id] = place }
        return (chunks, damages)
    }
}

func contents(of path: String) throws -> [UInt8] {
    Array(try Data(contentsOf: URL(fileURLWithPath: path)))
}

/// Overwrites the contents of a file in the same inode.
func overwrite(_ path: String, with bytes: [UInt8]) throws {
    let file = try FileHandle(forWritingTo: URL(fileURLWithPath: path))
    try file.truncate(atOffset: 0)
    try file.write(contentsOf: Data(bytes))
    try file.close()
}
