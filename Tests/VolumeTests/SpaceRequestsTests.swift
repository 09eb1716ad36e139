import Support
import Testing

@testable import Volume

/// Programs that ask for space, and a recorder that searches: schedules from seeds.
@Suite struct SpaceRequestsTests {
    /// A mistake that the simulation must find.
    enum Bug: CaseIterable {
        case lateRequestsAreAnswered
        case newsIsForgotten
        case unclearIsNothing
        case heldIsNothing
    }

    @Test("nobody is refused what could be had, and nobody waits for ever")
    func schedules() throws {
        for seed in 0..<5_000 { try simulate(UInt64(seed), bug: nil) }
    }

    @Test("the simulation finds planted mistakes", arguments: Bug.allCases)
    func planted(bug: Bug) {
        let isFound = (0..<5_000).contains { seed in
            (try? simulate(UInt64(seed), bug: bug)) == nil
        }
        #expect(isFound)
    }

    private func simulate(_ seed: UInt64, bug: Bug?) throws {
        var world = SpaceWorld(seed: seed, bug: bug)
        for _ in 0..<60 { try world.step() }
        try world.settle()
    }
}

/// Contents that can be removed, once the recorder has heard of them, and the programs that wait.
private struct SpaceWorld {
    private var random: SeededRandom
    private let bug: SpaceRequestsTests.Bug?
    private let seed: UInt64
    private var requests = SpaceRequests()
    private var now: Int64 = 1_000_000_000
    /// Removable contents of which the recorder has not heard, has heard, and which are open.
    private var unheard = 0
    private var removable = 0
    private var held = 0
    /// Whether events can be noted in the journal.
    private var isJournalFull = false
    /// The requests that wait, with whether contents were removable when they were made.
    private var waiting: [UInt64: (hadRoom: Bool, time: Int64)] = [:]
    private var search: (search: SpaceRequests.Search, found: Int, wasUnclear: Bool)?

    init(seed: UInt64, bug: SpaceRequestsTests.Bug?) {
        random = SeededRandom(seed: seed)
        (self.seed, self.bug) = (seed, bug)
    }

    mutating func step() throws {
        now += Int64(random.below(300_000_000))
        switch random.below(9) {
        case 0, 1: try ask()
        case 2:
            // A program replaces or deletes something.
            unheard += 1
            if bug != .newsIsForgotten { requests.addNews() }
        case 3: held += 1
        case 4 where held > 0:
            // A program closes it.
            held -= 1
            unheard += 1
            if bug != .newsIsForgotten { requests.addNews() }
        case 5: isJournalFull.toggle()
        default: try advance()
        }
        try takeAnswers()
    }

    private mutating func ask() throws {
        let hasRoom = unheard + removable > 0
        guard let number = requests.ask(for: 1, at: now) else {
            try check(!hasRoom, "a request was refused at once")
            return
        }
        waiting[number] = (hasRoom, now)
    }

    /// Begins a search, or ends one.
    private mutating func advance() throws {
        guard let running = search else {
            guard requests.isDue(at: now) else { return }
            let search = requests.begin(at: now)
            if !isJournalFull { (removable, unheard) = (removable + unheard, 0) }
            self.search = (search, removable, isJournalFull && unheard > 0)
            removable = 0
            return
        }
        search = nil
        var finding = SpaceRequests.Finding.nothing
        if running.found > 0 {
            finding = .freed
        } else if running.wasUnclear {
            finding = bug == .unclearIsNothing ? .nothing : .unclear
        } else if held > 0 {
            finding = bug == .heldIsNothing ? .nothing : .held
        }
        // With this mistake, a search answers those who asked while it ran.
        let answered = bug == .lateRequestsAreAnswered ? requests.begin(at: now) : running.search
        requests.end(answered, finding, at: now)
    }

    private mutating func takeAnswers() throws {
        for (number, request) in waiting {
            guard let answer = requests.takeAnswer(to: number) else { continue }
            waiting[number] = nil
            guard answer == .refused else { continue }
            try check(!request.hadRoom, "a request was refused although there was something")
            let wasPatient = held == 0 || now - request.time >= SpaceRequests.patience
            try check(wasPatient, "a close that was on its way was not waited for")
        }
    }

    /// When the journal has space, each request is answered by a few searches.
    mutating func settle() throws {
        isJournalFull = false
        for _ in 0..<20 {
            now += 2_000_000_000
            try advance()
            try takeAnswers()
        }
        try check(waiting.isEmpty, "a request was never answered")
        try check(requests.due == nil, "a search is due for nobody")
    }

    private func check(_ isSo: Bool, _ message: String) throws {
        guard isSo else { throw SupportError("seed \(seed): \(message)") }
    }
}
