/// Finds where content is cut, from its bytes alone (FastCDC, normalised chunking level 2): a
/// change moves the cuts beside it and no others.
///
/// The hash at a length is a gear hash of the 64 bytes before it: each byte shifts it left by one
/// and adds a number of the gear table. A cut lies where the upper bits of the hash are all zero,
/// two bits more than the average asks for below the average and two bits fewer above it.
// Unchecked: the gear table is written once, before anyone can see it, and never freed.
package struct Cutter: @unchecked Sendable {
    package let sizes: CutSizes
    private let gear: UnsafePointer<UInt64>
    /// A hash below it cuts: up to the average, and from there on.
    private let strict: UInt64
    private let loose: UInt64

    /// The number of bytes that a 64-bit hash shifted by one each remembers.
    private static let memory = 64
    /// The length of each of the four stretches that are hashed side by side.
    private static let lane = 1024

    package init(_ sizes: CutSizes) {
        let bits = sizes.average.trailingZeroBitCount
        self.sizes = sizes
        gear = gearTable.pointer
        strict = 1 << UInt64(64 - (bits + 2))
        loose = 1 << UInt64(64 - (bits - 2))
    }

    /// The length of the next chunk of a window, which holds at least `sizes.max` bytes or else all
    /// the bytes that are left.
    package func cut(_ window: UnsafeRawBufferPointer) -> Int {
        let end = min(window.count, sizes.max)
        guard end > sizes.min, let start = window.baseAddress else { return end }
        let bytes = start.assumingMemoryBound(to: UInt8.self)
        let middle = min(sizes.average, end)
        return first(below: strict, in: bytes, from: sizes.min, to: middle)
            ?? first(below: loose, in: bytes, from: middle, to: end)
            ?? end
    }

    /// The first length in `from..<to` whose hash is below the threshold.
    @inline(__always)
    private func first(
        below threshold: UInt64, in bytes: UnsafePointer<UInt8>, from: Int, to: Int
    ) -> Int? {
        var length = from
        var hash = hash(of: bytes, at: length)
        while to - length >= 4 * Cutter.lane {
            guard let next = skip(bytes + length, hash, below: threshold) else { break }
            hash = next
            length += 4 * Cutter.lane
        }
        while length < to {
            if hash < threshold { return length }
            hash = hash &<< 1 &+ gear[Int(bytes[length])]
            length &+= 1
        }
        return nil
    }

    /// The hash four lanes further on, or nil when one of the hashes on the way cuts. A hash waits
    /// for the one before it, so four that know nothing of each other take little longer than one.
    @inline(__always)
    private func skip(_ bytes: UnsafePointer<UInt8>, _ hash: UInt64, below threshold: UInt64)
        -> UInt64?
    {
        let gear = gear
        let (second, third, fourth) = (
            bytes + Cutter.lane, bytes + 2 * Cutter.lane, bytes + 3 * Cutter.lane
        )
        var a = hash
        var b = self.hash(of: second, at: 0)
        var c = self.hash(of: third, at: 0)
        var d = self.hash(of: fourth, at: 0)
        var index = 0
        while index < Cutter.lane {
            if a < threshold || b < threshold || c < threshold || d < threshold { return nil }
            a = a &<< 1 &+ gear[Int(bytes[index])]
            b = b &<< 1 &+ gear[Int(second[index])]
            c = c &<< 1 &+ gear[Int(third[index])]
            d = d &<< 1 &+ gear[Int(fourth[index])]
            index &+= 1
        }
        return d
    }

    /// The hash of the 64 bytes before a length; there are that many, for `sizes.min` is longer.
    @inline(__always)
    private func hash(of bytes: UnsafePointer<UInt8>, at length: Int) -> UInt64 {
        var hash: UInt64 = 0
        var index = length &- Cutter.memory
        while index < length {
            hash = hash &<< 1 &+ gear[Int(bytes[index])]
            index &+= 1
        }
        return hash
    }
}
