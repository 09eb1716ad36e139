/// The time at which an inode changed, and an earlier one that programs are told as long as it
/// stays: bytes that come or go are no change.
struct ChangeTime: Sendable {
    /// Nanoseconds since 1970.
    var actual: Int64
    var told: Int64
}

/// How far ahead of a reader bytes are fetched: nothing at first, then as much as it has read in a
/// row.
struct ReadAhead: Sendable {
    private static let least: Int64 = 1 << 19
    private static let most: Int64 = 32 << 20
    /// The kernel's own reading ahead comes out of order by so much.
    private static let slack: Int64 = 1 << 20
    private var start: Int64 = 0
    private var end: Int64 = 0

    mutating func read(_ range: Range<Int64>) -> Range<Int64> {
        if range.lowerBound > end + Self.slack || range.upperBound < start {
            (start, end) = (range.lowerBound, range.upperBound)
            return 0..<0
        }
        end = max(end, range.upperBound)
        let row = end - start
        return row < Self.least ? 0..<0 : end..<end + min(row, Self.most)
    }
}
