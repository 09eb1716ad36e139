import Testing

@testable import chaos

@Suite("A plan") struct ActionTests {
    @Test("each action can be parsed from its text", arguments: [UInt64(1), 2, 3])
    func text(seed: UInt64) throws {
        var plan = Plan(seed: seed, actions: 500)
        let rounds = [plan.round(), plan.round()]
        #expect(try PlanText.rounds(of: PlanText.text(rounds)) == rounds)
    }

    @Test("so can each action of a scene") func scenes() throws {
        var plan = Plan(seed: 4, actions: 200, focus: Plan.Focus.allCases)
        let round = plan.round()
        #expect(round.contains { $0.order != nil })
        #expect(try PlanText.rounds(of: PlanText.text([round])) == [round])
        #expect(Action("1 2 dev0>hub>dev1 kill") == nil)
    }

    @Test("equal seeds give equal plans, and others give others") func seeds() {
        var (one, same, other) = (Plan(seed: 7), Plan(seed: 7), Plan(seed: 8))
        #expect(one.round() == same.round())
        #expect(one.round() == same.round())
        #expect(one.round() != other.round())
    }

    @Test(
        "an invalid line is named",
        arguments: ["1 2 dev0", "1 2 dev0 sing a", "x 2 dev0 kill", "1 2 dev0 save a", ""])
    func mistakes(line: String) {
        #expect(Action(line) == nil)
    }
}
