import Model
import Support
import Testing

@testable import Coordination

/// Bugs that the program around `EditWaits` could have. The schedules must find each of them.
enum EditWaitBug: String, CaseIterable, Sendable {
    case neverWakes
    /// Nobody tells that a device has let go.
    case neverHearsOfAnEnd
    /// An open that was interrupted is not taken back.
    case neverEnds
    /// What was waited for is forgotten at each open.
    case forgetsWhatItWaitedFor
}

/// Runs random schedules of opens that wait for editors on other devices.
@Suite("Schedules of opens that wait for editors") struct EditWaitTests {
    @Test(.timeLimit(.minutes(20))) func nobodyBreaksTheRules() {
        EditWaitSchedule.expectNoFault(named: "EditWaits", in: SimulationTests.count / 100)
    }

    @Test(arguments: EditWaitBug.allCases) func aPlantedBugIsFound(_ bug: EditWaitBug) {
        EditWaitSchedule.expectFault(of: bug, seed: 7)
    }
}

/// Programs of one device that open documents, and other devices that edit these.
private struct EditWaitSchedule: RandomSchedule {
    private struct Open {
        var document: Identifier
        var begun: Int64
    }

    private let bug: EditWaitBug?
    private var random: SeededRandom
    private var now: Int64 = 0
    private var waits = EditWaits(patience: patience)
    private var open: [UInt64: Open] = [:]
    private var last: UInt64 = 0
    private var editors: [Identifier: Set<Identifier>] = [:]
    /// What an open has waited for as long as it may, and has not ended since.
    private var waitedFor: [Identifier: Set<Identifier>] = [:]
    private var wanted: Set<Identifier> = []
    private var fault: String?

    private static let patience: Int64 = 100
    private static let documents = (1...3).map { Identifier(high: 1, low: $0) }
    private static let devices = (1...3).map { Identifier(high: 2, low: $0) }

    init(seed: UInt64, bug: EditWaitBug? = nil) {
        (self.bug, random) = (bug, SeededRandom(seed: seed))
    }

    /// Returns what is wrong.
    mutating func run() -> String? {
        for _ in 0..<200 where fault == nil {
            switch random.next() % 8 {
            case 0, 1: beginOpen()
            case 2: interrupt()
            case 3, 4: edit()
            case 5: letGo()
            default: pass(Int64(random.next() % 60))
            }
            check()
        }
        return fault
    }

    private mutating func beginOpen() {
        last += 1
        let document = Self.documents[Int(random.next() % 3)]
        let isPatient = random.next() % 4 > 0
        let inTheWay = (editors[document] ?? []).subtracting(waitedFor[document] ?? [])
        open[last] = Open(document: document, begun: now)
        if bug == .forgetsWhatItWaitedFor {
            take(waits.step(.edited([:]), at: now))
            take(waits.step(.edited(editors), at: now))
        }
        if !isPatient { waitedFor[document] = editors[document] }
        take(waits.step(.began(last, document: document, isPatient: isPatient), at: now))
        let isWaiting = open[last] != nil
        if isWaiting, inTheWay.isEmpty || !isPatient { fault = "an open waits for nothing" }
        if !isWaiting, !inTheWay.isEmpty, isPatient { fault = "an open does not wait" }
    }

    private mutating func interrupt() {
        guard let id = open.keys.min() else { return }
        open[id] = nil
        if bug != .neverEnds { take(waits.step(.ended(id), at: now)) }
    }

    private mutating func edit() {
        let document = Self.documents[Int(random.next() % 3)]
        editors[document, default: []].insert(Self.devices[Int(random.next() % 3)])
        take(waits.step(.edited(editors), at: now))
    }

    private mutating func letGo() {
        let document = Self.documents[Int(random.next() % 3)]
        let there = Self.devices.filter { editors[document]?.contains($0) == true }
        guard let device = there.randomElement(using: &random) else { return }
        editors[document]?.remove(device)
        waitedFor[document]?.remove(device)
        if bug != .neverHearsOfAnEnd { take(waits.step(.edited(editors), at: now)) }
    }

    private mutating func pass(_ time: Int64) {
        let end = now + time
        while let wake = waits.wakeTime, wake <= end, bug != .neverWakes {
            now = wake
            for open in open.values where open.begun + Self.patience <= now {
                waitedFor[open.document] = editors[open.document]
            }
            take(waits.step(.woken, at: now))
        }
        now = end
    }

    private mutating func take(_ effects: [EditWaits.Effect]) {
        for effect in effects {
            switch effect {
            case .want(let document, true):
                if !wanted.insert(document).inserted { fault = "a document is wanted twice" }
            case .want(let document, false):
                if wanted.remove(document) == nil { fault = "a document was not wanted" }
            case .proceed(let id, let document, let risk):
                guard let gone = open.removeValue(forKey: id), gone.document == document else {
                    fault = "open \(id) goes on twice, or after its end"
                    return
                }
                let there = editors[document] ?? []
                if !risk.isSubset(of: there) { fault = "a risk is told that is none" }
                let waited = waitedFor[document] ?? []
                if !there.subtracting(risk).isSubset(of: waited) {
                    fault = "open \(id) went on, and was not told of an editor"
                }
            }
        }
    }

    private mutating func check() {
        for (id, open) in open {
            if now >= open.begun + Self.patience { fault = "open \(id) waits too long" }
            let inTheWay = (editors[open.document] ?? []).subtracting(
                waitedFor[open.document] ?? [])
            if inTheWay.isEmpty { fault = "open \(id) waits for nobody" }
        }
        if wanted != Set(open.values.map(\.document)) {
            fault = "the wanted documents are others than those that are waited for"
        }
    }
}
