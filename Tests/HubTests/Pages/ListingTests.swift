import Hub
import Model
import Support
import Synchronization
import Testing

@testable import HubPages

@Suite("The listing of a folder")
struct ListingTests {
    @Test("reads the items of the folder, and not those of the volume", arguments: [true, false])
    func plan(isDeleted: Bool) async throws {
        let scratch = try TemporaryDirectory("ledger")
        let ledger = try LedgerKind.sqlite.open(scratch.path)
        let volume = VolumeRow.example(.random())
        try await ledger.write { transaction in
            try transaction.addAccount(volume.account, name: "anna", quota: nil, at: 1)
            try transaction.addVolume(volume, at: 2)
        }
        let plans = try await ledger.read { transaction -> [String] in
            let watched = PlannedTransaction(base: transaction)
            for page in ["", "2", "after-00"] {
                _ = try Listing(.root, in: volume.id, page: page, isDeleted: isDeleted, watched)
            }
            return watched.plans.texts.withLock { $0 }
        }
        #expect(plans.count > 5)
        for plan in plans where plan.contains("FROM items") {
            #expect(plan.contains("INDEX items_parent (volume=? AND parent=?"), "\(plan)")
        }
        try ledger.close()
    }
}
