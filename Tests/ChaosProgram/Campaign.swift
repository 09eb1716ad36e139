import Foundation
import Support

/// A run from a seed, or of the actions in a file. It ends at the first round that fails, and
/// shrinks that round.
struct Campaign {
    private let options: Options
    private let seed: UInt64
    private let directory: String
    private let devices: Int

    init(_ options: Options) throws {
        self.options = options
        seed = options["seed"].flatMap { UInt64($0) } ?? UInt64.random(in: 0...UInt64(UInt32.max))
        devices = options.number("devices", 3)
        let temporary = ProcessInfo.processInfo.environment["TMPDIR"] ?? "/tmp"
        directory = options["out"] ?? "\(temporary)/chaos-\(seed)"
        try FileManager.default.createDirectory(
            atPath: directory, withIntermediateDirectories: true)
    }

    private var patience: World.Patience {
        let seconds = options.number("settle", 120)
        return World.Patience(
            seconds: Double(seconds), still: Double(options.number("still", seconds)))
    }
    private var command: String { CommandLine.arguments.first ?? "chaos" }

    func run() throws -> Bool {
        let (minutes, rounds) = (
            options.number("minutes", 5), options["rounds"].flatMap { Int($0) }
        )
        var plan = Plan(
            seed: seed, devices: devices, actions: options.number("actions", 150),
            pause: options.number("pause", 60), faults: try options.faults,
            odds: options["odds"].flatMap { Int($0) },
            often: options.number("often", 2), focus: try options.focus)
        for _ in 0..<options.number("skip", 0) { _ = plan.round() }
        say("chaos: seed \(seed), \(devices) devices; the history is in \(directory)")
        let history = try History(file: "\(directory)/history.jsonl")
        var runner = try Runner(
            devices: devices, history: history, patience: patience)
        let begun = ContinuousClock.now
        let breaks = try options.breaks
        let end = Date(timeIntervalSinceNow: Double(minutes) * 60)
        var count = 0
        while rounds.map({ count < $0 }) ?? (Date() < end) {
            count += 1
            let round = plan.round()
            // The file is written before the round, so that it remains if this process is killed.
            let file = "\(directory)/round \(count).actions"
            try Data(PlanText.text([round]).utf8).write(to: URL(filePath: file))
            let violations = try runner.run(round)
            say("round \(count): \(round.count) actions, \(violations.count) violations")
            let isWanted = violations.isEmpty || violations.contains { breaks.contains($0.kind) }
            guard isWanted else {
                for violation in violations { say("beside: \(violation)") }
                runner.abandon()
                runner = try Runner(devices: devices, history: history, patience: patience)
                continue
            }
            guard violations.isEmpty else {
                say("chaos: found after \((ContinuousClock.now - begun).components.seconds) s")
                runner.abandon(copyTo: "\(directory)/stores")
                try tell(round, violations)
                return false
            }
            try FileManager.default.removeItem(atPath: file)
        }
        let violations = runner.end()
        for violation in violations { say(violation) }
        say(violations.isEmpty ? "chaos: nothing is wrong" : "chaos: seed \(seed)")
        if violations.isEmpty && options["out"] == nil {
            try FileManager.default.removeItem(atPath: directory)
        }
        return violations.isEmpty
    }

    func replay() throws -> Bool {
        guard options.words.count == 2 else { throw SupportError("chaos replay FILE") }
        let text = try String(contentsOfFile: options.words[1], encoding: .utf8)
        let history = try History(file: "\(directory)/history.jsonl")
        say("chaos: the history is in \(directory)")
        let runner = try Runner(
            devices: devices, history: history, patience: patience)
        for round in 1...options.number("times", 1) {
            for actions in try PlanText.rounds(of: text) {
                let violations = try runner.run(actions)
                say("round \(round): \(actions.count) actions, \(violations.count) violations")
                if violations.isEmpty { continue }
                runner.abandon(copyTo: "\(directory)/stores")
                try tell(actions, violations)
                return false
            }
        }
        let violations = runner.end()
        for violation in violations { say(violation) }
        return violations.isEmpty
    }

    // MARK: A failing round

    private func tell(_ round: Round, _ violations: [Violation]) throws {
        for violation in violations.prefix(40) { say(violation) }
        let file = "\(directory)/failing.actions"
        try Data(PlanText.text([round]).utf8).write(to: URL(filePath: file))
        say("chaos: again: \(command) replay '\(file)'")
        let minutes = options.number("shrink", 0)
        guard minutes > 0 else { return }
        let small = try shrink(round, violations, minutes: minutes)
        let shrunk = "\(directory)/shrunk.actions"
        try Data(PlanText.text([small]).utf8).write(to: URL(filePath: shrunk))
        say("chaos: \(small.count) actions are left:\n\(PlanText.text([small]))")
        say("chaos: again: \(command) replay '\(shrunk)'")
    }

    /// Runs candidates on devices of their own, one round after another. After each failure the
    /// devices are new, so that the damage does not affect the next round.
    private func shrink(
        _ round: Round, _ violations: [Violation], minutes: Int
    ) throws -> Round {
        let end = Date(timeIntervalSinceNow: Double(minutes) * 60)
        let kinds = Set(violations.map(\.kind)).intersection(try options.breaks)
        // A device that does not settle says which paths it waits for.
        let subjects = violations.flatMap { violation in
            violation.subject.split(separator: " ").map(String.init)
                + violation.message.matches(of: #/\br\d+/([-\w./~]+)/#).map { String($0.1) }
        }
        var runner: Runner?
        defer { runner?.abandon() }
        func fails(_ candidate: Round) throws -> Bool {
            for _ in 0..<options.number("tries", 2) {
                let present: Runner
                do {
                    present =
                        try runner
                        ?? Runner(
                            devices: devices, history: History(), patience: patience)
                } catch {
                    // What was found so far is worth more than an end here.
                    say("  no devices: \(error)")
                    continue
                }
                runner = present
                let found = try present.run(candidate)
                let isSame = !kinds.isDisjoint(with: found.map(\.kind))
                say("  \(candidate.count) actions: \(isSame ? "fail" : "well")")
                if found.isEmpty { continue }
                present.abandon()
                runner = nil
                if isSame { return true }
            }
            return false
        }
        return try Shrink.shrunk(
            round, about: subjects, isOver: { Date() > end }, fails: fails)
    }
}
