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

    @Test("keeps the faults of a scene with its saves") func scenes() {
        var plan = Plan(seed: 7, devices: 2, actions: 40, faults: [], focus: [.quotas])
        let round = plan.round()
        guard let refused = round.first(where: { $0.verb == .quota(bytes: 1) }) else {
            Issue.record("the plan has no scene")
            return
        }
        let path = "own\(refused.order?.dropFirst(3) ?? "")/n\(refused.number - 4)"
        var tries = 0
        func fails(_ rest: Round) -> Bool {
            tries += 1
            return rest.contains(refused) && rest.contains { $0.verb.paths.contains(path) }
        }
        let left = Shrink.shrunk(round, about: [path], isOver: { false }, fails: fails)
        #expect(left.count == 3)
        #expect(tries < 30)
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
