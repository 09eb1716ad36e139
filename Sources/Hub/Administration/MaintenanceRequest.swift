import Model

/// A request of a command for what only the process that uses the hub's packs may do.
struct MaintenanceRequest: Sendable {
    enum Kind: String, Sendable {
        case collect
        /// Begins a new pack, so that all others can be copied.
        case endPack = "end-pack"
    }

    var id = Identifier.random()
    let kind: Kind
    /// The grace period of a collection in nanoseconds.
    var argument: Int64 = 0

    enum Answer: Sendable {
        /// A sentence of the running hub.
        case done(String)
        /// No hub runs, and none can begin to while this lock is held.
        case notRunning(DataLock)
    }

    /// Asks the hub that runs on this directory, and waits for its answer.
    func ask(
        in directory: DataDirectory, _ ledger: any Ledger, _ clock: @Sendable () -> Int64
    ) async throws -> Answer {
        if let lock = try directory.lockIfFree() { return .notRunning(lock) }
        let time = clock()
        try await ledger.write { try MaintenanceRequestTable($0).add(self, at: time) }
        while clock() - time < Timestamp.span(seconds: 600) {
            if let result = try await ledger.read({ try MaintenanceRequestTable($0).result(of: id) }
            ) {
                return .done(result)
            }
            // The hub may have stopped without an answer.
            if let lock = try directory.lockIfFree() { return .notRunning(lock) }
            try await Task.sleep(for: .milliseconds(100))
        }
        throw VolumeError(
            .timeout, "The running hub did not finish within ten minutes: look at its log.")
    }
}

/// The requests that a ledger keeps for the running hub, in the table `errands`.
struct MaintenanceRequestTable {
    private let transaction: any LedgerTransaction

    init(_ transaction: any LedgerTransaction) { self.transaction = transaction }

    func add(_ request: MaintenanceRequest, at time: Int64) throws {
        try transaction.execute(
            "DELETE FROM errands WHERE asked < $1", [.integer(time - PeriodicMaintenance.grace)])
        try transaction.execute(
            "INSERT INTO errands (id, kind, argument, asked) VALUES ($1, $2, $3, $4)",
            [
                .id(request.id), .text(request.kind.rawValue), .integer(request.argument),
                .integer(time),
            ])
    }

    /// Those that have no answer yet.
    func open() throws -> [MaintenanceRequest] {
        try transaction.rows(
            "SELECT id, kind, argument FROM errands WHERE result IS NULL ORDER BY asked", []
        ).compactMap { row in
            guard let kind = MaintenanceRequest.Kind(rawValue: try row.text(1)) else { return nil }
            return MaintenanceRequest(
                id: try row.id(0), kind: kind, argument: try row.integer(2))
        }
    }

    func finish(_ request: Identifier, with result: String) throws {
        try transaction.execute(
            "UPDATE errands SET result = $1 WHERE id = $2", [.text(result), .id(request)])
    }

    func result(of request: Identifier) throws -> String? {
        let found = try transaction.row("SELECT result FROM errands WHERE id = $1", [.id(request)])
        guard let found, !found.isNull(0) else { return nil }
        return try found.text(0)
    }
}
