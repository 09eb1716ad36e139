import Model
import Testing

@testable import Reconcile

/// The rows of the decision table about contents. Items and versions have numbers. Device 1 has
/// made report.txt (item 1, version 10), and device 2 has seen it.
@Suite struct ContentRowsTests {
    private var story = Story()
    private let seen: UInt64

    init() {
        story.tell(1, 1, .file("report.txt", 10))
        seen = story.head
    }

    @Test mutating func row1BothSaveTheSameBytes() {
        story.tell(1, 1, .save(11, on: [10], content: 5))
        #expect(story.tell(2, seen: seen, 1, .save(12, on: [10], content: 5)) == .applied)
        #expect(story.current(1) == 11 && story.conflicts(1).isEmpty)
        // Device 2 edits the version under the id that it knows.
        #expect(story.tell(2, seen: seen, 1, .save(13, on: [12])) == .applied)
        #expect(story.current(1) == 13 && story.conflicts(1).isEmpty)
    }

    @Test mutating func row1AnEditThatArrivesAtAConflictVersionIsThatVersion() {
        story.tell(1, at: 500, 1, .save(11, on: [10]))
        story.tell(2, seen: seen, at: 400, 1, .save(12, on: [10], content: 7))
        #expect(story.tell(1, 1, .save(13, on: [11], content: 7)) == .applied)
        #expect(story.current(1) == 12 && story.conflicts(1).isEmpty)
        #expect(story.item(1).current?.equals == [.revision(13)])
    }

    @Test mutating func row2TheNewerIsCurrentAndTheOtherStays() {
        story.tell(1, at: 900, 1, .save(11, on: [10]))
        #expect(story.tell(2, seen: seen, at: 800, 1, .save(12, on: [10])) == .conflict)
        #expect(story.current(1) == 11 && story.conflicts(1) == [12])
        #expect(story.tell(3, seen: seen, at: 950, 1, .save(14, on: [10])) == .conflict)
        #expect(story.current(1) == 14 && story.conflicts(1) == [11, 12])
    }

    @Test mutating func row2AMergeHasTwoParents() {
        story.tell(1, 1, .save(11, on: [10]))
        story.tell(2, seen: seen, 1, .save(12, on: [10]))
        #expect(story.tell(2, 1, .save(13, on: [12, 11])) == .applied)
        #expect(story.current(1) == 13 && story.conflicts(1).isEmpty)
    }

    @Test mutating func row32WhatWasFencedOffReplacesNothing() {
        // It is newer, and it is based on the current version.
        #expect(
            story.tell(1, at: 900, 1, .save(11, on: [10]), isFenced: true) == .conflict)
        #expect(story.current(1) == 10 && story.conflicts(1) == [11])
        #expect(story.tell(2, at: 300, 1, .save(12, on: [10])) == .applied)
        #expect(story.current(1) == 12 && story.conflicts(1) == [11])
        // The next save of the device that was fenced off is based on the conflict version.
        story.tell(1, at: 950, 1, .save(13, on: [11]), isFenced: true)
        #expect(story.current(1) == 12 && story.conflicts(1) == [11, 13])
        // Equal bytes are one version, and a person may choose any.
        story.tell(1, at: 960, 1, .save(14, on: [10], content: 5))
        story.tell(2, at: 970, 1, .save(15, on: [12], content: 5), isFenced: true)
        #expect(story.item(1).current?.equals == [.revision(15)])
        story.tell(2, at: 980, 1, .settle([11, 12, 13, 14]))
        #expect(story.conflicts(1).isEmpty)
    }

    @Test mutating func row32WhatWasFencedOffDoesNotChooseAVersion() {
        story.tell(1, at: 300, 1, .save(11, on: [10]))
        story.tell(2, at: 400, 1, .save(12, on: [10]), isFenced: true)
        story.tell(2, at: 410, 1, .save(13, on: [10]), isFenced: true)
        #expect(story.current(1) == 11 && story.conflicts(1) == [12, 13])
        // It names the current version, and a conflict version.
        #expect(story.tell(2, 1, .settle([11, 12]), isFenced: true) == .applied)
        #expect(story.current(1) == 11 && story.conflicts(1) == [13])
        // The device learns what is current.
        #expect(story.item(1).sequence == story.head)
        story.tell(1, 1, .settle([11]))
        #expect(story.current(1) == 13 && story.conflicts(1).isEmpty)
    }

    @Test mutating func row3AnEditOfAConflictVersionReplacesIt() {
        story.tell(1, at: 900, 1, .save(11, on: [10]))
        story.tell(2, seen: seen, at: 800, 1, .save(12, on: [10]))
        #expect(story.tell(2, seen: seen, at: 850, 1, .save(13, on: [12])) == .applied)
        #expect(story.current(1) == 11 && story.conflicts(1) == [13])
        #expect(story.tell(2, at: 990, 1, .save(14, on: [13])) == .applied)
        #expect(story.current(1) == 14 && story.conflicts(1) == [11])
    }

    /// A hub that came back from a backup has lost 11, and gets it last.
    @Test mutating func row3AVersionThatArrivesAfterItsDescendantIsHistory() {
        story.tell(1, 1, .save(12, on: [10, 11]))
        story.tell(1, 1, .save(13, on: [12]))
        #expect(story.tell(2, seen: seen, 1, .save(11, on: [10])) == .applied)
        #expect(story.current(1) == 13 && story.conflicts(1).isEmpty)
        // What is derived from it by another way is in conflict.
        #expect(story.tell(2, seen: seen, 1, .save(14, on: [11])) == .conflict)
    }

    @Test mutating func row2ABadClockIsNoReasonToLose() {
        story.tell(1, at: 900, 1, .save(11, on: [10]))
        // It has seen that version, so its own is newer, whatever its clock says.
        #expect(story.tell(2, at: -5_000, 1, .save(12, on: [11])) == .applied)
        #expect(story.current(1) == 12)
        #expect(story.item(1).current!.moment.time == 901)
    }

    @Test mutating func row4TheEditWinsOverTheDeletionBehindIt() {
        story.tell(1, 1, .save(11, on: [10]))
        let verdict = story.tell(2, seen: seen, 1, .delete(10))
        #expect(verdict == .overruled(.unseenChange))
        #expect(story.isAlive(1) && story.current(1) == 11)
    }

    @Test mutating func row4TheEditWinsOverTheDeletionBeforeIt() {
        story.tell(1, 1, .delete(10))
        #expect(!story.isAlive(1))
        #expect(story.tell(2, seen: seen, 1, .save(11, on: [10])) == .applied)
        #expect(story.isAlive(1) && story.current(1) == 11 && story.name(1) == "report.txt")
    }

    @Test mutating func row4AnUnseenConflictVersionKeepsTheDocument() {
        story.tell(1, at: 900, 1, .save(11, on: [10]))
        let known = story.head
        story.tell(2, seen: seen, at: 800, 1, .save(12, on: [10]))
        #expect(story.tell(1, seen: known, 1, .delete(11)) == .overruled(.unseenChange))
        #expect(story.tell(1, 1, .delete(11)) == .applied)
    }

    @Test mutating func row4WhatItNamesItHasSeen() {
        story.tell(2, 1, .save(11, on: [10]))
        #expect(story.tell(1, seen: seen, 1, .delete(11)) == .applied)
    }

    @Test mutating func row22APackageIsOneVersion() {
        story.tell(1, 2, .file("book.pages", 20, kind: .package))
        let known = story.head
        story.tell(1, 2, .save(21, on: [20]))
        #expect(story.tell(2, seen: known, 2, .save(22, on: [20])) == .conflict)
        let item = story.item(2)
        #expect(item.versions.map(\.content.description).sorted().count == 2)
        for version in item.versions {
            #expect(version.content == .content(1_000 + Int(version.id.low)))
        }
    }

    @Test mutating func row25ASymlinkDoesNotChange() {
        let link = Creation(
            kind: .symlink, placement: Placement("link", in: .root), target: "there")
        story.tell(1, 2, .create(link))
        #expect(story.tell(2, 2, .save(30, on: [])) == .overruled(.unknownItem))
        #expect(story.item(2).target == "there")
    }

    @Test mutating func row26ExactlyWhatWasNamedIsSettled() {
        story.tell(1, at: 900, 1, .save(11, on: [10]))
        story.tell(2, seen: seen, at: 800, 1, .save(12, on: [10]))
        let known = story.head
        story.tell(3, seen: seen, at: 700, 1, .save(13, on: [10]))
        #expect(story.tell(1, seen: known, 1, .settle([12])) == .applied)
        #expect(story.current(1) == 11 && story.conflicts(1) == [13])
        #expect(story.tell(2, 1, .settle([13], .made(14, [11]))) == .applied)
        #expect(story.current(1) == 14 && story.conflicts(1).isEmpty)
    }

    @Test mutating func row26SettlingIsNoDeletion() {
        #expect(story.tell(2, 1, .settle([10])) == .applied)
        #expect(story.current(1) == 10)
    }

    @Test mutating func row27SettlingWithContentsBringsItBack() {
        story.tell(1, at: 900, 1, .save(11, on: [10]))
        story.tell(2, seen: seen, at: 800, 1, .save(12, on: [10]))
        let known = story.head
        story.tell(1, 1, .delete(11))
        #expect(story.tell(2, seen: known, 1, .settle([11])) == .applied)
        #expect(!story.isAlive(1))
        story.tell(2, seen: known, 1, .settle([11], .made(13, [12])))
        #expect(story.isAlive(1) && story.current(1) == 13 && story.conflicts(1).isEmpty)
    }

    @Test mutating func anEditThatComesTwiceIsOne() {
        story.tell(2, 1, .save(11, on: [10]))
        story.tell(1, 1, .save(12, on: [11]))
        // The edit comes from a device that has forgotten that it sent it.
        #expect(story.tell(2, seen: seen, epoch: 2, 1, .save(11, on: [10])) == .applied)
        #expect(story.current(1) == 12 && story.conflicts(1).isEmpty)
    }

    @Test mutating func aCopiedJournalsContentsAreNotLost() {
        #expect(story.tell(2, seen: 0, 1, .file("report.txt", 11)) == .conflict)
        #expect(Set(story.item(1).versions.map(\.id.low)) == [10, 11])
        #expect(story.tell(2, seen: 0, 1, .file("report.txt", 11)) == .applied)
    }

    @Test mutating func ofAnotherEpochItHasSeenNothing() {
        story.tell(2, 1, .save(11, on: [10]))
        let verdict = story.tell(2, seen: seen, epoch: 2, 1, .delete(10))
        #expect(verdict == .overruled(.unseenChange))
    }

    @Test mutating func nonsenseIsOverruled() {
        let nobody = OperationID(device: .root, epoch: 0, number: 0)
        for change in [
            Change.save(90, on: []), .delete(nil), .restore, .attribute("mode", nil),
            .settle([1]), .move(to: "x", from: nobody),
        ] { #expect(story.tell(2, 77, change) == .overruled(.unknownItem)) }
        #expect(story.tell(2, 0, .delete(nil)) == .overruled(.unknownItem))
        #expect(story.tell(2, 0, .save(91, on: [])) == .overruled(.unknownItem))
        #expect(story.tell(2, 0, .move(to: "x", from: nobody)) == .overruled(.unknownItem))
        #expect(
            story.tell(2, 1, .move(to: "x", in: 77, from: nobody)) == .overruled(.unknownItem))
        // The folder is not known any more, but what is created in it must not be lost.
        #expect(story.tell(2, 5, .file("x", in: 77, 92)) == .applied)
        #expect(story.parent(5) == 0)
    }
}
