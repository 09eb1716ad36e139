/// One line of a plan: an actor, a verb and a time. A failing run is a file of such lines, which is
/// repeated unchanged, and shrunk by leaving lines out.
struct Action: Hashable, Sendable, CustomStringConvertible {
    /// A number that stays the same when other actions are left out, because contents are named
    /// after it.
    let number: Int
    /// Milliseconds after the start of the round. The action may happen later, but not earlier.
    let time: Int
    /// `dev0`, `dev1`, …, `hub` or `all`.
    let actor: String
    let verb: Verb
    /// For a fault: the device whose programs have done everything before it, and do nothing until
    /// it has happened. Nil if it happens at its time, whatever they do.
    let order: String?

    init(_ number: Int, at time: Int, _ actor: String, _ verb: Verb, inOrderOf order: String? = nil)
    {
        (self.number, self.time, self.actor, self.verb) = (number, time, actor, verb)
        self.order = order
    }

    var description: String {
        let actors = [order, actor].compactMap(\.self).joined(separator: ">")
        return "\(number) \(time) \(actors) \(verb.words.joined(separator: " "))"
    }

    init?(_ line: String) {
        let words = line.split(separator: " ").map(String.init)
        guard words.count > 3, let number = Int(words[0]), let time = Int(words[1]),
            let verb = Verb(words: Array(words[3...]))
        else { return nil }
        let actors = words[2].split(separator: ">").map(String.init)
        guard let actor = actors.last, actors.count < 3 else { return nil }
        self.init(number, at: time, actor, verb, inOrderOf: actors.count == 2 ? actors[0] : nil)
    }
}

/// The actions of several actors until everything is settled.
typealias Round = [Action]

enum PlanText {
    /// Parses the rounds of a file of actions. Lines that begin with # are comments.
    static func rounds(of text: String) throws(PlanError) -> [Round] {
        var rounds: [Round] = [[]]
        for line in text.split(separator: "\n") where line.first != "#" {
            guard let action = Action(String(line)) else {
                throw PlanError(line: String(line))
            }
            rounds[rounds.count - 1].append(action)
            if action.verb == .settle { rounds.append([]) }
        }
        return rounds.filter { !$0.isEmpty }
    }

    static func text(_ rounds: [Round]) -> String {
        rounds.joined().map { "\($0)\n" }.joined()
    }
}

struct PlanError: Error, CustomStringConvertible {
    let line: String
    var description: String { "this line is no action: \(line)" }
}
