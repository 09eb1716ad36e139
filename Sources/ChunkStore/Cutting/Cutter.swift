/// Finds the ends of chunks from the bytes alone (FastCDC, normalized chunking level 2). A change
/// in the content moves only the cuts near it.
///
/// The hash at a length is a gear hash of the 64 bytes before it: each byte shifts the hash left by
/// one and adds a number of the gear table. A chunk ends where the upper bits of the hash are all
/// zero. Two more bits than the average requires must be zero below the average, and two fewer
/// above it.
// Unchecked, because the gear table is written once, before any other thread can see it, and is
// never freed.
package struct Cutter: @unchecked Sendable {
    package let sizes: CutSizes
    private let gear: UnsafePointer<UInt64>
    /// A hash below `strict` ends a chunk up to the average length; above the average, one below
    /// `loose` does.
    private let strict: UInt64
    private let loose: UInt64

    /// The number of bytes that influence the hash: each byte shifts the 64 bits by one.
    private static let memory = 64
    /// The length of each of the four lanes that are hashed in parallel.
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

    /// Returns the hash four lanes later, or nil when a hash on the way ends the chunk. Each hash
    /// needs the one before it, so the processor computes four independent ones in little more time
    /// than one.
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

    /// The hash of the 64 bytes before a length. There are always that many, because `sizes.min` is
    /// greater than 64.
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
