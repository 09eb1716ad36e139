import Model

/// A move of the hub that has begun and was not undone. A ledger has at most one, in the table
/// `moves`.
package struct MoveRecord: Hashable, Sendable {
    package enum State: Int64, Sendable {
        /// The hub is here and may be used, and is being copied to the other place.
        case leaving = 0
        /// The hub is here, and nothing may change until its last changes have been copied.
        case frozen = 1
        /// The hub is at the other place. This ledger is what it was when it left.
        case left = 2
        /// The hub is at the other place, and is being copied to here.
        case arriving = 3
    }

    /// The same in the ledgers of both places.
    package let id: Identifier
    package var state: State
    /// The other place, for people.
    package let place: String

    /// Why no hub may use this ledger; nil if it may.
    var objection: VolumeError? {
        switch state {
        case .leaving: nil
        case .frozen:
            VolumeError(
                .busy,
                "This hub is just being moved to \(place): try again in a moment. If the move was "
                    + "interrupted, start the hub here, or say the same concord hub move again.")
        case .left:
            VolumeError(
                .invalid,
                "This hub was moved to \(place): use it there. To use it here again, as an older "
                    + "state of the hub: concord hub move --undo.")
        case .arriving:
            VolumeError(
                .invalid,
                "The move of a hub from \(place) to here has not ended: finish it with the same "
                    + "concord hub move as before.")
        }
    }
}

/// The record of a move, within one transaction.
struct MoveTable {
    private let transaction: any LedgerTransaction

    init(_ transaction: any LedgerTransaction) { self.transaction = transaction }

    func record() throws -> MoveRecord? {
        try transaction.row("SELECT id, state, place FROM moves", []).map {
            MoveRecord(
                id: try $0.id(0), state: MoveRecord.State(rawValue: try $0.integer(1)) ?? .arriving,
                place: try $0.text(2))
        }
    }

    func set(_ record: MoveRecord?) throws {
        try transaction.execute("DELETE FROM moves", [])
        guard let record else { return }
        try transaction.execute(
            "INSERT INTO moves (id, state, place) VALUES ($1, $2, $3)",
            [.id(record.id), .integer(record.state.rawValue), .text(record.place)])
    }

    /// Changes the state, unless it is not `old` any more.
    ///
    /// - Returns: Whether it was changed.
    func change(from old: MoveRecord.State, to new: MoveRecord.State) throws -> Bool {
        try transaction.execute(
            "UPDATE moves SET state = $2 WHERE state = $1",
            [.integer(old.rawValue), .integer(new.rawValue)]) > 0
    }

    /// - Throws: `.invalid` if the hub was moved away, or is being moved.
    func checkHubIsHere() throws {
        if let objection = try record()?.objection { throw objection }
    }

    /// Whether this ledger has never been a hub's.
    func isUnused() throws -> Bool {
        for table in ["facts", "accounts", "volumes"]
        where try transaction.row("SELECT 1 FROM \(table) LIMIT 1", []) != nil {
            return false
        }
        return true
    }
}

extension Administration {
    /// Calls `body` unless the hub was moved away. A move may begin meanwhile; then what `body` has
    /// done may not be part of the copy, so it counts as failed.
    package func whileHere<Result: Sendable>(
        _ body: @Sendable (Administration) async throws -> Result
    ) async throws -> Result {
        try await ledger.read { try MoveTable($0).checkHubIsHere() }
        let result = try await body(self)
        try await ledger.read { try MoveTable($0).checkHubIsHere() }
        return result
    }
}
