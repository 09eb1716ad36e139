import Foundation
import Support

/// Shows that faults which the product once had would be found: each one is planted again in debug
/// programs (`PlantedFault`, `SyncPlannerBug`), found by a run from a seed, and shrunk. The actions
/// that are left must be well without it.
struct Planted {
    /// A fault, and under which circumstances it does harm.
    struct Fault: Sendable {
        /// The value of CONCORD_PLANTED.
        let name: String
        /// Where it was found: a file and a number of `findings`, or the simulation of the planner.
        let origin: String
        let circumstances: [Plan.Fault]
        /// The work that it needs, and that is rare otherwise.
        let focus: [Plan.Focus]
        /// The promises that it breaks. Others do not count, because another fault broke them.
        let breaks: Set<Violation.Kind>
        /// How many seconds nothing may change before a round counts as not settled.
        let still: Int

        init(
            _ name: String, _ origin: String, _ circumstances: [Plan.Fault],
            with focus: [Plan.Focus] = [], breaks: Set<Violation.Kind>, still: Int = 12
        ) {
            (self.name, self.origin, self.focus) = (name, origin, focus)
            (self.circumstances, self.breaks, self.still) = (circumstances, breaks, still)
        }
    }

    static let faults = [
        Fault("thinsByWallClock", "keep 6", [], with: [.wrongClocks], breaks: [.lost]),
        Fault(
            "evictsUnconfirmed", "keep 1", [.signedOut, .quotaUsedUp], with: [.evictions],
            breaks: [.lost, .told, .tree, .unsettled, .invented, .unreadable]),
        Fault(
            "movesPlaceholders", "keep 8", [], with: [.placeholders],
            breaks: [.tree, .lost, .unreadable, .told]),
        Fault(
            "purgesWhatWaits", "keep 4", [], with: [.purges],
            breaks: [.unsettled, .tree, .lost]),
        Fault(
            "leavesCopiesUnsynced", "keep 11, faults 2", [], with: [.overwriting],
            breaks: [.lost, .unreadable]),
        Fault(
            "keepsOutbox", "faults 1", [], with: [.olderHubs],
            breaks: [.unsettled, .tree, .lost, .died]),
        Fault(
            "trustsRestoredHub", "keep 10", [], with: [.olderHubs],
            breaks: [.unsettled, .tree, .lost, .unsound]),
        Fault("promisesTooEarly", "newcomer 9", [], with: [.promises], breaks: [.lost]),
        Fault("neverSplits", "keep 15", [.storeCopied], breaks: [.unsettled]),
        Fault("makesMissingParts", "keep 2", [.partMissing], breaks: [.unsound, .tree, .lost]),
        Fault(
            "trapsAtFarDates", "keep 5, suites 1", [], with: [.dates],
            breaks: [.died, .hung]),
        Fault("opensThePast", "guard 1", [], with: [.users], breaks: [.leaked]),
        Fault("forgetsFormerModes", "guard 4", [], with: [.users], breaks: [.leaked]),
        Fault("tellsAllVersions", "guard 4", [], with: [.users], breaks: [.leaked]),
        Fault(
            "forgetsWhatWasAgreedOn", "keep 9", [], with: [.quotas],
            // A device tries again 30 s after the hub has refused something.
            breaks: [.conflict, .tree, .lost], still: 50),
        Fault(
            "overwritesUnsent", "simulation", [], with: [.meetings],
            breaks: [.lost, .replaced, .tree, .conflict]),
        Fault(
            "agreesEarly", "simulation", [], with: [.arrivals],
            breaks: [.lost, .replaced, .tree, .conflict]),
        Fault(
            "staleIsFresh", "simulation", [], with: [.olderHubs],
            breaks: [.conflict, .tree, .unsettled, .lost]),
        Fault(
            "absenceDeletes", "simulation", [], with: [.olderHubs],
            breaks: [.tree, .lost, .unsettled]),
    ]

    /// What became of a planted fault.
    struct Result {
        let fault: Fault
        /// Seconds until a promise was seen broken; nil if none was.
        var seconds: Int?
        var kinds: [String] = []
        /// The actions that are left.
        var actions: Int?
        var isWellWithout: Bool?

        var isFound: Bool {
            let broken = Set(kinds.compactMap(Violation.Kind.init(rawValue:)))
            return seconds != nil && isWellWithout == true && actions.map { $0 < 20 } == true
                && !fault.breaks.isDisjoint(with: broken)
        }

        var row: String {
            let words = [
                fault.name, fault.origin, seconds.map { "\($0) s" } ?? "not found",
                kinds.joined(separator: ", "), actions.map { "\($0)" } ?? "–",
                isWellWithout.map { $0 ? "well" : "FAILS" } ?? "–",
            ]
            return "| " + words.joined(separator: " | ") + " |"
        }
    }

    let options: Options

    /// Returns whether each fault was found.
    func run() throws -> Bool {
        let names = options.words.dropFirst()
        let unknown = names.filter { name in !Planted.faults.contains { $0.name == name } }
        if let first = unknown.first {
            let all = Planted.faults.map(\.name).joined(separator: ", ")
            throw SupportError("\(first) is none of \(all)")
        }
        let chosen = Planted.faults.filter { names.isEmpty || names.contains($0.name) }
        var results: [Result] = []
        for fault in chosen {
            let result = try result(of: fault)
            say(result.row)
            results.append(result)
        }
        say("| planted | finding | found after | broken promises | actions left | without it |")
        say("| --- | --- | --- | --- | --- | --- |")
        for result in results { say(result.row) }
        return results.allSatisfy(\.isFound)
    }

    private func result(of fault: Fault) throws -> Result {
        var result = Result(fault: fault)
        let temporary = ProcessInfo.processInfo.environment["TMPDIR"] ?? "/tmp"
        let home = "\(options["out"] ?? "\(temporary)/planted")/\(fault.name)"
        let minutes = (find: options.number("minutes", 10), shrink: options.number("shrink", 10))
        let only = fault.circumstances.map(\.rawValue).joined(separator: ",")
        var words = [
            "run", "--seed", options["seed"] ?? "1", "--minutes", "\(minutes.find)", "--shrink",
            "\(minutes.shrink)", "--devices", "2", "--actions", "24", "--odds", "1", "--often",
            "4", "--out", home, "--only", only,
            "--focus", fault.focus.map(\.rawValue).joined(separator: ","),
            "--settle", "\(fault.still + 30)", "--still", "\(fault.still)",
            "--breaks", fault.breaks.map(\.rawValue).sorted().joined(separator: ","),
        ]
        if let tries = options["tries"] { words += ["--tries", tries] }
        let output = try chaos(
            words, planted: fault.name, minutes: minutes.find + minutes.shrink + 10
        ).output
        try Data(output.utf8).write(to: URL(filePath: "\(home)/output"))
        let lines = output.split(separator: "\n").map(String.init)
        result.seconds = lines.firstMatch(of: /chaos: found after (\d+) s/)
        result.actions = lines.firstMatch(of: /chaos: (\d+) actions are left:/)
        let kinds = Violation.Kind.allCases.map(\.rawValue)
        result.kinds = kinds.filter { kind in
            lines.contains { $0.hasPrefix("\(kind) (round ") }
        }
        guard result.actions != nil else { return result }
        let again = try chaos(
            [
                "replay", "\(home)/shrunk.actions", "--times", "3", "--devices", "2", "--out",
                "\(home)/without",
            ], planted: "",
            minutes: 15)
        result.isWellWithout = again.status == 0
        return result
    }

    /// Runs this program again, because only a new process has another fault planted.
    private func chaos(
        _ words: [String], planted: String, minutes: Int
    ) throws -> Command.Result {
        let program = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath().path
        var command = Command(program, arguments: words)
        // Only debug programs can have a fault; they are where this program was built.
        let own = URL(filePath: program).deletingLastPathComponent().path
        let programs = ProcessInfo.processInfo.environment["CONCORD_BIN_DIR"] ?? own
        // Printing the stacks of a daemon that ends by itself takes longer than all the rest.
        command.environment = [
            "CONCORD_PLANTED": planted, "CONCORD_BIN_DIR": programs,
            "SWIFT_BACKTRACE": "enable=no",
        ]
        command.timeoutSeconds = Double(minutes) * 60
        return try command.run()
    }
}

extension [String] {
    /// The number that the first matching line has.
    fileprivate func firstMatch(of pattern: Regex<(Substring, Substring)>) -> Int? {
        for line in self {
            if let match = line.firstMatch(of: pattern) { return Int(match.1) }
        }
        return nil
    }
}
