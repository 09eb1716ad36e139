import Testing

@testable import chaos

@Suite("A plan") struct ActionTests {
    @Test("each action can be parsed from its text", arguments: [UInt64(1), 2, 3])
    func text(seed: UInt64) throws {
        var plan = Plan(seed: seed, actions: 500)
        let rounds = [plan.round(), plan.round()]
        #expect(try PlanText.rounds(of: PlanText.text(rounds)) == rounds)
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
