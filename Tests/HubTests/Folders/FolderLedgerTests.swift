import HubProtocol
import Model
import Reconcile
import Support
import Testing

@testable import Hub

/// Shared folders in each kind of ledger.
struct FolderLedgerTests {
    private static let shared = Identifier(high: 1, low: 1)
    private static let outside = Identifier(high: 1, low: 2)
    private static let moving = Identifier(high: 1, low: 3)

    private static func directory(
        _ id: Identifier, in parent: Identifier, _ sequence: UInt64
    ) -> ItemState {
        let key = NameKey(id.bytes)
        return ItemState(
            id: id, kind: .directory,
            placement: Placement(
                parent: parent, name: "\(id)", key: key, spare: "\(id)", spareKey: key),
            placedBy: .unknown, placedAt: Moment(time: 0, device: .root),
            placedSequence: sequence, sequence: sequence)
    }

    private func inner(_ number: Int) -> Identifier { Identifier(high: 2, low: UInt64(number)) }

    /// A volume with the directories `shared`, which is a shared folder, and `moving`, which has
    /// others in it.
    private struct Story {
        let ledger: any Ledger
        let volume: Identifier
        let folder: SharedFolder
        let limits: StepLimits

        init(_ ledger: any Ledger, _ ids: [Identifier]) async throws {
            let volume = VolumeRow.example(.random())
            folder = try await ledger.write { transaction in
                try transaction.addAccount(volume.account, name: "anna", quota: nil, at: 1)
                try transaction.addVolume(volume, at: 2)
                var table = LedgerTable(transaction, volume: volume.id, time: 0)
                // Each directory but the first ten is in another one.
                let inner = ids.enumerated().map { index, id in
                    (id, index < 10 ? FolderLedgerTests.moving : ids[index - 10])
                }
                for (id, parent) in [
                    (FolderLedgerTests.shared, Identifier.root),
                    (FolderLedgerTests.outside, .root),
                    (FolderLedgerTests.moving, FolderLedgerTests.outside),
                ] + inner {
                    table.sequence += 1
                    try table.put(FolderLedgerTests.directory(id, in: parent, table.sequence))
                }
                try JournalTimes(transaction, volume: volume.id)
                    .advance(after: 0, to: table.sequence, at: 3)
                return try transaction.folders.share(FolderLedgerTests.shared, in: volume.id)
            }
            var steps = StepLimits()
            (steps.crossed, steps.read, steps.work) = (0, 3, 1)
            (self.ledger, self.volume, limits) = (ledger, volume.id, steps)
        }

        /// What the folder's members are told after a position: the items that are there, and those
        /// that are not.
        func told(after: UInt64) async throws -> (there: Set<Identifier>, gone: Set<Identifier>) {
            let page = try await ledger.read { [folder] in
                try FolderChanges(transaction: $0, folder: folder).page(
                    after: after, limit: 1000, withoutTrashUpTo: 0, mayBeLarge: true)
            }
            var (there, gone) = (Set<Identifier>(), Set<Identifier>())
            for case .item(let item) in page?.changes ?? [] {
                if item.life.isAlive { there.insert(item.id) } else { gone.insert(item.id) }
            }
            return (there, gone)
        }

        /// - Returns: The position before the move.
        func move(to parent: Identifier) async throws -> UInt64 {
            try await ledger.write { [volume, limits] transaction in
                let head = try transaction.volume(volume)?.head ?? 0
                var table = LedgerTable(transaction, volume: volume, time: 0)
                (table.steps, table.sequence) = (limits, head + 1)
                var item = try #require(try table.item(FolderLedgerTests.moving))
                item.placement.parent = parent
                (item.sequence, item.placedSequence) = (head + 1, head + 1)
                try table.put(item)
                try JournalTimes(transaction, volume: volume)
                    .advance(after: head, to: head + 1, at: 4)
                return head
            }
        }

        func goOn() async throws -> Bool {
            try await ledger.write { [volume, limits] in
                try Revivals.step(in: volume, $0, at: 5, limits)
            }
        }
    }

    @Test("what moves over the border of a folder is told in steps", arguments: LedgerKind.all)
    func crossings(_ kind: LedgerKind) async throws {
        let scratch = try TemporaryDirectory("ledger")
        let ledger = try kind.open(scratch.path)
        let ids = (0..<20).map(inner)
        let story = try await Story(ledger, ids)
        #expect(try await story.told(after: 0).there.isEmpty)
        var head = try await story.move(to: Self.shared)
        #expect(try await story.told(after: head).there == [Self.moving])
        var count = 0
        while try await story.goOn() { count += 1 }
        #expect(count > 10)
        let all = Set(ids + [Self.moving])
        #expect(try await story.told(after: head).there == all)
        #expect(try await story.told(after: 0).there == all)
        // It leaves before everything was told, comes back, and leaves again.
        head = try await story.move(to: Self.outside)
        _ = try await story.goOn()
        _ = try await story.move(to: Self.shared)
        _ = try await story.goOn()
        _ = try await story.move(to: Self.outside)
        while try await story.goOn() {}
        let last = try await story.told(after: head)
        #expect(last.there.isEmpty && last.gone == all)
        let open = try await ledger.read { try $0.rows("SELECT 1 FROM crossings", []).count }
        #expect(open == 0)
        try ledger.close()
    }

    /// A folder with 100 directories, each in the one before, and the same number of others in the
    /// last of them.
    private func withDeepFolder(
        _ body:
            @escaping @Sendable (
                CountedTransaction, SharedFolder, _ ids: [Identifier]
            ) throws -> Void
    ) async throws {
        let scratch = try TemporaryDirectory("ledger")
        let ledger = try LedgerKind.sqlite.open(scratch.path)
        let volume = VolumeRow.example(.random())
        let ids = (1...200).map(inner)
        try await ledger.write { transaction in
            try transaction.addAccount(volume.account, name: "anna", quota: nil, at: 1)
            try transaction.addVolume(volume, at: 2)
            var table = LedgerTable(transaction, volume: volume.id, time: 0)
            table.sequence = 1
            try table.put(Self.directory(Self.shared, in: .root, 1))
            for (index, id) in ids.enumerated() {
                let parent = index == 0 ? Self.shared : ids[min(index, 100) - 1]
                try table.put(Self.directory(id, in: parent, 1))
            }
            let folder = try transaction.folders.share(Self.shared, in: volume.id)
            try body(CountedTransaction(base: transaction), folder, ids)
        }
        try ledger.close()
    }

    @Test("a request with many ids looks up each directory once") func manyIDs() async throws {
        try await withDeepFolder { transaction, folder, ids in
            let view = VolumeView(volume: .example(.random()), role: .reader, folder: folder)
            var visible = view.visibleItems(transaction)
            let seen = try (ids + [Self.outside]).filter { try visible.contains($0) }
            #expect(seen == ids)
            let count = transaction.counts.statements.withLock { $0 }
            #expect(count <= 2 * ids.count, "\(count)")
        }
    }

    @Test("what a commit reads to find out what is in a folder counts as work")
    func countedWork() async throws {
        try await withDeepFolder { transaction, folder, ids in
            var table = LedgerTable(transaction, volume: folder.volume, time: 0)
            table.scope = FolderScope(transaction, folder)
            #expect(try table.sees(ids[150]))
            #expect(table.work > 100)
            let before = table.work
            #expect(try table.sees(ids[151]))
            #expect(table.work == before + 1)
            // The ids of versions are looked up by the same table.
            let version = Revision(
                id: inner(900), parents: [], content: .sha256([]), size: 0,
                moment: Moment(time: 1, device: .root))
            table.sequence = 2
            try table.record(version, of: ids[152])
            let recorded = table.work
            let again = Operation(
                id: OperationID(device: .root, epoch: 1, number: 1), item: ids[152],
                moment: version.moment, base: 0, change: .edit(version))
            var versions = VersionIDs()
            let entry = OperationEntry(again, content: nil)
            #expect(try versions.refusal(of: entry, in: &table) == nil)
            #expect(table.work == recorded + 2)
        }
    }

    @Test("the table of a member shows the folder as a volume", arguments: LedgerKind.all)
    func table(_ kind: LedgerKind) async throws {
        let scratch = try TemporaryDirectory("ledger")
        let ledger = try kind.open(scratch.path)
        let volume = VolumeRow.example(.random())
        let (child, hidden) = (inner(1), inner(2))
        try await ledger.write { transaction in
            try transaction.addAccount(volume.account, name: "anna", quota: nil, at: 1)
            try transaction.addVolume(volume, at: 2)
            var whole = LedgerTable(transaction, volume: volume.id, time: 0)
            whole.sequence = 1
            for (id, parent) in [
                (Self.shared, Identifier.root), (Self.outside, .root), (child, Self.shared),
                (hidden, Self.outside),
            ] {
                try whole.put(Self.directory(id, in: parent, 1))
            }
            try whole.setAlias(of: inner(3), to: child)
            try whole.setAlias(of: inner(4), to: hidden)
            let folder = try transaction.folders.share(Self.shared, in: volume.id)
            var table = LedgerTable(transaction, volume: volume.id, time: 0)
            table.sequence = 2
            table.scope = FolderScope(transaction, folder)
            #expect(try table.item(.root)?.kind == .directory)
            #expect(try table.item(child)?.placement.parent == .root)
            for id in [Self.shared, Self.outside, hidden, inner(9)] {
                #expect(try table.item(id) == nil)
            }
            #expect(try table.children(of: .root) == [child])
            #expect(try table.holder(of: NameKey(child.bytes), in: .root) == child)
            #expect(try table.holder(of: NameKey(Self.outside.bytes), in: .root) == nil)
            #expect(try table.alias(of: inner(3)) == child)
            #expect(try table.alias(of: inner(4)) == nil)
            for id in [Self.shared, Self.outside, hidden, inner(4)] {
                #expect(throws: OperationBound.self) {
                    try table.put(Self.directory(id, in: .root, 2))
                }
                #expect(throws: OperationBound.self) { try table.setAlias(of: id, to: child) }
            }
            try table.put(Self.directory(inner(5), in: .root, 2))
            #expect(try transaction.item(inner(5), in: volume.id)?.placement.parent == Self.shared)
        }
        try ledger.close()
    }
}
