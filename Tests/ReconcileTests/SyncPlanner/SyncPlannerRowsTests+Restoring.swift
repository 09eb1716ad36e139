import Model
import Testing

@testable import Reconcile

// A hub that came back from a backup, and one to which devices come from another one.
extension SyncPlannerRowsTests {
    /// Device 0 made a file private, and the hub has come back from a backup that was made before.
    /// Device 1 has not heard of it.
    @Test(arguments: [[0, 1], [1, 0]]) mutating func attributesThatTheHubHasLostAreSentAgain(
        _ order: [Int]
    ) throws {
        makeFile(0, 1, "a", content: 1)
        setMode(0, 1, [1, 0xA4], at: 1)
        tell(0, 1)
        settle()
        let backup = hub
        setMode(0, 1, [1, 0x80], at: 10)
        tell(0, 1)
        pull(0)
        hub = backup
        hub.volumeEpoch = Identifier(high: 9, low: 77)
        journals[1].clock = 20
        for who in order {
            let epoch = hub.newEpoch(of: journals[who].state.device)
            planner.restart(epoch: epoch, volumeEpoch: hub.volumeEpoch, in: &journals[who])
            pull(who)
            journals[who].state.isFresh = false
            tell(who, 1)
        }
        settle()
        #expect(hub.table.item(.item(1))?.attributes["mode"]?.value == [1, 0x80])
        for journal in journals {
            #expect(journal.images[.item(1)]?.attributes["mode"] == [1, 0x80])
        }
    }

    /// Both devices come from a hub at which device 1 has renamed the item and made it private, and
    /// device 0 has not heard of it (row 31).
    @Test(arguments: [[0, 1], [1, 0]]) mutating func whatIsToldAtAnotherHubIsAsOldAsItWas(
        _ order: [Int]
    ) throws {
        makeFile(0, 1, "a", content: 1)
        setMode(0, 1, [1, 0xA4], at: 1)
        tell(0, 1)
        settle()
        journals[1].clock = 10
        journals[1].images[.item(1)]!.name = "b"
        setMode(1, 1, [1, 0x80], at: 10)
        tell(1, 1)
        pull(1)
        hub = .other
        for who in order {
            journals[who].clock = 20
            (journals[who].unsent, journals[who].times) = ([.item(1)], [:])
            comeFromAnotherHub(who)
        }
        settle()
        expectPrivate(named: "b")
    }

    /// Device 1 makes an item private while its clock, or the hub's, is far behind, and tells it
    /// only when it comes from another hub: here, or at a new one to which both go.
    @Test(arguments: [[1], [0, 1], [1, 0]])
    mutating func aChangeIsNewerThanWhatItReplacesWhateverTheClocksSay(_ order: [Int]) throws {
        makeFile(0, 1, "a", content: 1)
        tell(0, 1)
        settle()
        journals[0].clock = 10
        setMode(0, 1, [1, 0xA4], at: 10)
        tell(0, 1)
        settle()
        journals[1].clock = 5
        journals[1].images[.item(1)]!.name = "b"
        setMode(1, 1, [1, 0x80], at: 5)
        if order.count > 1 { hub = .other }
        for who in order {
            journals[who].unsent = [.item(1)]
            comeFromAnotherHub(who)
        }
        settle()
        expectPrivate(named: "b")
    }

    /// Device 0 was at another hub, where it created the item with contents that are newer than
    /// its permissions. Meanwhile device 1 has made it private, with a clock that is behind.
    @Test mutating func whatIsCreatedAtAnotherHubIsAsOldAsItWas() throws {
        makeFile(0, 1, "a", content: 1)
        tell(0, 1)
        settle()
        setMode(0, 1, [1, 0xA4], at: 10)
        tell(0, 1)
        settle()
        let (here, known) = (hub, journals[1])
        journals[0].clock = 100
        save(0, 1, revision: 30, content: 2)
        hub = .other
        journals[0].unsent = [.item(1)]
        comeFromAnotherHub(0)
        (hub, journals[1]) = (here, known)
        journals[1].clock = 20
        setMode(1, 1, [1, 0x80], at: 20)
        tell(1, 1)
        journals[0].unsent = [.item(1)]
        comeFromAnotherHub(0)
        settle()
        #expect(hub.table.item(.item(1))?.attributes["mode"]?.value == [1, 0x80])
        #expect(journals[0].images[.item(1)]?.attributes["mode"] == [1, 0x80])
    }

    private func expectPrivate(named name: String) {
        #expect(hub.table.item(.item(1))?.attributes["mode"]?.value == [1, 0x80])
        for journal in journals {
            #expect(journal.images[.item(1)]?.name == name)
            #expect(journal.images[.item(1)]?.attributes["mode"] == [1, 0x80])
        }
    }

    private mutating func comeFromAnotherHub(_ who: Int) {
        journals[who].outbox = []
        journals[who].mirrors[.item(1)]!.base!.outlive(isSameVolume: false)
        let device = journals[who].state.device
        var session = Session(
            device: device, epoch: hub.newEpoch(of: device), volumeEpoch: hub.volumeEpoch)
        session.continueEarlierOne()
        journals[who].state = session
        pull(who)
        journals[who].state.isFresh = false
        tell(who, 1)
    }

    /// Device 1 has a copy of the store from before device 0 sent the document. Device 0 has got
    /// another id for it from the hub meanwhile.
    @Test mutating func aDocumentThatWasSentFromTheOtherCopyIsThatDocument() {
        makeFile(0, 1, "a", content: 1)
        makeFile(1, 2, "b", content: 1)
        let version = journals[0].images[.item(1)]!.revision!
        journals[1].revisions[version] = journals[0].revisions[version]
        journals[1].images[.item(2)]!.revision = version
        tell(0, 1)
        journals[1].state.isFresh = true
        join(1)
        settle()
        #expect(hub.table.all.map(\.id) == [.item(1)])
        #expect(journals[1].images[.item(2)] == nil)
    }

    /// Device 1's document got its id at another hub. This hub was told of it under its own id,
    /// and of the document that has the id here.
    @Test mutating func aDocumentWithTheIDOfAnotherOneIsTheOneThatHasItsVersion() {
        makeFile(0, 2, "b", content: 5)
        makeFile(0, 1, "a", content: 1)
        let version = journals[0].images[.item(1)]!.revision!
        tell(0, 2)
        tell(0, 1)
        makeFile(1, 2, "a", content: 1)
        journals[1].revisions[version] = journals[0].revisions[version]
        journals[1].images[.item(2)]!.revision = version
        save(1, 2, revision: 9, content: 7)
        journals[1].state.isFresh = true
        join(1)
        settle()
        tell(1, 1)
        settle()
        for journal in journals {
            for (item, name, content) in [(1, "a", 7), (2, "b", 5)] {
                let image = journal.images[.item(item)]
                #expect(image?.name == name)
                #expect(image?.content == .content(content))
                #expect(image?.conflicts == [])
            }
        }
        #expect(hub.table.all.count == 2)
    }

    mutating func setMode(_ who: Int, _ item: Int, _ mode: [UInt8], at time: Int64) {
        journals[who].images[.item(item)]!.attributes["mode"] = mode
        journals[who].times[.item(item)] = ChangeTimes(placed: time, attributes: time)
        journals[who].unsent.insert(.item(item))
    }
}
