import ChunkStore
import Dispatch
import HubProtocol
import Model
import Reconcile
import Support
import Testing

@testable import Hub

/// The contract of each ledger. A new implementation adds itself to `LedgerKind.all`.
struct LedgerContract {
    private func withLedger(
        _ kind: LedgerKind, _ body: (any Ledger, TemporaryDirectory) async throws -> Void
    ) async throws {
        let scratch = try TemporaryDirectory("ledger")
        let ledger = try kind.open(scratch.path)
        try await body(ledger, scratch)
        try ledger.close()
    }

    private struct Stop: Error {}

    @Test(arguments: LedgerKind.all) func whatThrowsLeavesNothing(_ kind: LedgerKind) async throws {
        try await withLedger(kind) { ledger, _ in
            await #expect(throws: Stop.self) {
                try await ledger.write { transaction in
                    try transaction.setFact("a", 1)
                    throw Stop()
                }
            }
            let fact = try await ledger.read { try $0.fact("a") }
            #expect(fact == nil)
        }
    }

    @Test(arguments: LedgerKind.all) func whatThrowsInsideLeavesTheRest(_ kind: LedgerKind)
        async throws
    {
        try await withLedger(kind) { ledger, _ in
            try await ledger.write { transaction in
                try transaction.setFact("a", 1)
                do {
                    try transaction.nested {
                        try transaction.setFact("a", 2)
                        try transaction.setFact("b", 2)
                        throw Stop()
                    }
                } catch is Stop {}
                try transaction.nested { try transaction.setFact("c", 3) }
            }
            let facts = try await ledger.read { transaction in
                try ["a", "b", "c"].map { try transaction.fact($0) }
            }
            #expect(facts == [1, nil, 3])
        }
    }

    @Test(arguments: LedgerKind.all) func valuesComeBackAsTheyWere(_ kind: LedgerKind) async throws
    {
        try await withLedger(kind) { ledger, scratch in
            let rows: [LedgerRow] = try await ledger.write { transaction in
                try transaction.devices.addInvite(
                    .sha256([]), account: .root, expires: .min)
                return try transaction.rows(
                    "SELECT code, expires, NULL, $1, $2 FROM invites",
                    [.text("\u{e9}\u{1f642}"), .bytes([])])
            }
            let row = try #require(rows.first)
            #expect(try row.digest(0) == .sha256([]))
            #expect(try row.integer(1) == .min)
            #expect(row.isNull(2))
            #expect(try row.text(3) == "\u{e9}\u{1f642}")
            #expect(row[4] == .bytes([]))
            #expect(throws: VolumeError.self) { try row.text(0) }
            let again = try kind.open(scratch.path)
            let count = try await again.read { try $0.rows("SELECT 1 FROM invites", []).count }
            #expect(count == 1)
            try again.close()
        }
    }

    @Test(arguments: LedgerKind.all) func oneWriterAtATime(_ kind: LedgerKind) async throws {
        try await withLedger(kind) { ledger, scratch in
            let other = try kind.open(scratch.path)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for index in 0..<40 {
                    let ledger = index.isMultiple(of: 2) ? ledger : other
                    group.addTask {
                        try await ledger.write { transaction in
                            let now = try transaction.fact("count") ?? 0
                            try transaction.setFact("count", now + 1)
                        }
                    }
                }
                try await group.waitForAll()
            }
            let count = try await ledger.read { try $0.fact("count") }
            #expect(count == 40)
            try other.close()
        }
    }

    @Test(arguments: LedgerKind.all)
    func oneWriterOfAVolumeAtATime(_ kind: LedgerKind) async throws {
        try await withLedger(kind) { ledger, scratch in
            let (other, volume) = (try kind.open(scratch.path), Identifier.random())
            try await ledger.write { transaction in
                try transaction.addVolume(.example(volume), at: 1)
            }
            try await withThrowingTaskGroup(of: Void.self) { group in
                for index in 0..<40 {
                    let ledger = index.isMultiple(of: 2) ? ledger : other
                    let scope = index.isMultiple(of: 10) ? .everything : WriteScope.volume(volume)
                    group.addTask {
                        try await ledger.write(scope) { transaction in
                            let now = try transaction.volume(volume)?.head ?? 0
                            try transaction.setHead(of: volume, now + 1)
                        }
                    }
                }
                try await group.waitForAll()
            }
            #expect(try await ledger.read { try $0.volume(volume)?.head } == 40)
            try other.close()
        }
    }

    @Test(arguments: LedgerKind.all)
    func volumesOfAnAccountAreChargedTogether(_ kind: LedgerKind) async throws {
        try await withLedger(kind) { ledger, _ in
            let account = Identifier.random()
            try await ledger.write {
                try $0.addAccount(account, name: "anna", quota: nil, at: 1)
            }
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<30 {
                    group.addTask {
                        try await ledger.write(.volume(.random())) { try $0.charge(account, 7) }
                    }
                }
                try await group.waitForAll()
            }
            #expect(try await ledger.read { try $0.account(account)?.used } == 210)
        }
    }

    @Test(arguments: LedgerKind.all) func aReadSeesOneState(_ kind: LedgerKind) async throws {
        try await withLedger(kind) { ledger, _ in
            let (seen, isSeen) = AsyncStream<Void>.makeStream()
            let written = DispatchSemaphore(value: 0)
            async let values = ledger.read { transaction in
                let before = try transaction.fact("a")
                isSeen.yield()
                written.wait()
                // A repeating ledger runs the body once more.
                written.signal()
                return [before, try transaction.fact("a")]
            }
            for await _ in seen { break }
            try await ledger.write { try $0.setFact("a", 1) }
            written.signal()
            let both = try await values
            #expect(both[0] == both[1])
        }
    }

    /// A statement that fails ends the transaction, also when the body goes on.
    @Test(arguments: LedgerKind.all) func aFailedStatementIsNotLost(_ kind: LedgerKind) async throws
    {
        try await withLedger(kind) { ledger, _ in
            try await ledger.write {
                try $0.devices.addInvite(.sha256([1]), account: .root, expires: 1)
            }
            await #expect(throws: VolumeError.self) {
                try await ledger.write { transaction in
                    try transaction.setFact("a", 1)
                    try transaction.devices.addInvite(.sha256([1]), account: .root, expires: 1)
                }
            }
            try await ledger.write { transaction in
                try transaction.setFact("b", 1)
                _ = try? transaction.nested {
                    try transaction.devices.addInvite(.sha256([1]), account: .root, expires: 1)
                }
                try transaction.setFact("c", 1)
            }
            let facts = try await ledger.read { transaction in
                try ["a", "b", "c"].map { try transaction.fact($0) }
            }
            #expect(facts == [nil, 1, 1])
        }
    }

    @Test(arguments: LedgerKind.all) func othersAreNoticed(_ kind: LedgerKind) async throws {
        try await withLedger(kind) { ledger, scratch in
            let before = try await ledger.externalChangeCount()
            try await ledger.write { try $0.setFact("own", 1) }
            #expect(try await ledger.externalChangeCount() == before)
            let other = try kind.open(scratch.path)
            try await other.write { try $0.setFact("other", 1) }
            #expect(try await ledger.externalChangeCount() != before)
            try other.close()
        }
    }

    @Test(
        "whoever opens and closes a ledger does not wait for somebody who reads for long",
        .timeLimit(.minutes(1)), arguments: LedgerKind.all)
    func longReadings(_ kind: LedgerKind) async throws {
        try await withLedger(kind) { ledger, scratch in
            try await ledger.write { try $0.setFact("a", 1) }
            let place = scratch.path
            let facts = try await ledger.read { transaction in
                let before = try transaction.fact("a")
                for _ in 0..<10 {
                    let other = try kind.open(place)
                    try BlockingCall.wait { try await other.write { try $0.setFact("a", 2) } }
                    try other.close()
                }
                return [before, try transaction.fact("a")]
            }
            #expect(facts[0] == facts[1])
            #expect(try await ledger.read { try $0.fact("a") } == 2)
        }
    }

    @Test(arguments: LedgerKind.all) func codesHoldOnceAndNotForEver(_ kind: LedgerKind)
        async throws
    {
        try await withLedger(kind) { ledger, _ in
            let account = Identifier.random()
            try await ledger.write { transaction in
                try transaction.devices.addInvite(.sha256([1]), account: account, expires: 100)
                try transaction.devices.addInvite(.sha256([2]), account: account, expires: 100)
                #expect(try transaction.devices.redeem(.sha256([3]), at: 50) == nil)
                #expect(try transaction.devices.redeem(.sha256([1]), at: 50) == account)
                #expect(try transaction.devices.redeem(.sha256([1]), at: 50) == nil)
                #expect(try transaction.devices.redeem(.sha256([2]), at: 101) == nil)
            }
        }
    }

    @Test(arguments: LedgerKind.all) func chunksAreUsedOnlyWhenTheyAreThere(_ kind: LedgerKind)
        async throws
    {
        try await withLedger(kind) { ledger, _ in
            let (volume, id) = (Identifier.random(), Digest.sha256([1]))
            let place = ChunkLocation(pack: 1, offset: 2, storedLength: 3, length: 4)
            try await ledger.write { transaction in
                #expect(try transaction.chunks.retain(id, in: volume) == nil)
                try transaction.chunks.put(id, plain: id, at: place, in: volume, time: 10)
                #expect(try transaction.chunks.condemn(cameBefore: 9, in: volume, at: 20) == 0)
                #expect(try transaction.chunks.condemn(cameBefore: 10, in: volume, at: 20) == 1)
                #expect(try transaction.chunks.retain(id, in: volume) == nil)
                #expect(try !transaction.chunks.isThere(id, in: volume))
                // The chunk is uploaded again.
                try transaction.chunks.put(id, plain: id, at: place, in: volume, time: 30)
                #expect(try transaction.chunks.retain(id, in: volume) != nil)
                #expect(try transaction.chunks.condemn(cameBefore: 99, in: volume, at: 99) == 0)
                #expect(try transaction.chunks.sweep(condemnedBefore: 99, in: volume) == 0)
                // Another volume does not have the chunk.
                #expect(try transaction.chunks.retain(id, in: .random()) == nil)
                try transaction.chunks.release(id, in: volume)
                #expect(try transaction.chunks.condemn(cameBefore: 99, in: volume, at: 99) == 1)
                #expect(try transaction.chunks.sweep(condemnedBefore: 98, in: volume) == 0)
                #expect(try transaction.chunks.sweep(condemnedBefore: 99, in: volume) == 1)
                #expect(try transaction.chunks.row(id, in: volume) == nil)
            }
        }
    }

    @Test(arguments: LedgerKind.all) func changesNeverCutASequence(_ kind: LedgerKind) async throws
    {
        try await withLedger(kind) { ledger, _ in
            let volume = Identifier.random()
            try await ledger.write { transaction in
                for sequence in UInt64(1)...20 {
                    let count = sequence == 7 ? 12 : 1
                    for index in 0..<count {
                        try transaction.put(
                            item("\(sequence)-\(index)", sequence: sequence), replacing: nil,
                            in: volume)
                    }
                }
                try transaction.setAlias(
                    of: .random(), to: .random(), in: volume, sequence: 20)
            }
            for limit in [1, 2, 3, 8, 100] {
                var (after, sequences) = (UInt64(0), [UInt64]())
                while true {
                    let from = after
                    let page = try await ledger.read {
                        try $0.changes(in: volume, after: from, limit: limit, withoutTrashUpTo: 0)
                    }
                    for case .item(let item) in page.changes { sequences.append(item.sequence) }
                    guard let next = page.next else { break }
                    after = next
                }
                #expect(sequences.count == 31)
                #expect(sequences == sequences.sorted())
            }
        }
    }

    @Test(arguments: LedgerKind.all) func volumesHaveMembers(_ kind: LedgerKind) async throws {
        try await withLedger(kind) { ledger, _ in
            let (volume, bert) = (VolumeRow.example(.random()), Identifier.random())
            let anna = volume.account
            let (before, after, last) = try await ledger.write { transaction in
                try transaction.addAccount(anna, name: "anna", quota: nil, at: 1)
                try transaction.addAccount(bert, name: "bert", quota: nil, at: 1)
                try transaction.addVolume(volume, at: 2)
                let before = try transaction.membership.members(of: volume.id)
                try transaction.membership.setMember(bert, of: volume.id, .editor, at: 3)
                try transaction.membership.setMember(bert, of: volume.id, .reader, at: 4)
                let after = (
                    try transaction.membership.members(of: volume.id),
                    try transaction.membership.accessible(to: bert),
                    try transaction.membership.standing(of: bert, in: volume.id)
                )
                try transaction.membership.removeMember(bert, of: volume.id)
                return (before, after, try transaction.membership.role(of: bert, in: volume.id))
            }
            #expect(before == [Member(user: "anna", role: .owner, since: 2)])
            #expect(after.0 == before + [Member(user: "bert", role: .reader, since: 3)])
            #expect(after.1 == [VolumeAccess(volume: volume, role: .reader, owner: "anna")])
            #expect(after.2 == MemberStanding(role: .reader, members: 2))
            #expect(last == nil)
        }
    }

    @Test(arguments: LedgerKind.all) func linksGoWithWhatTheyNeed(_ kind: LedgerKind) async throws {
        try await withLedger(kind) { ledger, _ in
            let (volume, bert) = (VolumeRow.example(.random()), Identifier.random())
            let anna = volume.account
            try await ledger.write { transaction in
                for (id, name) in [(anna, "anna"), (bert, "bert")] {
                    try transaction.addAccount(id, name: name, quota: nil, at: 1)
                }
                try transaction.addVolume(volume, at: 2)
                let links = transaction.links
                /// Adds a link of bert and runs `body`.
                func isGone(_ body: (LinkRow) throws -> Void) throws {
                    try transaction.membership.setMember(bert, of: volume.id, .editor, at: 3)
                    let device = Identifier.random()
                    _ = try transaction.devices.enrol(device, account: bert, name: "d", at: 4)
                    let link = LinkRow.example(
                        of: bert, in: volume, on: device, LinkPassword(bytes: [1, 2]))
                    let token = Digest.sha256(link.id.bytes)
                    try links.add(link, token: token)
                    #expect(try links[link.id] == link)
                    #expect(try links.all(in: volume.id) == [link])
                    #expect(try transaction.devices.caller(token, at: 8)?.device == link.id)
                    #expect(try transaction.devices.caller(token, at: 9) == nil)
                    let devices = try transaction.devices.entries(of: bert).map(\.id)
                    #expect(!devices.contains(link.id), "it is not listed as a device")
                    try body(link)
                    #expect(try links[link.id] == nil)
                    #expect(try transaction.devices.owner(of: link.id) == nil)
                    #expect(try !transaction.devices.hasToken(link.id))
                }
                try isGone { try links.remove($0.id) }
                try isGone { try transaction.devices.revoke($0.device, at: 6) }
                try isGone { _ in
                    try transaction.membership.setMember(bert, of: volume.id, .reader, at: 6)
                }
                try isGone { _ in try transaction.membership.removeMember(bert, of: volume.id) }
                let own = LinkRow.example(of: anna, in: volume, on: .random())
                try links.add(own, token: .sha256([1]))
                try links.removeAll(of: bert, in: volume.id)
                #expect(try links.all(in: volume.id) == [own], "another account's link stays")
                try links.remove(own.id)
                // The volume goes with its owner, and with it the links of others.
                try isGone { _ in try transaction.removeAccount(anna) }
                #expect(try transaction.account(bert) != nil)
            }
        }
    }

    @Test(arguments: LedgerKind.all) func linksGoWithTheirMakers(_ kind: LedgerKind) async throws {
        try await withLedger(kind) { ledger, _ in
            let (volume, bert) = (VolumeRow.example(.random()), Identifier.random())
            let left = try await ledger.write { transaction in
                try transaction.addAccount(volume.account, name: "anna", quota: nil, at: 1)
                try transaction.addAccount(bert, name: "bert", quota: nil, at: 1)
                try transaction.addVolume(volume, at: 2)
                try transaction.membership.setMember(bert, of: volume.id, .editor, at: 3)
                let link = LinkRow.example(of: bert, in: volume, on: .random())
                try transaction.links.add(link, token: .sha256([1]))
                try transaction.removeAccount(bert)
                let tokens = try transaction.rows("SELECT 1 FROM tokens", []).count
                return try transaction.links.all(in: volume.id).count + tokens
            }
            #expect(left == 0)
        }
    }

    /// The volumes of an older ledger get their accounts as owners.
    @Test(arguments: LedgerKind.all) func olderVolumesHaveOwners(_ kind: LedgerKind) async throws {
        let scratch = try TemporaryDirectory("ledger")
        let volume = VolumeRow.example(.random())
        let isSQLite = kind.testDescription.hasPrefix("SQLite")
        let ledger = try kind.open(scratch.path)
        try await ledger.write { transaction in
            try transaction.addAccount(volume.account, name: "anna", quota: nil, at: 1)
            try transaction.addVolume(volume, at: 2)
            try transaction.dropThePast()
            for table in ["members", "packs", "staged", "loose_uses", "revivals", "dav_locks"] {
                try transaction.execute("DROP TABLE \(table)", [])
            }
            try transaction.execute("DROP INDEX revisions_order", [])
            try transaction.execute("CREATE INDEX revisions_item ON revisions (volume, item)", [])
            try transaction.execute(
                isSQLite ? "PRAGMA user_version = 5" : "UPDATE ledger SET version = 5", [])
        }
        try ledger.close()
        let migrated = try kind.open(scratch.path)
        let members = try await migrated.read { try $0.membership.members(of: volume.id) }
        #expect(members == [Member(user: "anna", role: .owner, since: 2)])
        try migrated.close()
    }

    private func item(_ name: String, sequence: UInt64) -> ItemState {
        let placement = Placement(
            parent: .root, name: name, key: NameKey(Array(name.utf8)), spare: name,
            spareKey: NameKey([1]))
        return ItemState(
            id: .random(), kind: .directory, placement: placement,
            placedBy: OperationID(device: .root, epoch: 1, number: 1),
            placedAt: Moment(time: 0, device: .root), placedSequence: sequence,
            sequence: sequence)
    }
}

extension VolumeRow {
    static func example(_ id: Identifier) -> VolumeRow {
        VolumeRow(
            id: id, account: .root, name: "v", epoch: .random(), chunkKey: [1], nameKey: [2],
            head: 0, collection: 0)
    }
}

extension LinkRow {
    fileprivate static func example(
        of account: Identifier, in volume: VolumeRow, on device: Identifier,
        _ password: LinkPassword? = nil
    ) -> LinkRow {
        LinkRow(
            id: .random(), volume: volume.id, item: .root, account: account, device: device,
            edits: true, made: 5, ends: 9, password: password)
    }
}
