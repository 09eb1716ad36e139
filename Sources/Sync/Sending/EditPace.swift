import Model

/// Limits how often new contents of one document are sent: a few versions are sent at once, and
/// only a long series of saves is slowed down (a token bucket for each document).
struct EditPace {
    /// The number of versions that are sent without a pause.
    let burst: Int
    /// The pause between two versions of a long series.
    let nanoseconds: Int64
    /// The time until which each document has used up its share (monotonic nanoseconds).
    private var used: [Identifier: Int64] = [:]

    init(burst: Int, seconds: Double) {
        self.burst = burst
        nanoseconds = Timestamp.span(seconds: seconds)
    }

    /// The nanoseconds to wait before the item's contents may be sent.
    func pause(for item: Identifier, now: Int64) -> Int64 {
        guard let until = used[item] else { return 0 }
        return max(0, until - now - Int64(burst - 1) * nanoseconds)
    }

    mutating func sent(_ item: Identifier, now: Int64) {
        if used.count > 100_000 { used = used.filter { $0.value > now } }
        used[item] = max(used[item] ?? now, now) + nanoseconds
    }
}
