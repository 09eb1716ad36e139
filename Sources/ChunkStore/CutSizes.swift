/// The bounds within which content is cut, bytes. They depend on the size of the whole, so that a
/// small document costs few bytes a change and a large one few chunks.
package struct CutSizes: Hashable, Sendable {
    /// No chunk is shorter, but for the last one.
    package let min: Int
    /// A power of two. The mean that random content comes to is some per cent above it.
    package let average: Int
    package let max: Int

    private init(kibibytes min: Int, _ average: Int, _ max: Int) {
        self.min = min << 10
        self.average = average << 10
        self.max = max << 10
    }

    /// Nil up to 256 KiB, where the whole content is one chunk. Frozen: other bounds would cut
    /// equal content into other chunks, and nothing would be found again.
    package static func sizes(forFileOf size: UInt64) -> CutSizes? {
        switch size {
        case 0...(256 << 10): nil
        case ...(64 << 20): CutSizes(kibibytes: 16, 64, 256)
        case ...(1 << 30): CutSizes(kibibytes: 64, 256, 1024)
        default: CutSizes(kibibytes: 256, 1024, 4096)
        }
    }
}
