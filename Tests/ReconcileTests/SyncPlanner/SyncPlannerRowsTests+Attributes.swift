import Model
import Testing

@testable import Reconcile

// Permissions belong to the contents that they were given to, extended attributes to the item.
extension SyncPlannerRowsTests {
    @Test mutating func permissionsFollowTheirContentsAndPrecedeConflicts() {
        makeFile(0, 1, "a", content: 1)
        tell(0, 1)
        settle()
        let conflict = Revision(
            id: .revision(9), parents: [.revision(1)], content: .content(9), size: 1,
            moment: Moment(time: 0, device: .device(0)))
        journals[0].revisions[conflict.id] = conflict
        journals[0].images[.item(1)]!.conflicts = [conflict.id]
        save(0, 1, revision: 2, content: 2)
        setMode(0, 1, [1, 0xA4], at: 10)
        let changes = planner.comparison.draft(.item(1), in: &journals[0]).changes
        #expect(changes.map { $0.revision?.id } == [.revision(2), nil, conflict.id])
        #expect(changes.map(\.attributes) == [[], ["mode"], []])
    }

    /// Device 0 was offline meanwhile. It has not seen the later value, although another attribute
    /// was changed even later and the hub sends both together.
    @Test mutating func theLaterValueOfAnAttributeStays() {
        makeFile(0, 1, "a", content: 1)
        tell(0, 1)
        settle()
        setMode(0, 1, [1, 0x80], at: 10)
        setMode(1, 1, [1, 0xA4], at: 20)
        tell(1, 1)
        journals[1].images[.item(1)]!.attributes["x:user.label"] = [7]
        tell(1, 1)
        pull(0)
        tell(0, 1)
        settle()
        #expect(hub.table.item(.item(1))?.attributes["mode"]?.value == [1, 0xA4])
        #expect(journals[0].images[.item(1)]?.attributes["mode"] == [1, 0xA4])
    }

    /// The hub has what the device did after the backup. It is the device's own, but not seen by it
    /// any more.
    @Test mutating func aDeviceThatWasRolledBackDoesNotUndoItsLaterAttribute() {
        journals[0].clock = 100
        makeFile(0, 1, "a", content: 1)
        setMode(0, 1, [1, 0xA4], at: 10)
        let backup = journals[0]
        setMode(0, 1, [1, 0x80], at: 20)
        tell(0, 1)
        journals[0] = backup
        planner.restart(
            epoch: hub.newEpoch(of: journals[0].state.device), volumeEpoch: hub.volumeEpoch,
            in: &journals[0])
        join(0)
        settle()
        #expect(hub.table.item(.item(1))?.attributes["mode"]?.value == [1, 0x80])
        #expect(journals[0].images[.item(1)]?.attributes["mode"] == [1, 0x80])
    }

    mutating func join(_ who: Int) {
        pull(who)
        for id in journals[who].due { _ = bring(who, id) }
        journals[who].state.isFresh = false
    }

    /// A tree that is joined with a volume may have a document of the same name. Nothing says that
    /// its attributes are newer, and the hub's may protect what is private.
    @Test mutating func theAttributesOfTheHubCountForADocumentOfTheSameName() {
        makeFile(0, 1, "a", content: 1)
        setMode(0, 1, [1, 0x80], at: 10)
        tell(0, 1)
        journals[1].state.isFresh = true
        makeFile(1, 2, "a", content: 2)
        setMode(1, 2, [1, 0xA4], at: 5)
        journals[1].images[.item(2)]!.attributes["x:user.label"] = [7]
        join(1)
        settle()
        let attributes = hub.table.item(.item(1))?.attributes
        #expect(attributes?["mode"]?.value == [1, 0x80])
        #expect(attributes?["x:user.label"]?.value == [7])
    }

    /// Such a document may have conflict versions, which the hub does not know.
    @Test mutating func aDocumentOfTheSameNameKeepsItsConflictVersions() {
        makeFile(0, 1, "a", content: 1)
        tell(0, 1)
        journals[1].state.isFresh = true
        makeFile(1, 2, "a", content: 2)
        save(1, 2, revision: 3, content: 3)
        journals[1].revisions[.revision(3)]!.parents = []
        journals[1].images[.item(2)]!.conflicts = [.revision(2)]
        join(1)
        settle()
        let versions = hub.table.item(.item(1))?.versions.map(\.content)
        #expect(Set(versions ?? []) == [.content(1), .content(2), .content(3)])
    }

    /// Device 1 has saved for everybody, and nobody has these contents any more. What the hub has
    /// was private, and comes back with its own permissions.
    @Test mutating func contentsThatAreGivenUpLeaveNoPermissions() {
        makeFile(0, 1, "a", content: 1)
        setMode(0, 1, [1, 0x80], at: 1)
        tell(0, 1)
        settle()
        save(0, 1, revision: 2, content: 2)
        tell(0, 1)
        save(1, 1, revision: 3, content: 3)
        setMode(1, 1, [1, 0xA4], at: 10)
        journals[1].images[.item(1)]!.attributes["x:user.label"] = [7]
        pull(1)
        #expect(planner.unreadable.withdraw(current: .item(1), in: &journals[1]))
        settle()
        #expect(hub.table.item(.item(1))?.attributes["mode"]?.value == [1, 0x80])
        for journal in journals {
            #expect(
                journal.images[.item(1)]?.attributes == ["mode": [1, 0x80], "x:user.label": [7]])
            #expect(journal.images[.item(1)]?.revision == .revision(2))
        }
    }
}
