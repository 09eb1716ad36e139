/// The shortest, average and longest chunk, in bytes. They depend on the size of the whole content:
/// in a small document a change costs few bytes, and a large document has few chunks.
package struct CutSizes: Hashable, Sendable {
    /// No chunk is shorter, except for the last one of a content.
    package let min: Int
    /// A power of two. With random content the mean is some per cent above it.
    package let average: Int
    package let max: Int

    private init(kibibytes min: Int, _ average: Int, _ max: Int) {
        self.min = min << 10
        self.average = average << 10
        self.max = max << 10
    }

    /// Returns nil for up to 256 KiB: then the whole content is one chunk. These numbers are
    /// frozen. With other numbers equal content would be cut into other chunks, and stored chunks
    /// would not be recognized.
    package static func sizes(forFileOf size: UInt64) -> CutSizes? {
        switch size {
        case 0...(256 << 10): nil
        case ...(64 << 20): CutSizes(kibibytes: 16, 64, 256)
        case ...(1 << 30): CutSizes(kibibytes: 64, 256, 1024)
        default: CutSizes(kibibytes: 256, 1024, 4096)
        }
    }
}
