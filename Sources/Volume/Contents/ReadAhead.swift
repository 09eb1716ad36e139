/// The change time of an inode, and an earlier one that programs are shown while the inode keeps
/// it, because filling and eviction are no changes.
struct ChangeTime: Sendable {
    /// Nanoseconds since 1970.
    var actual: Int64
    var told: Int64
}

/// Decides how far to read ahead: nothing at first, then as much as was read sequentially.
struct ReadAhead: Sendable {
    private static let least: Int64 = 1 << 19
    private static let most: Int64 = 32 << 20
    /// The kernel's own read-ahead arrives out of order within this distance.
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
