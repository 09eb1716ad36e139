import Model

/// How soon the next contents of a document are sent: the first few at once, and only a flood of
/// them is held back.
struct EditPace {
    /// How many go at once.
    let burst: Int
    /// Between two of a flood.
    let nanoseconds: Int64
    /// Until when each document has used up its share (monotonic nanoseconds).
    private var used: [Identifier: Int64] = [:]

    init(burst: Int, seconds: Double) {
        self.burst = burst
        nanoseconds = Timestamp.span(seconds: seconds)
    }

    /// Nanoseconds.
    func pause(for item: Identifier, now: Int64) -> Int64 {
        guard let until = used[item] else { return 0 }
        return max(0, until - now - Int64(burst - 1) * nanoseconds)
    }

    mutating func sent(_ item: Identifier, now: Int64) {
        if used.count > 100_000 { used = used.filter { $0.value > now } }
        used[item] = max(used[item] ?? now, now) + nanoseconds
    }
}
