import Journal
import Model
import Reconcile
import Volume

/// The volume's journal as the planner sees it, with the account's keys and the hub's clock. Any
/// thread may use it; the transactions run on the recorder's.
struct SyncJournal: Sendable {
    let account: Account
    let clock = HubClock()
    let planner = SyncPlanner()
    private let volume: Volume
    private let state: Shared<SyncEngine.State>

    init(_ volume: Volume, account: Account, state: Shared<SyncEngine.State>) {
        (self.volume, self.account, self.state) = (volume, account, state)
    }

    /// Runs `body` in one transaction of the journal, after all earlier changes of the tree were
    /// recorded in it.
    func perform<Result: Sendable>(
        _ body: @escaping @Sendable (inout JournalTable) throws -> Result
    ) throws(VolumeError) -> Result {
        let (account, clock, root) = (account, clock, volume.root)
        let heldBack = state.withLock { $0.heldBack }
        return try volume.recorder.perform { _, t in
            var table = JournalTable(
                journal: t, account: account, clock: clock, tree: root, heldBack: heldBack)
            let result = try body(&table)
            try table.flush()
            return result
        }
    }

    func read<Result>(_ body: (Reader) throws -> Result) throws(VolumeError) -> Result {
        try volume.journal.read(body)
    }

    func session() throws(VolumeError) -> Session {
        guard let session = try read({ try Session($0) }) else {
            throw VolumeError(.damaged, "The journal has no position in the hub's journal.")
        }
        return session
    }
}
