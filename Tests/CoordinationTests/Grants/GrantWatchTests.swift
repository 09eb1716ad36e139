import Model
import Testing

@testable import Coordination

/// What a hub keeps of the grants that devices ask for.
struct GrantWatchTests {
    private let volume = Identifier(high: 1, low: 1)
    private let anna = Identifier(high: 3, low: 1), bert = Identifier(high: 3, low: 2)
    private let row = GrantRow(
        token: 1,
        holder: .init(device: Identifier(high: 4, low: 1), process: Identifier(high: 4, low: 2)),
        number: 1)

    private func document(_ number: Int) -> GrantWatch.Document {
        .init(volume: volume, item: Identifier(high: 2, low: UInt64(number)))
    }

    @Test("an account that asks for very many documents stops no other one")
    func accounts() {
        var watch = GrantWatch(duration: 100)
        func isOver(_ number: Int, _ account: Identifier, at now: Int64) -> Bool {
            watch.isOver(row, of: document(number), askedBy: account, at: now)
        }
        #expect(!isOver(0, anna, at: 0))
        for number in 0..<(10 * GrantWatch.limit) { #expect(!isOver(number, bert, at: 1)) }
        #expect(watch.count <= GrantWatch.limit + 1)
        #expect(!isOver(0, anna, at: 99))
        #expect(isOver(0, anna, at: 100))
    }

    @Test("an account that asks for too many documents gets those that it asks for again")
    func oldest() {
        var watch = GrantWatch(duration: 100)
        func isOver(_ number: Int, at now: Int64) -> Bool {
            watch.isOver(row, of: document(number), askedBy: anna, at: now)
        }
        for number in 0..<GrantWatch.limit { #expect(!isOver(number, at: Int64(number))) }
        let end = Int64(GrantWatch.limit)
        #expect(isOver(0, at: end))
        // There is no place for one more, so the ones that were asked for longest ago go.
        #expect(!isOver(GrantWatch.limit, at: end))
        #expect(isOver(0, at: end))
        #expect(!isOver(1, at: end))
    }
}
