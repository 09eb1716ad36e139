import Model
import Testing

@testable import Reconcile

/// What a device concludes from the hub's confirmations.
@Suite struct SessionTests {
    private let planner = SyncPlanner()

    /// A device that has sent two files to the hub, and may have received an answer.
    private func journal(sentUpTo number: UInt64) -> DeviceJournal {
        var journal = DeviceJournal(device: 0, volumeEpoch: Identifier(high: 9, low: 1))
        journal.state.isFresh = false
        for place in 1...2 {
            let id = Identifier.item(place)
            journal.images[id] = Image(kind: .directory, parent: .root, name: "\(place)")
            journal.unsent.insert(id)
            let draft = planner.comparison.draft(id, in: &journal)
            #expect(planner.enqueue(draft, in: &journal).map(\.id.number) == [UInt64(place)])
        }
        planner.willSend(upTo: number, in: &journal)
        return journal
    }

    private func page(_ acknowledged: UInt64) -> Page {
        Page(entries: [], next: 2, head: 2, acknowledged: acknowledged)
    }

    @Test func whatWasSentAndAnsweredIsConfirmed() {
        var journal = journal(sentUpTo: 2)
        #expect(planner.take(page(2), answered: 2, in: &journal) == [])
        #expect(journal.outbox.isEmpty)
        #expect(journal.state.cursor == 2)
    }

    /// Another copy of this journal has sent other operations with these numbers.
    @Test func whatWasNeverSentIsNotConfirmed() {
        var journal = journal(sentUpTo: 1)
        let before = journal.state
        #expect(planner.take(page(2), answered: 1, in: &journal) == nil)
        #expect(journal.outbox.count == 2)
        #expect(journal.state == before)
    }

    /// Only the hub can tell whose operation it was, when it is sent again.
    @Test func whatWasSentAndNotAnsweredIsSentAgain() {
        var journal = journal(sentUpTo: 2)
        #expect(planner.take(page(2), answered: 1, in: &journal) == [])
        #expect(journal.outbox.map(\.operation.id.number) == [2])
        #expect(planner.take(page(2), answered: 2, in: &journal) == [])
        #expect(journal.outbox.isEmpty)
    }

    @Test func whatWasSentStaysSent() {
        var journal = journal(sentUpTo: 2)
        planner.willSend(upTo: 1, in: &journal)
        #expect(journal.state.sentUpTo == 2)
        planner.restart(epoch: 2, volumeEpoch: Identifier(high: 9, low: 1), in: &journal)
        #expect(journal.state.sentUpTo == 0)
    }

    /// An item that is being created may turn out to be another device's item.
    @Test func whatIsOnItsWayIsDeletedOnlyAfterwards() {
        var journal = journal(sentUpTo: 2)
        let id = Identifier.item(1)
        journal.images[id]!.isAlive = false
        journal.unsent.insert(id)
        let draft = planner.comparison.draft(id, in: &journal)
        #expect(draft.isDeletion)
        #expect(planner.enqueue(draft, in: &journal).isEmpty)
        _ = planner.take(page(2), answered: 2, in: &journal)
        #expect(planner.enqueue(draft, in: &journal).count == 1)
    }

    @Test func theOutboxFollowsItsItem() {
        var journal = journal(sentUpTo: 2)
        let (old, new) = (Identifier.item(1), Identifier.item(7))
        journal.reidentify(old, as: new)
        #expect(journal.isInOutbox(new) && !journal.isInOutbox(old))
        #expect(journal.outbox[0].operation.item == old)
    }
}
