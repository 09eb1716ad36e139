import CLinux
import Foundation
import Glibc
import Journal
import Model
import Support
import Synchronization
import SystemCalls
import Testing

@testable import Volume

/// Changes from the hub become exactly the items and versions that the hub says they are.
@Suite struct AdoptionTests {
    let program = Program(process: 10, name: "vim")
    let old = Array("old".utf8)
    let new = Array("what another device wrote".utf8)

    @Test func aNewFile() throws {
        let tree = try ProgramTree()
        let arrival = try tree.arrival(new)
        try tree.arrive(new, arrival, at: "a")
        #expect(tree.quiet())
        let item = try #require(try tree.item("a"))
        #expect(item.id == arrival.item)
        #expect(item.current == arrival.version?.id)
        #expect(item.mode == 0o640)
        #expect(item.modified == arrival.version?.modified)
        #expect(item.changed != 0)
        #expect(try !tree.hasMark("a"))
        let versions = try #require(try tree.volume.history.document(at: names("a"))).versions
        #expect(versions.map(\.number) == [1])
        #expect(versions.first?.durability == .hub)
        #expect(versions.first?.deviceName == "other")
        #expect(tree.volume.recorder.state.pending.all.isEmpty)
        try tree.checkInvariants()
        try tree.remount()
        try tree.checkInvariants()
        #expect(try tree.versions("a") == [new])
    }

    @Test func aReplacedFileKeepsItsPast() throws {
        let tree = try ProgramTree()
        try tree.save("a", old, by: program)
        #expect(tree.quiet())
        let before = try #require(try tree.item("a"))
        let arrival = try tree.arrival(new, item: before.id, parents: [before.current!])
        try tree.arrive(new, arrival, at: "a")
        #expect(try tree.versions("a") == [old, new])
        let now = try #require(try tree.item("a"))
        #expect(now.key == before.key && now.current == arrival.version?.id)
        #expect(try tree.kinds("a") == [.history, .current])
        try tree.checkInvariants()
    }

    /// The other document had the id of this one when its version was sent, and got its own at
    /// another hub.
    @Test func aVersionBelongsToTheItemThatTheHubSays() throws {
        let tree = try ProgramTree()
        try tree.save("a", old, by: program)
        try tree.save("b", new, by: program)
        #expect(tree.quiet())
        let before = try #require(try tree.item("a"))
        let version = try #require(try tree.item("b")?.current)
        var arrival = try tree.arrival(new, item: before.id, parents: [])
        arrival.version?.id = version
        try tree.arrive(new, arrival, at: "a")
        #expect(tree.quiet())
        #expect(try tree.item("a")?.current == version)
        #expect(try tree.kinds("a") == [.history, .current])
        let other = try #require(try tree.item("b")?.current)
        #expect(other != version)
        #expect(try tree.kinds("b") == [.current])
        #expect(try tree.versions("b") == [new])
        try tree.checkInvariants()
    }

    /// The document was saved at the last moment, so the planner had not seen the save. With
    /// `isDeleted` it was deleted afterwards, and the hub has an edit that wins over the deletion.
    @Test(arguments: [false, true]) func anUnseenEditBecomesAConflict(isDeleted: Bool) throws {
        let tree = try ProgramTree()
        try tree.save("a", old, by: program)
        #expect(tree.quiet())
        let before = try #require(try tree.item("a"))
        let arrival = try tree.arrival(new, item: before.id, parents: [before.current!])
        let name = try tree.prepare(arrival, new)
        try tree.save("a", Array("mine".utf8), by: program)
        if isDeleted { try tree.unlink("a", by: program) }
        try tree.bring(name, to: "a")
        #expect(tree.quiet())
        #expect(try tree.item("a")?.current == arrival.version?.id)
        let history = try #require(try tree.volume.history.document(at: names("a")))
        #expect(history.versions.map(\.kind) == [.history, .current, .conflict])
        let conflict = try #require(history.versions.last)
        #expect(try tree.bytes(of: conflict) == Array("mine".utf8))
        #expect(conflict.parents == [before.current!])
        try tree.checkInvariants()
    }

    @Test func aWriterOfTheReplacedFileMakesAConflict() throws {
        let tree = try ProgramTree()
        try tree.save("a", old, by: program)
        #expect(tree.quiet())
        let before = try #require(try tree.item("a"))
        let writer = try tree.open("a", O_RDWR, by: program)
        let arrival = try tree.arrival(new, item: before.id, parents: [before.current!])
        try tree.arrive(new, arrival, at: "a")
        try tree.write(writer, Array("mine".utf8), at: 0)
        usleep(200_000)
        tree.close(writer)
        #expect(tree.quiet())
        let history = try #require(try tree.volume.history.document(at: names("a")))
        let conflict = try #require(history.versions.first { $0.kind == .conflict })
        #expect(try tree.bytes(of: conflict) == Array("mine".utf8))
        #expect(try tree.item("a")?.current == arrival.version?.id)
        try tree.checkInvariants()
    }

    @Test(arguments: Pace.allCases) func anEditAfterItIsItsChild(pace: Pace) throws {
        let tree = try ProgramTree()
        let arrival = try tree.arrival(new)
        try tree.arrive(new, arrival, at: "a")
        pace.pause(tree, 1)
        try tree.save("a", Array("edited here".utf8), by: program)
        #expect(tree.quiet())
        let history = try #require(try tree.volume.history.document(at: names("a")))
        #expect(history.id == arrival.item)
        #expect(history.versions.last?.parents == [arrival.version!.id])
        #expect(try tree.texts("a").last == "edited here")
        try tree.checkInvariants()
    }

    @Test func directoriesAndSymlinks() throws {
        let tree = try ProgramTree()
        let directory = Arrival(
            item: .random(), kind: .directory, mode: 0o750,
            attributes: AttributeList([.init(name: Array("user.color".utf8), value: [1, 2])]))
        let link = Arrival(item: .random(), kind: .symlink, target: Array("else/where".utf8))
        try tree.bring(try tree.prepare(directory), to: "d")
        try tree.bring(try tree.prepare(link), to: "d/l")
        try tree.arrive(new, try tree.arrival(new), at: "d/a")
        #expect(tree.quiet())
        let made = try #require(try tree.item("d"))
        #expect(made.id == directory.item && made.kind == .directory && made.mode == 0o750)
        #expect(AttributeList(encoded: made.attributes) == directory.attributes)
        #expect(try tree.item("d/l")?.id == link.item)
        #expect(try !tree.hasMark("d"))
        try tree.checkInvariants()
        try tree.remount()
        #expect(tree.quiet())
        #expect(try tree.item("d/l")?.id == link.item)
    }

    @Test(arguments: [true, false]) func killedBeforeItWasAdopted(hasLog: Bool) throws {
        let tree = try ProgramTree()
        try tree.save("a", old, by: program)
        #expect(tree.quiet())
        let before = try #require(try tree.item("a"))
        let file = try tree.arrival(new, item: before.id, parents: [before.current!])
        let other = try tree.arrival(Array("other".utf8))
        let directory = Arrival(item: .random(), kind: .directory)
        tree.volume.recorder.abandon()
        try tree.arrive(new, file, at: "a")
        try tree.bring(try tree.prepare(directory), to: "d")
        try tree.arrive(Array("other".utf8), other, at: "d/b")
        let unused = try tree.prepare(try tree.arrival(old), old)
        let known = [file, other, directory]
        tree.onOpening = { volume in
            volume.arrivals.onArrival { mark, _ in known.first { $0.mark == mark } }
        }
        try tree.crash {
            if !hasLog { try removeEventLog(ofStore: tree.store) }
        }
        #expect(tree.quiet())
        #expect(try tree.item("a")?.id == before.id)
        #expect(try tree.item("a")?.current == file.version?.id)
        #expect(try tree.item("d")?.id == directory.item)
        #expect(try tree.item("d/b")?.id == other.item)
        #expect(try tree.kinds("d/b") == [.current])
        #expect(try tree.versions("a") == [old, new])
        #expect(!FileManager.default.fileExists(atPath: tree.store + "/incoming/" + unused))
        try tree.checkInvariants()
    }

    /// The transaction that notes both arrivals fails at the second one, as on a full disk.
    @Test func anArrivalIsKnownWhenItsTransactionIsTriedAgain() throws {
        let tree = try ProgramTree()
        try tree.save("a", old, by: program)
        #expect(tree.quiet())
        let before = try #require(try tree.item("a"))
        let first = try tree.arrival(new, item: before.id, parents: [before.current!])
        let second = try tree.arrival(Array("other".utf8))
        failOnce(at: second.mark, in: tree.volume!)
        let names = (
            try tree.prepare(first, new), try tree.prepare(second, Array("other".utf8))
        )
        let volume = tree.volume!
        try tree.whileRecorderWaits {
            try tree.bring(names.0, to: "a")
            try tree.bring(names.1, to: "b")
        }
        #expect(tree.quiet())
        #expect(try tree.item("a")?.current == first.version?.id)
        #expect(try tree.versions("a") == [old, new])
        #expect(try tree.item("b")?.id == second.item)
        #expect(try !tree.hasMark("a"))
        #expect(volume.incoming.known(first.mark) == nil)
        try tree.checkInvariants()
    }

    /// As above, but the event log is gone, so only the files' tags tell what they are.
    @Test func anArrivalKeepsItsMarkWhenItsTransactionFails() throws {
        let tree = try ProgramTree()
        try tree.save("a", old, by: program)
        #expect(tree.quiet())
        let before = try #require(try tree.item("a"))
        let known = [
            try tree.arrival(new, item: before.id, parents: [before.current!]),
            try tree.arrival(Array("other".utf8)),
        ]
        tree.volume.recorder.abandon()
        try tree.arrive(new, known[0], at: "a")
        try tree.arrive(Array("other".utf8), known[1], at: "b")
        tree.onOpening = { volume in
            volume.arrivals.onArrival { mark, _ in known.first { $0.mark == mark } }
            // The scan may find the files in either order, so the second adoption fails.
            failOnce(atAdoption: 2, in: volume)
        }
        try tree.crash { try removeEventLog(ofStore: tree.store) }
        #expect(tree.quiet())
        #expect(try tree.item("a")?.id == before.id)
        #expect(try tree.item("a")?.current == known[0].version?.id)
        #expect(try tree.versions("a") == [old, new])
        #expect(try tree.item("b")?.id == known[1].item)
        #expect(try tree.kinds("b") == [.current])
        try tree.checkInvariants()
    }

    @Test func anUnexpectedArrivalIsANewFile() throws {
        let tree = try ProgramTree()
        let arrival = try tree.arrival(new)
        let name = try tree.prepare(arrival, new)
        tree.volume.incoming.forget(arrival.mark)
        try tree.bring(name, to: "a")
        #expect(tree.quiet())
        let item = try #require(try tree.item("a"))
        #expect(item.id != arrival.item)
        #expect(try tree.versions("a") == [new])
        try tree.checkInvariants()
    }

    @Test func anUnknownPlaceholderWaits() throws {
        let tree = try ProgramTree()
        let arrival = try tree.arrival(new, isDataless: true)
        let name = try tree.prepare(arrival)
        tree.volume.incoming.forget(arrival.mark)
        try tree.bring(name, to: "a")
        #expect(tree.quiet())
        let item = try #require(try tree.item("a"))
        #expect(item.id == arrival.item && item.current == nil && item.latest == 0)
        try tree.volume.arrivals.noteFacts(arrival)
        #expect(try tree.item("a")?.current == arrival.version?.id)
        let version = try tree.volume.journal.read { try $0.absentVersion(of: item.key) }
        #expect(version == arrival.version?.id)
    }

    @Test func aDeletedItemComesBack() throws {
        let tree = try ProgramTree()
        try tree.save("a", old, by: program)
        #expect(tree.quiet())
        let before = try #require(try tree.item("a"))
        try tree.unlink("a", by: applier)
        #expect(tree.quiet())
        let arrival = try tree.arrival(new, item: before.id, parents: [before.current!])
        try tree.arrive(new, arrival, at: "b")
        #expect(tree.quiet())
        #expect(try tree.item("b")?.key == before.key)
        #expect(try tree.versions("b") == [old, new])
        try tree.checkInvariants()
    }

    @Test func itemsAreExchanged() throws {
        let tree = try ProgramTree()
        try tree.save("a", old, by: program)
        try tree.save("b", new, by: program)
        #expect(tree.quiet())
        let (a, b) = (try #require(try tree.item("a")), try #require(try tree.item("b")))
        try tree.withPlace("a") { from in
            try tree.withPlace("b") { to in
                _ = try tree.volume.names.rename(
                    from: from, to: to, flags: UInt32(RENAME_EXCHANGE),
                    moved: tree.status(from)!, replaced: tree.status(to), movedTraits: [],
                    replacedTraits: [], isSwap: true, by: applier.actor)
            }
        }
        #expect(tree.quiet())
        #expect(try tree.item("a")?.id == b.id)
        #expect(try tree.item("b")?.id == a.id)
        #expect(try tree.versions("a") == [new])
        try tree.checkInvariants()
    }

    @Test func adoptionIsReportedInItsTransaction() throws {
        let tree = try ProgramTree()
        tree.volume.arrivals.onAdoption { mark, key, t in
            try t.set("adopted", to: "\(mark.version) \(key)")
        }
        let arrival = try tree.arrival(new)
        try tree.arrive(new, arrival, at: "a")
        #expect(tree.quiet())
        let item = try #require(try tree.item("a"))
        let told = try tree.volume.recorder.perform { try $1.value("adopted") }
        #expect(told == "\(arrival.version!.id) \(item.key)")
    }

    @Test func anItemGetsAnotherID() throws {
        let tree = try ProgramTree()
        try tree.save("a", old, by: program)
        let id = Identifier.random()
        #expect(tree.quiet())
        let before = try #require(try tree.item("a"))
        try tree.volume.arrivals.reidentify(before.id, to: id)
        #expect(try tree.item("a")?.id == id)
        #expect(throws: VolumeError.self) { try tree.volume.arrivals.reidentify(.random(), to: id) }
    }
}

private final class Adoptions: Sendable {
    let count = Atomic<Int>(0)
}

/// Makes one transaction fail once, as on a full disk: the one that adopts `mark`, or that with the
/// given number.
private func failOnce(
    at mark: ArrivalTag? = nil, atAdoption number: Int = 1, in volume: Volume
) {
    let adoptions = Adoptions()
    volume.arrivals.onAdoption { adopted, _, _ in
        guard mark == nil || adopted == mark else { return }
        let count = adoptions.count.wrappingAdd(1, ordering: .relaxed).newValue
        if count == number { throw VolumeError(.full, "The disk is full.") }
    }
}
