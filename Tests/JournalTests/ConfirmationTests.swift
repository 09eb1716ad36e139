import Model
import Testing

@testable import Journal

/// A confirmation counts only while the volume belongs to the hub that gave it.
struct ConfirmationTests {
    let scratch: Scratch
    let journal: Journal
    let document: Int64
    private let volume = Identifier.random()
    private let epoch = Identifier.random()

    init() throws {
        scratch = try Scratch()
        journal = try scratch.create()
        document = try journal.write { try $0.insert(file("a")) }
    }

    private func found(_ id: Identifier) throws -> Version {
        try #require(try journal.read { try $0.version(id: id)?.version })
    }

    /// A hub has the ids of a deleted document's versions for another one.
    @Test func anIdIsMadeFree() throws {
        let (here, elsewhere) = (version(1), version(2))
        try journal.write { t in
            try t.insert(here, of: document, manifest: [1])
            try t.insert(elsewhere, of: document, manifest: [])
            var item = try #require(try t.item(document))
            (item.current, item.deleted) = (elsewhere.id, 1)
            try t.update(item)
            try t.setAbsent(document, version: elsewhere.id)
            for id in [here.id, elsewhere.id] { try t.free(version: id) }
        }
        try journal.read { reader in
            let versions = try reader.versions(of: document)
            #expect(versions.map(\.number) == [here.number])
            #expect(versions.first.map { $0.id != here.id && $0.id != elsewhere.id } == true)
            #expect(try reader.item(document)?.current == nil)
            #expect(try reader.absentVersion(of: document) == nil)
        }
    }

    @Test func itCountsForTheHubOfNow() throws {
        var saved = version(1)
        saved.durability = .hub
        let other = version(2)
        try journal.write { t in
            try t.setCurrentHub(volume: volume, epoch: epoch)
            try t.insert(saved, of: document, manifest: [1])
            try t.insert(other, of: document, manifest: [1])
            try t.setDurability([other.id], to: .hub)
        }
        for id in [saved.id, other.id] {
            #expect(try found(id).durability == .hub && found(id).wasAtHub)
        }
        // The volume is signed out, then belongs to another hub's volume, then to the same hub
        // after a restore.
        try journal.write { try $0.removeCurrentHub() }
        #expect(try !journal.read { try $0.hub.belongsToHub() })
        #expect(try found(saved.id).durability == .disk && found(saved.id).wasAtHub)
        for (volume, epoch) in [(Identifier.random(), epoch), (volume, Identifier.random())] {
            try journal.write { try $0.setCurrentHub(volume: volume, epoch: epoch) }
            #expect(try found(saved.id).durability == .disk && found(saved.id).wasAtHub)
            #expect(try journal.read { try $0.confirmedVersions(after: 0, limit: 9) }.isEmpty)
            let open = try journal.read { try $0.hub.unconfirmedVersions(after: 0, limit: 9) }
            #expect(open.map(\.id) == [saved.id, other.id])
        }
        // The volume belongs to the first hub again.
        try journal.write { try $0.setCurrentHub(volume: volume, epoch: epoch) }
        #expect(try found(saved.id).durability == .hub)
        #expect(try journal.read { try $0.hub.unconfirmedVersions(after: 0, limit: 9) }.isEmpty)
    }

    @Test func anotherHubCanConfirmIt() throws {
        var saved = version(1)
        saved.durability = .hub
        try journal.write { t in
            // Without a hub, no confirmation is recorded.
            try t.insert(saved, of: document, manifest: [1])
        }
        #expect(try found(saved.id).durability == .disk && found(saved.id).wasAtHub)
        try journal.write { t in
            try t.setCurrentHub(volume: volume, epoch: epoch)
            try t.addConfirmation(saved.id)
        }
        #expect(try found(saved.id).durability == .hub)
        let renamed = Identifier.random()
        try journal.write { t in
            _ = try t.confirm(current: saved.id, of: document, as: renamed)
        }
        #expect(try found(renamed).durability == .hub)
        try journal.write { try $0.remove(version: renamed) }
        var again = saved
        again.id = renamed
        again.durability = .disk
        try journal.write { try $0.insert(again, of: document, manifest: [1]) }
        #expect(try found(renamed).durability == .disk && !found(renamed).wasAtHub)
    }

    /// What is known of a version besides the hub's word stays with it.
    @Test func aConfirmationUnderAnotherID() throws {
        var saved = version(1)
        saved.protection = Protection(owner: 1_000, group: 1_000, mode: 0o600)
        saved.session = WorkSession("agent 1")
        var next = version(2)
        next.parents = [saved.id]
        let renamed = Identifier.random()
        try journal.write { [saved, next] t in
            try t.setCurrentHub(volume: volume, epoch: epoch)
            try t.insert(saved, of: document, manifest: [1])
            try t.insert(next, of: document, manifest: [1])
            var item = try #require(try t.item(document))
            item.current = saved.id
            try t.update(item)
            try t.removeUnsent(document)
            #expect(try t.confirm(current: saved.id, of: document, as: renamed))
            #expect(try t.item(document)?.current == renamed)
            #expect(try !t.hub.isUnsent(document))
        }
        let known = try found(renamed)
        #expect(known.protection == saved.protection)
        #expect(known.session == saved.session)
        #expect(try found(next.id).parents == [renamed])
    }

    /// An older build did not record which hub had confirmed a version.
    @Test func afterAnUpgradeNobodyHasConfirmed() throws {
        var saved = version(1)
        saved.durability = .hub
        try journal.write { t in
            try t.setCurrentHub(volume: volume, epoch: epoch)
            try t.insert(saved, of: document, manifest: [1])
        }
        try journal.write { t in
            try t.run("DROP TABLE witnesses", [])
            try t.run("DROP TABLE confirmations", [])
            for table in [
                "owners", "sessions", "name_changes", "directory_owners", "unfinished", "grants",
                "fences",
            ] {
                try t.run("DROP TABLE \(table)", [])
            }
            try t.run("DROP INDEX mirror_place", [])
            try t.run("ALTER TABLE mirror DROP COLUMN place", [])
            try t.run("PRAGMA user_version = 5", [])
        }
        try journal.close()
        let upgraded = try Journal.open(path: scratch.path)
        let found = try upgraded.read { try $0.version(id: saved.id)?.version }
        #expect(found?.durability == .disk && found?.wasAtHub == true)
        try upgraded.close()
    }
}
