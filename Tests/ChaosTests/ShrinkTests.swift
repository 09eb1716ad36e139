import Testing

@testable import chaos

@Suite("Shrinking") struct ShrinkTests {
    @Test("leaves what it takes to fail, in its order", arguments: [[7], [3, 90], [0, 50, 99]])
    func smallest(needed: [Int]) {
        var tries = 0
        let left = Shrink.smallest(Array(0..<100)) { rest in
            tries += 1
            return needed.allSatisfy(rest.contains)
        }
        #expect(left == needed)
        #expect(tries < 150)
    }

    @Test("keeps the end of a round, and gives back what it has when there is no time left")
    func rounds() {
        var plan = Plan(seed: 5)
        let round = plan.round()
        let wanted = round[round.count / 2]
        let left = Shrink.shrunk(round) { $0.contains(wanted) && $0.last?.verb == .settle }
        #expect(left == [wanted, round[round.count - 1]])
        #expect(Shrink.shrunk(round, isOver: { true }) { _ in true } == round)
    }
}
