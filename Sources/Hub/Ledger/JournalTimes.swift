import HubProtocol
import Model

/// A position that a volume's journal had at a time of the hub's clock.
package struct JournalMoment: Hashable, Sendable {
    package let position: UInt64
    package let time: Int64
}

/// When a volume's journal has reached its positions. Each time is later than the one before, also
/// if the hub's clock was set back. Of ledgers from before these times were recorded there is about
/// one moment for each minute in which a version arrived.
package struct JournalTimes {
    let transaction: any LedgerTransaction
    let volume: Identifier

    /// Changes that follow each other for long share a moment for this time, so that the table
    /// stays small. The last `exact` moments may be nearer to each other.
    static let spacing = Timestamp.span(seconds: 10)
    static let exact = 20

    package init(_ transaction: any LedgerTransaction, volume: Identifier) {
        (self.transaction, self.volume) = (transaction, volume)
    }

    private func moment(_ row: LedgerRow) throws -> JournalMoment {
        JournalMoment(position: try row.count(0), time: try row.integer(1))
    }

    private static let columns = "SELECT sequence, time FROM journal_times WHERE volume = $1"

    /// Records that the transaction has written the journal's entries after `start` up to `head`.
    func advance(after start: UInt64, to head: UInt64, at time: Int64) throws {
        guard head > start else { return }
        try transaction.setHead(of: volume, head)
        try transaction.noteRun(of: volume, after: start, upTo: head)
        try note(head, at: time)
    }

    /// Records that the journal has this head now.
    func note(_ head: UInt64, at time: Int64) throws {
        let latest = try transaction.rows(
            "\(Self.columns) ORDER BY sequence DESC LIMIT $2",
            [.id(volume), .integer(Int64(JournalTimes.exact))]
        ).map(moment)
        let last = latest.first
        guard head > last?.position ?? 0 else { return }
        let time = max(time, last.map { $0.time + 1 } ?? time)
        let isDense =
            latest.count == JournalTimes.exact
            && time - JournalTimes.spacing * Int64(JournalTimes.exact)
                < latest[latest.count - 1].time
        if let last, isDense, time - JournalTimes.spacing < last.time {
            try transaction.execute(
                "UPDATE journal_times SET sequence = $3 WHERE volume = $1 AND sequence = $2",
                [.id(volume), .count(last.position), .count(head)])
        } else {
            try transaction.execute(
                "INSERT INTO journal_times (volume, sequence, time) VALUES ($1, $2, $3)",
                [.id(volume), .count(head), .integer(time)])
        }
    }

    /// The last moment up to a time; nil if there is none.
    package func last(upTo time: Int64) throws -> JournalMoment? {
        try transaction.row(
            "\(Self.columns) AND time <= $2 ORDER BY time DESC, sequence DESC LIMIT 1",
            [.id(volume), .integer(time)]
        ).map(moment)
    }

    /// The last moment before a position.
    package func last(before position: UInt64) throws -> JournalMoment? {
        try transaction.row(
            "\(Self.columns) AND sequence < $2 ORDER BY sequence DESC LIMIT 1",
            [.id(volume), .count(position)]
        ).map(moment)
    }

    /// The moment at which the journal had reached a position.
    package func first(from position: UInt64) throws -> JournalMoment? {
        try transaction.row(
            "\(Self.columns) AND sequence >= $2 ORDER BY sequence LIMIT 1",
            [.id(volume), .count(position)]
        ).map(moment)
    }
}
