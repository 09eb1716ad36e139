import Testing

@testable import chaos

@Suite("Shrinking") struct ShrinkTests {
    @Test("keeps what is needed to fail, in order", arguments: [[7], [3, 90], [0, 50, 99]])
    func smallest(needed: [Int]) {
        var tries = 0
        let left = Shrink.smallest(Array(0..<100)) { rest in
            tries += 1
            return needed.allSatisfy(rest.contains)
        }
        #expect(left == needed)
        #expect(tries < 150)
    }

    @Test("keeps the end of a round, and returns its result when the time is over")
    func rounds() {
        var plan = Plan(seed: 5)
        let round = plan.round()
        let wanted = round[round.count / 2]
        func fails(_ rest: Round) -> Bool { rest.contains(wanted) && rest.last?.verb == .settle }
        let left = Shrink.shrunk(round, about: ["own1/a"], isOver: { false }, fails: fails)
        #expect(left == [wanted, round[round.count - 1]])
        let late = Shrink.shrunk(round, about: [], isOver: { true }, fails: { _ in true })
        #expect(late == round)
    }

    @Test("first tries the actions that concern the violations") func guesses() {
        var plan = Plan(seed: 6)
        let round = plan.round()
        var sizes: [Int] = []
        func fails(_ rest: Round) -> Bool {
            sizes.append(rest.count)
            return true
        }
        _ = Shrink.shrunk(
            round, about: ["own1/a"], isOver: { sizes.count > 1 }, fails: fails)
        #expect(sizes.first.map { $0 < round.count / 4 } == true)
    }
}
