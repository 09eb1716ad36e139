import Glibc
import Support
import Synchronization

/// The blocks of a disk with a volatile write cache: what was flushed is durable, and of what was
/// written since then any blocks may be lost, in any order.
final class MemoryDisk: Sendable {
    private struct Write {
        let offset: Int
        let bytes: [UInt8]
    }

    private struct State: ~Copyable {
        let durable: UnsafeMutableRawBufferPointer
        let current: UnsafeMutableRawBufferPointer
        /// Since the last flush, in the order in which they came.
        var unflushed: [Write] = []
    }

    static let blockSize = 4096
    let size: Int
    private let state: Mutex<State>

    init(size: Int) {
        self.size = size
        state = Mutex(State(durable: Self.zeros(size), current: Self.zeros(size)))
    }

    /// Memory that takes no room until it is written.
    private static func zeros(_ size: Int) -> UnsafeMutableRawBufferPointer {
        let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE
        let address = mmap(nil, size, PROT_READ | PROT_WRITE, flags, -1, 0)!
        precondition(address != MAP_FAILED, "no memory for a disk of \(size) bytes")
        return UnsafeMutableRawBufferPointer(start: address, count: size)
    }

    func read(_ count: Int, at offset: Int) -> [UInt8] {
        state.withLock { state in
            let end = min(size, offset + count)
            return offset < end ? Array(state.current[offset..<end]) : []
        }
    }

    func write(_ bytes: [UInt8], at offset: Int) -> Int {
        let kept = bytes.prefix(max(0, size - offset))
        return state.withLock { state in
            kept.withUnsafeBytes { Self.copy($0, to: state.current, at: offset) }
            state.unflushed.append(Write(offset: offset, bytes: Array(kept)))
            return kept.count
        }
    }

    func flush() {
        state.withLock { state in
            for write in state.unflushed {
                write.bytes.withUnsafeBytes { Self.copy($0, to: state.durable, at: write.offset) }
            }
            state.unflushed.removeAll()
        }
    }

    private static func copy(
        _ bytes: UnsafeRawBufferPointer, to target: UnsafeMutableRawBufferPointer, at offset: Int
    ) {
        UnsafeMutableRawBufferPointer(rebasing: target[offset..<(offset + bytes.count)])
            .copyMemory(from: bytes)
    }

    /// Writes what a loss of power would leave: all that was flushed, and of each write since then
    /// the blocks that `seed` chooses. Returns how many blocks were kept and how many were lost.
    func writeImage(to path: String, seed: UInt64) throws -> String {
        let image = Self.zeros(size)
        defer { munmap(image.baseAddress, size) }
        let address = UInt(bitPattern: image.baseAddress)
        let unflushed = state.withLock { state in
            memcpy(
                UnsafeMutableRawPointer(bitPattern: address)!, state.durable.baseAddress!, size)
            return state.unflushed
        }
        var random = SeededRandom(seed: seed)
        // Everything, nothing, or a share of it: each finds mistakes of its own.
        let kept = [0, 10, 50, 90, 100][random.below(5)]
        var counts = (kept: 0, lost: 0)
        for write in unflushed {
            var offset = write.offset
            let end = write.offset + write.bytes.count
            while offset < end {
                let next = min(end, (offset / Self.blockSize + 1) * Self.blockSize)
                if random.below(100) < kept {
                    write.bytes[(offset - write.offset)..<(next - write.offset)]
                        .withUnsafeBytes { Self.copy($0, to: image, at: offset) }
                    counts.kept += 1
                } else {
                    counts.lost += 1
                }
                offset = next
            }
        }
        try save(image, to: path)
        return "\(counts.kept) kept, \(counts.lost) lost"
    }

    /// Blocks of zeros become holes.
    private func save(_ image: UnsafeMutableRawBufferPointer, to path: String) throws {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw SupportError("\(path) cannot be made: \(errno)") }
        defer { close(descriptor) }
        guard ftruncate(descriptor, off_t(size)) == 0 else {
            throw SupportError("\(path) cannot be made \(size) bytes long: \(errno)")
        }
        let zeros = [UInt8](repeating: 0, count: Self.blockSize)
        for offset in stride(from: 0, to: size, by: Self.blockSize) {
            let block = image.baseAddress! + offset
            let count = min(Self.blockSize, size - offset)
            if memcmp(block, zeros, count) == 0 { continue }
            guard pwrite(descriptor, block, count, off_t(offset)) == count else {
                throw SupportError("\(path) cannot be written: \(errno)")
            }
        }
    }
}
