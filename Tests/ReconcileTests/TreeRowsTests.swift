import Model
import Testing

@testable import Reconcile

/// The rows of the decision table about the tree. Item 1 (folder Work) and item 2 (file plan.txt in
/// it, version 20) exist, and every device has seen them.
@Suite struct TreeRowsTests {
    private var story = Story()
    private let seen: UInt64

    init() {
        story.tell(1, 1, .directory("Work"))
        story.tell(1, 2, .file("plan.txt", in: 1, 20))
        seen = story.head
    }

    @Test mutating func row5AMoveWinsOverADeletion() {
        story.tell(1, 2, .move(to: "plan B.txt", in: 1, from: story.placedBy(2)))
        #expect(story.tell(2, seen: seen, 2, .delete(20)) == .overruled(.unseenChange))
        #expect(story.isAlive(2) && story.name(2) == "plan B.txt")
    }

    @Test mutating func row5AMovedFolderComesBackWithAllThatIsInIt() {
        let placed = story.placedBy(1)
        story.tell(1, 1, .delete(nil))
        #expect(!story.isAlive(1) && !story.isAlive(2))
        #expect(story.tell(2, seen: seen, 1, .move(to: "Job", from: placed)) == .applied)
        #expect(story.isAlive(1) && story.isAlive(2) && story.name(1) == "Job")
    }

    @Test mutating func row6AnAttributeDoesNotStopADeletion() {
        story.tell(1, 2, .attribute("mode", [1, 0xA4]))
        #expect(story.tell(2, seen: seen, 2, .delete(20)) == .applied)
        #expect(story.tell(1, seen: seen, 2, .attribute("x:tag", [1])) == .applied)
        #expect(!story.isAlive(2) && story.item(2).attributes["x:tag"]?.value == [1])
    }

    @Test mutating func row7TwoDeletionsAreOne() {
        story.tell(1, 2, .delete(20))
        let batch = story.item(2).batch
        #expect(story.tell(2, seen: seen, 2, .delete(20)) == .overruled(.alreadyGone))
        #expect(story.item(2).batch == batch)
    }

    @Test mutating func row8WhatChangedInAFolderStaysWithTheFoldersAboveIt() {
        story.tell(1, 3, .directory("Old", in: 1))
        story.tell(1, 4, .directory("Deep", in: 1))
        story.tell(1, 5, .file("a.txt", in: 4, 50))
        story.tell(1, 6, .file("b.txt", in: 4, 60))
        let known = story.head
        story.tell(1, 5, .save(51, on: [50]))
        #expect(story.tell(2, seen: known, 1, .delete(nil)) == .overruled(.partly))
        #expect([1, 4, 5].allSatisfy(story.isAlive))
        #expect(![2, 3, 6].contains(where: story.isAlive))
        #expect(Set([2, 3, 6].map { story.item($0).batch }).count == 1)
    }

    @Test mutating func row8WhatWasMadeOrMovedThereKeepsAllThatIsInIt() {
        story.tell(1, 3, .directory("Other"))
        story.tell(1, 4, .file("c.txt", in: 3, 40))
        let known = story.head
        story.tell(1, 3, .move(to: "Other", in: 1, from: story.placedBy(3)))
        #expect(story.tell(2, seen: known, 1, .delete(nil)) == .overruled(.partly))
        #expect([1, 3, 4].allSatisfy(story.isAlive) && !story.isAlive(2))
    }

    @Test mutating func row9ARenamedFolderIsNotDeletedAtAll() {
        story.tell(1, 1, .move(to: "Job", from: story.placedBy(1)))
        #expect(story.tell(2, seen: seen, 1, .delete(nil)) == .overruled(.unseenChange))
        #expect(story.isAlive(1) && story.isAlive(2))
    }

    @Test mutating func row10WhatIsMadeInATrashedFolderBringsOnlyThatBack() {
        story.tell(1, 1, .delete(nil))
        #expect(story.tell(2, seen: seen, 3, .file("new.txt", in: 1, 30)) == .applied)
        #expect(story.isAlive(1) && story.isAlive(3) && !story.isAlive(2))
    }

    @Test mutating func row10AFolderThatComesBackIsTheOneThatHasItsName() {
        story.tell(1, 1, .delete(nil))
        story.tell(1, 5, .directory("Work"))
        #expect(story.tell(2, seen: seen, 2, .save(21, on: [20])) == .applied)
        #expect(story.isAlive(2) && story.parent(2) == 5)
        #expect(story.table.alias(of: .item(1)) == .item(5) && !story.isAlive(1))
        // A device that knows the folder under its old id means the new one.
        #expect(story.tell(2, seen: seen, 6, .file("x.txt", in: 1, 60)) == .applied)
        #expect(story.parent(6) == 5)
    }

    @Test mutating func row10AFolderThatComesBackStepsAsideForAFile() {
        story.tell(1, 1, .delete(nil))
        story.tell(1, 5, .file("Work", 50))
        story.tell(2, seen: seen, 2, .save(21, on: [20]))
        #expect(story.isAlive(1) && story.name(1) == "Work (2)" && story.parent(2) == 1)
    }

    @Test mutating func row11TwoFoldersOfOneNameAreOne() {
        #expect(story.tell(2, seen: 0, 3, .directory("Work")) == .unified(into: .item(1)))
        #expect(story.tell(2, seen: 0, 4, .file("mine.txt", in: 3, 40)) == .applied)
        #expect(story.parent(4) == 1)
        #expect(story.table.item(.item(3)) == nil)
        let moved = Change.move(to: "Job", from: story.placedBy(1))
        #expect(story.tell(2, 3, moved) == .applied && story.name(1) == "Job")
    }

    @Test mutating func row12TwoFilesOfOneNameAndContentsAreOne() {
        let twin = Change.file("plan.txt", in: 1, 30, content: 1_020)
        #expect(story.tell(2, seen: seen, 3, twin) == .unified(into: .item(2)))
        #expect(story.tell(2, seen: seen, 3, .save(31, on: [30])) == .applied)
        #expect(story.current(2) == 31 && story.conflicts(2).isEmpty)
    }

    /// The device had seen plan.txt and expected the two to be unified, but plan.txt was edited in
    /// the meantime.
    @Test mutating func row12WhatWasOnlyExpectedToBeOneIsTwo() {
        story.tell(1, 2, .save(21, on: [20]))
        let twin = Change.file("plan.txt", in: 1, 30, content: 1_020)
        #expect(story.tell(2, seen: seen, 3, twin) == .bounced)
        #expect(story.tell(3, 3, .save(32, on: [30])) == .applied)
        // So its edits apply to the item that it has made, and nothing else happens to the other
        // item.
        #expect(story.tell(2, seen: seen, 3, .save(31, on: [30])) == .conflict)
        #expect(story.tell(2, 3, .save(33, on: [31, 32])) == .applied)
        #expect(story.current(3) == 33 && story.conflicts(3).isEmpty)
        #expect(story.current(2) == 21 && story.conflicts(2).isEmpty)
    }

    /// The version that it names belongs to another document: the edit is kept, and the user is
    /// asked.
    @Test mutating func row12AnEditIsOneOfTheItemThatItNames() {
        story.tell(1, 2, .delete(20))
        let twin = Change.file("plan.txt", in: 1, 30, content: 1_020)
        #expect(story.tell(2, seen: seen, 3, twin) == .applied)
        #expect(story.tell(2, seen: seen, 2, .save(31, on: [30])) == .conflict)
        #expect(story.isAlive(2) && story.name(2) == "plan (2).txt")
        #expect(Set(story.item(2).versions.map(\.id.low)) == [20, 31])
        #expect(story.current(3) == 30 && story.conflicts(3).isEmpty)
    }

    @Test mutating func row13TheNewcomerStepsAside() {
        #expect(story.tell(2, seen: seen, 3, .file("plan.txt", in: 1, 30)) == .bounced)
        #expect(story.name(2) == "plan.txt" && story.name(3) == "plan (2).txt")
        #expect(story.tell(3, seen: seen, 4, .file("plan.txt", in: 1, 40)) == .bounced)
        #expect(story.name(4) == "plan (2) \(Identifier.item(4).description.prefix(8)).txt")
        // It keeps that name, even when the other name becomes free.
        story.tell(1, 2, .delete(20))
        #expect(story.name(3) == "plan (2).txt")
        story.tell(2, 3, .move(to: "plan.txt", in: 1, from: story.placedBy(3)))
        #expect(story.name(3) == "plan.txt" && !story.item(3).isBounced)
    }

    @Test mutating func row13AFileAndAPackageAreTwo() {
        let package = Change.file("plan.txt", in: 1, 30, content: 1_020, kind: .package)
        #expect(story.tell(2, seen: seen, 3, package) == .bounced)
    }

    @Test mutating func row14AFileAndAFolderAreTwo() {
        #expect(story.tell(2, seen: seen, 3, .directory("plan.txt", in: 1)) == .bounced)
        #expect(story.tell(2, seen: 0, 4, .file("Work", 40)) == .bounced)
        #expect(story.name(1) == "Work")
    }

    @Test mutating func row15TwoFoldersMovedToOneNameStayTwo() {
        story.tell(1, 3, .directory("Home"))
        let moved = Change.move(to: "Work", from: story.placedBy(3))
        #expect(story.tell(2, seen: seen, 3, moved) == .bounced)
        #expect(story.name(3) == "Work (2)" && story.isAlive(1))
    }

    @Test mutating func row16TheNewerMoveWins() {
        let placed = story.placedBy(2)
        story.tell(1, at: 900, 2, .move(to: "a.txt", in: 1, from: placed))
        let older = Change.move(to: "b.txt", in: 1, from: placed)
        #expect(story.tell(2, seen: seen, at: 800, 2, older) == .overruled(.newerMove))
        let newer = Change.move(to: "c.txt", in: 1, from: placed)
        #expect(story.tell(3, seen: seen, at: 950, 2, newer) == .applied)
        #expect(story.name(2) == "c.txt")
        // A device that has seen the move is newer, whatever its clock says.
        let seeing = Change.move(to: "d.txt", in: 1, from: story.placedBy(2))
        #expect(story.tell(2, at: 1, 2, seeing) == .applied)
    }

    @Test mutating func row17WhatDoesNotTouchIsNoConflict() {
        story.tell(1, 2, .move(to: "final.txt", from: story.placedBy(2)))
        story.tell(1, 1, .move(to: "Job", from: story.placedBy(1)))
        #expect(story.tell(2, seen: seen, 2, .save(21, on: [20])) == .applied)
        #expect(story.tell(3, seen: seen, 2, .attribute("mode", [1, 0xC0])) == .applied)
        let item = story.item(2)
        #expect(item.name == "final.txt" && item.current?.id == .revision(21))
        #expect(item.conflicts.isEmpty && item.attributes["mode"]?.value == [1, 0xC0])
    }

    @Test mutating func row18AMoveThatWouldCloseACycleIsNone() {
        story.tell(1, 3, .directory("Home"))
        let (work, home) = (story.placedBy(1), story.placedBy(3))
        let known = story.head
        story.tell(1, 1, .move(to: "Work", in: 3, from: work))
        let verdict = story.tell(2, seen: known, 3, .move(to: "Home", in: 1, from: home))
        #expect(verdict == .overruled(.cycle))
        #expect(story.parent(1) == 3 && story.parent(3) == 0)
        #expect(
            story.tell(2, 3, .move(to: "x", in: 3, from: home)) == .overruled(.cycle))
    }

    @Test mutating func row18ACycleIsAVoteAgainstADeletion() {
        story.tell(1, 3, .directory("Home"))
        let (work, home) = (story.placedBy(1), story.placedBy(3))
        let known = story.head
        story.tell(1, 1, .move(to: "Work", in: 3, from: work))
        story.tell(1, 3, .delete(nil))
        story.tell(2, seen: known, 3, .move(to: "Home", in: 1, from: home))
        #expect([1, 2, 3].allSatisfy(story.isAlive))
    }

    @Test mutating func row19ACaseOnlyRenameIsOneOfTheSameItem() {
        var placement = Placement("PLAN.txt", in: .item(1))
        placement.key = story.item(2).placement.key
        #expect(story.tell(2, 2, .move(placement, base: story.placedBy(2))) == .applied)
        #expect(story.name(2) == "PLAN.txt")
    }

    @Test mutating func row20AnEditOfWhatWasReplacedByAnotherKindComesBackBesideIt() {
        story.tell(1, 2, .delete(20))
        story.tell(1, 3, .directory("plan.txt", in: 1))
        #expect(story.tell(2, seen: seen, 2, .save(21, on: [20])) == .bounced)
        #expect(story.name(2) == "plan (2).txt" && story.name(3) == "plan.txt")
    }

    @Test mutating func row24TheNewestValueWinsForEachAttribute() {
        story.tell(1, at: 900, 2, .attribute("mode", [1]))
        let older = story.tell(2, seen: seen, at: 800, 2, .attribute("mode", [2]))
        #expect(older == .overruled(.newerValue))
        #expect(story.tell(2, seen: seen, at: 800, 2, .attribute("x:a", [3])) == .applied)
        #expect(story.tell(2, at: 1, 2, .attribute("mode", nil)) == .applied)
        #expect(story.item(2).attributes["mode"]?.value == nil)
        #expect(story.item(2).attributes["x:a"]?.value == [3])
    }

    @Test mutating func row27And28RestoringBringsBackWhatWentTogether() {
        story.tell(1, 3, .file("old.txt", in: 1, 30))
        story.tell(1, 3, .delete(30))
        let known = story.head
        story.tell(1, 1, .delete(nil))
        #expect(story.tell(1, 1, .restore) == .applied)
        #expect(story.isAlive(1) && story.isAlive(2) && !story.isAlive(3))
        // A deletion that has not seen the restoration comes too late.
        #expect(story.tell(2, seen: known, 1, .delete(nil)) == .overruled(.unseenChange))
        #expect(story.tell(2, 1, .restore) == .applied)
    }

    @Test mutating func row28WhatIsRestoredBringsTheFoldersAboveIt() {
        story.tell(1, 3, .file("b.txt", in: 1, 30))
        story.tell(1, 1, .delete(nil))
        #expect(story.tell(1, 2, .restore) == .applied)
        #expect(story.isAlive(1) && story.isAlive(2) && !story.isAlive(3))
    }

    @Test mutating func aCreationThatComesTwiceIsOne() {
        let before = story.item(2)
        #expect(story.tell(1, 2, .file("plan.txt", in: 1, 20)) == .applied)
        #expect(story.item(2) == before)
    }

    /// A copy of the device has sent the file as it was when the store was copied.
    @Test(arguments: [20, 21])
    mutating func row16AndRow24WhatTheOriginalOfACopyDidLaterWins(revision: Int) {
        func creation(_ name: String, _ revision: Int, mode: UInt8) -> Change {
            .create(
                Creation(
                    kind: .file, placement: Placement(name, in: .item(1)),
                    revision: .made(revision, []), attributes: ["mode": [1, mode]]))
        }
        let late = creation("late.txt", revision, mode: 0x80)
        story.tell(2, at: 50, 3, creation("early.txt", 20, mode: 0xA4))
        story.tell(1, at: 60, 3, late)
        let told = story.last!
        for _ in 0..<2 {
            #expect(story.name(3) == "late.txt")
            #expect(story.item(3).attributes["mode"]?.value == [1, 0x80])
            // The same once more, and what the copy did before, change nothing.
            story.tell(told)
            story.tell(2, at: 55, 3, creation("early.txt", 20, mode: 0xA4))
        }
    }

    @Test mutating func aLateTwinOfACreationDoesNotBringBackWhatIsDeleted() {
        let batch = deleted(2, 20)
        // The creation is repeated by a device that has forgotten it and does not know about the
        // deletion.
        let again = story.tell(1, seen: seen, epoch: 2, 2, .file("plan.txt", in: 1, 20))
        #expect(again == .applied)
        #expect(!story.isAlive(2) && story.item(2).batch == batch)
        // The device believes that the file exists, so it must receive once more that it does not.
        #expect(story.item(2).sequence == story.head)
    }

    @Test mutating func theSameCreationOnceMoreDoesNotBringBackWhatItsDeviceDeleted() {
        story.tell(3, seen: seen, 3, .file("mine.txt", in: 1, 30))
        let creation = story.last!
        story.tell(3, seen: seen, 3, .delete(30))
        #expect(story.tell(creation) == .applied)
        #expect(!story.isAlive(3))
    }

    @Test mutating func aLateTwinOfWhatBecameAnotherItemIsThatItem() {
        story.tell(2, seen: 0, 3, .directory("Work"))
        story.tell(1, 1, .move(to: "Job", from: story.placedBy(1)))
        let before = story.item(1)
        let again = story.tell(2, seen: 0, epoch: 2, 3, .directory("Work"))
        #expect(again == .unified(into: .item(1)) && story.item(1) == before)
        #expect(story.table.item(.item(3)) == nil)
    }

    @Test mutating func aLateTwinDoesNotBringBackWhatItBecame() {
        let known = story.head
        story.tell(2, seen: 0, 3, .directory("Work"))
        story.tell(2, seen: known, 4, .file("plan.txt", in: 3, 40, content: 1_020))
        let batch = deleted(1, nil)
        for (item, change) in [
            (3, Change.directory("Work")), (4, .file("plan.txt", in: 3, 40, content: 1_020)),
        ] {
            let became = Identifier.item(item - 2)
            let again = story.tell(2, seen: known, epoch: 2, item, change)
            #expect(again == .unified(into: became))
        }
        #expect([1, 2].allSatisfy { story.item($0).batch == batch })
    }

    /// The item is taken out of a device's trash, where it has its old id.
    @Test mutating func whatIsMadeAgainByOneWhoSawItGoComesBackAsWhatItBecame() {
        story.tell(2, seen: 0, 3, .directory("Work"))
        story.tell(2, seen: seen, 4, .file("plan.txt", in: 3, 40, content: 1_020))
        _ = deleted(1, nil)
        #expect(story.tell(2, 3, .directory("Work")) == .unified(into: .item(1)))
        #expect(story.isAlive(1) && !story.isAlive(2))
        let again = Change.file("plan.txt", in: 3, 40, content: 1_020)
        #expect(story.tell(2, 4, again) == .unified(into: .item(2)))
        #expect(story.isAlive(2) && story.current(2) == 20 && story.parent(2) == 1)
        // This also holds for an item that the device has deleted itself, although it has not
        // received the deletion yet.
        let known = story.head
        story.tell(2, 2, .delete(20))
        #expect(story.tell(2, seen: known, 4, again) == .unified(into: .item(2)))
        #expect(story.isAlive(2))
    }

    /// - Returns: The batch of the deletion.
    private mutating func deleted(_ item: Int, _ revision: Int?) -> OperationID? {
        #expect(story.tell(1, item, .delete(revision)) == .applied)
        return story.item(item).batch
    }

    @Test mutating func aMoveIntoAFolderThatComesBackAsTheItemItselfIsACycle() {
        story.tell(1, 3, .directory("Inner", in: 1))
        story.tell(1, 3, .delete(nil))
        let known = story.head
        story.tell(1, 4, .directory("Inner", in: 1))
        let verdict = story.tell(
            2, seen: known, 4, .move(to: "x", in: 3, from: story.placedBy(4)))
        #expect(verdict == .overruled(.cycle) && story.isAlive(4) && story.name(4) == "Inner")
    }

    @Test mutating func aDeepTreeIsDeletedWithoutAStack() {
        for depth in 0..<2_000 {
            story.tell(1, 10 + depth, .directory("d", in: depth == 0 ? 1 : 9 + depth))
        }
        #expect(story.tell(1, 1, .delete(nil)) == .applied)
        #expect(story.tell(1, 2_009, .restore) == .applied)
        #expect(story.isAlive(1) && story.isAlive(1_000))
    }

    @Test mutating func aLongNameWithAMarkIsStillAName() {
        let long = String(repeating: "é", count: 120) + ".txt"
        for (number, item) in [5, 6, 7].enumerated() {
            story.tell(1 + number, seen: 0, item, .file(long, 50 + number))
        }
        #expect(story.name(7).utf8.count <= 255 && story.name(7).hasSuffix(" 00000007.txt"))
    }
}
