import Model
import Testing

@testable import Reconcile

/// Cases that random schedules find once in many thousands, as stories of two devices.
@Suite struct SyncPlannerRowsTests {
    var planner = SyncPlanner()
    var hub = HubInMemory()
    var journals: [DeviceJournal] = []

    init() {
        journals = (0..<2).map { DeviceJournal(device: $0, volumeEpoch: hub.volumeEpoch) }
        for who in journals.indices { journals[who].state.isFresh = false }
    }

    // MARK: What is done

    private mutating func make(_ who: Int, _ item: Int, _ image: Image) {
        journals[who].images[.item(item)] = image
        journals[who].unsent.insert(.item(item))
    }

    private mutating func makeDirectory(
        _ who: Int, _ item: Int, _ name: String, in parent: Identifier = .root
    ) {
        make(who, item, Image(kind: .directory, parent: parent, name: name))
    }

    mutating func makeFile(
        _ who: Int, _ item: Int, _ name: String, in parent: Identifier = .root, content: Int
    ) {
        make(who, item, Image(kind: .file, parent: parent, name: name))
        save(who, item, revision: item, content: content)
    }

    mutating func save(_ who: Int, _ item: Int, revision: Int, content: Int) {
        let parents = [journals[who].images[.item(item)]!.revision].compactMap(\.self)
        let new = Revision(
            id: .revision(revision), parents: parents, content: .content(content), size: 1,
            moment: Moment(time: Int64(revision), device: .device(who)))
        journals[who].revisions[new.id] = new
        journals[who].images[.item(item)]!.revision = new.id
        journals[who].images[.item(item)]!.content = new.content
        journals[who].unsent.insert(.item(item))
    }

    private mutating func move(_ who: Int, _ item: Int, _ name: String) {
        journals[who].images[.item(item)]!.name = name
        journals[who].unsent.insert(.item(item))
    }

    private mutating func delete(_ who: Int, _ items: Int...) {
        for item in items {
            journals[who].images[.item(item)]!.isAlive = false
            journals[who].unsent.insert(.item(item))
        }
    }

    mutating func tell(_ who: Int, _ items: Int...) {
        for item in items {
            let draft = planner.comparison.draft(.item(item), in: &journals[who])
            _ = planner.enqueue(draft, in: &journals[who])
        }
        send(who)
    }

    private mutating func send(_ who: Int) {
        let journal = journals[who]
        guard let last = journal.outbox.last?.operation.id.number else { return }
        planner.willSend(upTo: last, in: &journals[who])
        let request = HubInMemory.Request(
            device: journal.state.device, epoch: journal.state.epoch,
            volumeEpoch: hub.volumeEpoch,
            operations: journal.outbox.map(\.operation))
        _ = hub.commit(request, at: .max) { _, _, _ in }
    }

    mutating func pull(_ who: Int) {
        let page = hub.page(for: journals[who].state, limit: 100, withoutTrashUpTo: 0)
        #expect(planner.take(page, answered: .max, in: &journals[who]) != nil)
    }

    mutating func bring(_ who: Int, _ id: Identifier) -> Bool {
        guard let found = planner.adjustment(id, in: &journals[who]) else { return false }
        let isDone = journals[who].apply(found, looks: true)
        if isDone { journals[who].finish(found) }
        planner.adjusted(found, isDone: isDone, in: &journals[who])
        return isDone
    }

    private mutating func bring(_ who: Int, _ item: Int) { #expect(bring(who, .item(item))) }

    /// Runs until no device has anything left to do.
    mutating func settle() {
        for _ in 0..<10 {
            for who in journals.indices {
                pull(who)
                for id in journals[who].due { _ = bring(who, id) }
                for id in journals[who].toSend {
                    let draft = planner.comparison.draft(id, in: &journals[who])
                    if planner.isCovered(draft, in: &journals[who]) { continue }
                    _ = planner.enqueue(draft, in: &journals[who])
                }
                send(who)
            }
        }
        for journal in journals {
            #expect(journal.outbox.isEmpty && journal.unsent.isEmpty && journal.due.isEmpty)
            let all = hub.table.all.filter(\.life.isAlive)
            #expect(journal.alive == all.map(\.id).sorted { $0.low < $1.low })
            for item in all {
                let local = journal.images[item.id]
                #expect(local.map { Adjustment.steps(from: $0, to: item) } == [])
            }
        }
    }

    private func place(_ item: Int) -> String? {
        var (names, next) = ([String](), Identifier.item(item))
        while next != .root {
            guard let item = hub.table.item(next), item.life.isAlive else { return nil }
            names.append(item.name)
            next = item.placement.parent
        }
        return names.reversed().joined(separator: "/")
    }

    // MARK: Two that are one item: directories

    /// Item 1 was moved to the name of item 3, which was created at the same time. 1 has a
    /// temporary name beside 3 until the contents of 3 have moved there.
    private mutating func twoDirectories() {
        makeDirectory(0, 1, "old")
        makeFile(0, 2, "f", in: .item(1), content: 2)
        tell(0, 1, 2)
        settle()
        move(0, 1, "new")
        tell(0, 1)
        makeDirectory(1, 3, "new")
        tell(1, 3)
        pull(1)
        makeFile(1, 4, "g", in: .item(3), content: 4)
        tell(1, 4)
        pull(1)
        bring(1, 1)
        #expect(place(4) == "new/g")
        #expect(journals[1].images[.item(4)]?.parent == .item(3))
    }

    @Test mutating func whatIsInOneIsNotDeletedWithTheOther() {
        twoDirectories()
        delete(1, 1, 2)
        tell(1, 1, 2)
        settle()
        #expect(place(1) == "new")
        #expect(place(4) == "new/g")
        #expect(place(2) == nil)
    }

    @Test mutating func theOtherOneWasMovedAwayAndIsDeletedThere() {
        twoDirectories()
        move(1, 1, "away")
        tell(1, 1)
        pull(1)
        #expect(place(4) == "away/g")
        delete(1, 1, 2)
        tell(1, 1, 2)
        settle()
        #expect(place(4) == "new/g")
        #expect(place(2) == nil)
    }

    @Test mutating func bothAreDeleted() {
        twoDirectories()
        delete(1, 1, 2, 3, 4)
        settle()
        #expect(hub.table.all.allSatisfy { !$0.life.isAlive })
    }

    @Test mutating func neitherIsDeleted() {
        twoDirectories()
        settle()
        #expect(place(4) == "new/g")
        #expect(place(2) == "new/f")
    }

    // MARK: Two that are one item: files

    /// Item 1 is moved away, and item 2 with the same contents takes its name. The hub receives
    /// item 2 first, as from a device that does not send such changes in the right order yet.
    private mutating func twoFiles() {
        makeFile(0, 1, "c", content: 7)
        tell(0, 1)
        settle()
        move(0, 1, "d")
        makeFile(0, 2, "c", content: 7)
        planner.bugs = [.takesNamesTooEarly]
        tell(0, 2)
        planner.bugs = []
    }

    @Test mutating func anEditIsOfWhatWasToldOfThisOne() {
        twoFiles()
        save(0, 2, revision: 3, content: 8)
        delete(0, 1)
        tell(0, 2)
        pull(0)
        save(0, 1, revision: 4, content: 9)
        settle()
        #expect(hub.table.item(.item(1))?.current?.id == .revision(4))
        #expect(hub.table.item(.item(1))?.conflicts == [])
    }

    @Test mutating func anEditOfOneIsNotDeletedWithTheOther() {
        twoFiles()
        pull(0)
        tell(0, 1)
        save(0, 2, revision: 3, content: 8)
        tell(0, 2)
        pull(0)
        delete(0, 1)
        tell(0, 1)
        settle()
        #expect(place(1) != nil)
        #expect(hub.table.item(.item(1))?.current?.id == .revision(3))
    }

    @Test mutating func anEditThatIsOnItsWayIsNotDeletedWithTheOther() {
        twoFiles()
        pull(0)
        tell(0, 1)
        pull(0)
        save(0, 2, revision: 3, content: 8)
        tell(0, 2)
        delete(0, 1)
        tell(0, 1)
        settle()
        #expect(place(1) != nil)
        #expect(hub.table.item(.item(1))?.current?.id == .revision(3))
    }

    // MARK: Deleted together

    /// By the decision table, a directory that was moved keeps what is in it.
    @Test mutating func whatWasMovedOutOfADeletedDirectoryComesBackWithAllThatIsInIt() {
        makeDirectory(0, 1, "a")
        makeDirectory(0, 2, "b", in: .item(1))
        makeFile(0, 3, "f", in: .item(2), content: 3)
        tell(0, 1, 2, 3)
        settle()
        delete(0, 1, 2, 3)
        for id in [1, 2, 3].map(Identifier.item) {
            let draft = planner.comparison.draft(id, in: &journals[0])
            if planner.isCovered(draft, in: &journals[0]) { continue }
            _ = planner.enqueue(draft, in: &journals[0])
        }
        #expect(journals[0].outbox.count == 1)
        journals[1].images[.item(2)]!.parent = .root
        move(1, 2, "b")
        tell(1, 2)
        settle()
        #expect(place(3) == "b/f")
        #expect(place(1) == nil)
    }

    /// The opposite order: the deletion comes second, and nothing has happened to what is in the
    /// directory.
    @Test mutating func whatIsInADirectoryThatWasMovedIsNotDeletedOneByOne() {
        makeDirectory(0, 1, "a")
        makeDirectory(0, 2, "b", in: .item(1))
        makeFile(0, 3, "f", in: .item(2), content: 3)
        tell(0, 1, 2, 3)
        settle()
        move(1, 1, "moved")
        tell(1, 1)
        delete(0, 1, 2, 3)
        pull(0)
        settle()
        #expect(place(3) == "moved/b/f")
    }

    /// An item was moved out of a directory that was moved: its move is sent separately.
    @Test mutating func whatWasMovedOutOfAMovedDirectoryComesBackToo() {
        makeDirectory(0, 1, "a")
        makeDirectory(0, 2, "b", in: .item(1))
        makeFile(0, 3, "f", in: .item(2), content: 3)
        tell(0, 1, 2, 3)
        settle()
        move(1, 1, "moved")
        journals[1].images[.item(2)]!.parent = .root
        move(1, 2, "out")
        tell(1, 1, 2)
        delete(0, 1, 2, 3)
        pull(0)
        settle()
        #expect(place(1) == "moved")
        #expect(place(3) == "out/f")
    }

    // MARK: After a crash

    /// The deletion was overruled, and what it had not seen was not applied on this device yet.
    @Test mutating func whatIsTakenOutOfTheTrashSettlesNothingThatIsNotShown() {
        makeFile(0, 1, "a", content: 1)
        tell(0, 1)
        settle()
        save(0, 1, revision: 3, content: 3)
        tell(0, 1)
        save(1, 1, revision: 2, content: 2)
        tell(1, 1)
        delete(0, 1)
        tell(0, 1)
        pull(0)
        #expect(planner.adjustment(.item(1), in: &journals[0])?.steps.first == .make)
        journals[0].images[.item(1)]!.isAlive = true
        journals[0].unsent.insert(.item(1))
        planner.recover(.item(1), in: &journals[0])
        settle()
        #expect(hub.table.item(.item(1))?.current?.id == .revision(3))
        #expect(hub.table.item(.item(1))?.conflicts.map(\.id) == [.revision(2)])
    }

    // MARK: Conflict versions

    /// Both devices save the same file without having seen the other's save, and the hub has both
    /// versions.
    private mutating func makeConflict() {
        makeFile(0, 1, "a", content: 1)
        tell(0, 1)
        settle()
        for who in 0...1 {
            save(who, 1, revision: 2 + who, content: 2 + who)
            tell(who, 1)
        }
    }

    /// A device that joins settles no conflict.
    @Test mutating func whatIsMadeHasItsConflictVersions() {
        makeConflict()
        settle()
        journals.append(DeviceJournal(device: 2, volumeEpoch: hub.volumeEpoch))
        pull(2)
        bring(2, 1)
        journals[2].state.isFresh = false
        settle()
        #expect(
            journals.map { $0.images[.item(1)]?.conflicts }
                == Array(repeating: [.revision(2)], count: 3))
    }

    @Test mutating func aDeletionBetweenBringingAndNotingHasNotSeenThem() throws {
        makeConflict()
        pull(1)
        let next = planner.adjustment(.item(1), in: &journals[1])
        let found = try #require(next)
        let isDone = journals[1].apply(found, looks: true)
        #expect(isDone)
        delete(1, 1)
        journals[1].finish(found)
        planner.adjusted(found, isDone: true, in: &journals[1])
        settle()
        #expect(hub.table.item(.item(1))?.conflicts.map(\.id) == [.revision(2)])
        #expect(place(1) == "a")
    }

    // MARK: Times, names and kinds

    /// The later change wins, and not the change that was sent later.
    @Test(arguments: [0, 1]) mutating func aMoveIsAsOldAsItWasMade(_ first: Int) {
        makeFile(0, 1, "a", content: 1)
        tell(0, 1)
        settle()
        for who in 0...1 {
            move(who, 1, "b\(who)")
            journals[who].images[.item(1)]!.attributes["mode"] = [1, UInt8(who)]
            let time = Int64(10 + who)
            journals[who].times[.item(1)] = ChangeTimes(placed: time, attributes: time)
            journals[who].clock = 100
        }
        tell(first, 1)
        journals[1 - first].clock = 200
        tell(1 - first, 1)
        settle()
        #expect(place(1) == "b1")
        #expect(hub.table.item(.item(1))?.attributes["mode"]?.value == [1, 1])
    }

    @Test mutating func namesChangePlaces() {
        makeFile(0, 1, "a", content: 1)
        makeFile(0, 2, "b", content: 2)
        tell(0, 1, 2)
        settle()
        move(0, 1, "b")
        move(0, 2, "a")
        // The names are exchanged by way of a temporary name.
        tell(0, 1, 2, 1)
        #expect(place(1) == "b" && place(2) == "a")
        settle()
        #expect(journals[1].images[.item(1)]?.name == "b")
        #expect(journals[1].images[.item(2)]?.name == "a")
    }

    /// Item 1 is a directory d with a file x, which is item 2.
    private mutating func directoryWithAFile() {
        makeDirectory(0, 1, "d")
        makeFile(0, 2, "x", in: .item(1), content: 1)
        tell(0, 1, 2)
        settle()
    }

    /// No other device has the name: the item that leaves it is sent before the one that takes it.
    @Test mutating func aDeletedDirectoryLeavesItsNameToWhatWasInIt() {
        directoryWithAFile()
        move(0, 2, "d")
        journals[0].images[.item(2)]!.parent = .root
        delete(0, 1)
        settle()
        #expect(place(2) == "d" && place(1) == nil)
        #expect(journals[1].alive == [.item(2)])
    }

    /// The temporary name of the new directory may be taken.
    @Test(arguments: [false, true])
    mutating func aDirectoryIsMadeAnewAroundWhatWasInIt(_ isTaken: Bool) {
        directoryWithAFile()
        if isTaken { makeFile(1, 4, "d".withMark(of: .item(3)), content: 4) }
        tell(1, 4)
        settle()
        makeDirectory(0, 3, "d")
        move(0, 2, "x")
        journals[0].images[.item(2)]!.parent = .item(3)
        delete(0, 1)
        tell(0, 3)
        tell(0, 2)
        tell(0, 1)
        settle()
        #expect(place(2) == "d/x" && place(3) == "d" && place(1) == nil)
        #expect(journals[1].images[.item(3)]?.name == "d")
    }

    @Test mutating func directoriesAreTurnedInsideOut() {
        makeDirectory(0, 1, "a")
        makeDirectory(0, 2, "b", in: .item(1))
        makeDirectory(0, 3, "c", in: .item(2))
        tell(0, 1, 2, 3)
        settle()
        move(0, 3, "a")
        journals[0].images[.item(3)]!.parent = .root
        move(0, 1, "c")
        journals[0].images[.item(1)]!.parent = .item(2)
        move(0, 2, "b")
        journals[0].images[.item(2)]!.parent = .item(3)
        settle()
        #expect(place(3) == "a" && place(2) == "a/b" && place(1) == "a/b/c")
    }

    /// What the hub sends about the package must not replace the folder: the folder is another item
    /// and gets an id of its own first.
    @Test mutating func aPackageThatIsAFolderNowIsLeftAlone() {
        make(0, 1, Image(kind: .package, parent: .root, name: "p.rtfd"))
        save(0, 1, revision: 1, content: 1)
        tell(0, 1)
        settle()
        save(1, 1, revision: 2, content: 2)
        tell(1, 1)
        journals[0].images[.item(1)] = Image(kind: .directory, parent: .root, name: "p")
        journals[0].unsent.insert(.item(1))
        makeFile(0, 3, "TXT", in: .item(1), content: 3)
        pull(0)
        #expect(planner.adjustment(.item(1), in: &journals[0]) == nil)
        #expect(planner.comparison.draft(.item(1), in: &journals[0]).isAnotherKind)
        #expect(planner.comparison.draft(.item(3), in: &journals[0]).waitsFor == .item(1))
    }

    // MARK: A version that is not sent

    /// A file is edited, restored to what the hub has, and moved, and only the move is sent. The
    /// next version names one as its parent that the hub knows.
    @Test mutating func whatIsNotSentIsNotAgreedOn() {
        makeFile(0, 1, "a", content: 1)
        tell(0, 1)
        settle()
        save(0, 1, revision: 2, content: 2)
        save(0, 1, revision: 3, content: 1)
        move(0, 1, "b")
        tell(0, 1)
        save(0, 1, revision: 4, content: 4)
        tell(0, 1)
        settle()
        #expect(place(1) == "b")
        #expect(hub.table.item(.item(1))?.current?.id == .revision(4))
        #expect(hub.table.item(.item(1))?.conflicts == [])
    }
}
