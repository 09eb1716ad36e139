import Support

/// The kinds of events in a schedule.
protocol Doing: CaseIterable, Sendable {
    /// The frequency of each case, in the order of the cases.
    static var weights: [Int] { get }
    var isUsers: Bool { get }
}

/// An event of a schedule. Its effect depends on the state at that time, so that an event is still
/// meaningful when others are left out. What it makes has its number.
struct Event<Action: Doing>: CustomStringConvertible {
    let number: Int
    let device: Int
    let action: Action
    let choices: [Int]

    var description: String { "\(number): device \(device) \(action) \(choices)" }

    func choose<Element>(_ which: Int, _ elements: [Element]) -> Element? {
        elements.isEmpty ? nil : elements[choices[which] % elements.count]
    }

    func oneIn(_ count: Int, _ which: Int) -> Bool { choices[which] / 1_000 % count == 0 }
}

/// Random events: in each schedule some kinds are frequent, and some never happen.
struct EventSource<Action: Doing> {
    private var user: SeededRandom
    private var network: SeededRandom
    private var who: SeededRandom
    private let actions = Array(Action.allCases)
    private let weights: [Int]

    init(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        (user, network, who) = (random.fork(), random.fork(), random.fork())
        var swarm = random.fork()
        weights = Action.weights.map { weight in
            swarm.oneIn(6) ? 0 : weight * (swarm.oneIn(4) ? 3 : 1)
        }
    }

    mutating func events(_ count: Int, devices: Int) -> [Event<Action>] {
        (1...count).map { number in
            let action = nextAction()
            let choices = (0..<4).map { _ in
                action.isUsers ? user.below(1 << 20) : network.below(1 << 20)
            }
            return Event(
                number: number, device: who.below(devices), action: action, choices: choices)
        }
    }

    private mutating func nextAction() -> Action {
        let total = weights.reduce(0, +)
        guard total > 0 else { return actions[0] }
        var left = who.below(total)
        for (action, weight) in zip(actions, weights) {
            if left < weight { return action }
            left -= weight
        }
        return actions[0]
    }
}

/// The smallest set of events that still fails.
func shrunk<Action>(
    _ events: [Event<Action>], isWrong: ([Event<Action>]) -> Bool
) -> [Event<Action>] {
    var (events, size) = (events, max(1, events.count / 2))
    while true {
        var start = 0
        var isSmaller = false
        while start < events.count {
            var fewer = events
            fewer.removeSubrange(start..<min(start + size, events.count))
            if isWrong(fewer) {
                (events, isSmaller) = (fewer, true)
            } else {
                start += size
            }
        }
        if size == 1, !isSmaller { return events }
        if size > 1 { size /= 2 }
    }
}
