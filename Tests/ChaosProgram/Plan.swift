import Support

/// Creates the actions of a run from a seed. The same seed gives the same rounds on each machine.
struct Plan {
    /// The number of devices, and the number of actions in a round.
    let devices: Int
    let actions: Int
    /// The mean pause between two actions of one device, in milliseconds.
    let pause: Int
    private let faults: [Fault]
    private let odds: Int?
    private let often: Int
    private let focus: [Focus]
    var random: SeededRandom
    private var number = 0
    /// The paths that were probably created in this round, by directory.
    private var made: [String: [String]] = [:]

    /// Only one device works in each of `own0`, `own1`, …, so the expected state is known exactly.
    static func ownDirectory(_ device: Int) -> String { "own\(device)" }
    static let sharedDirectory = "shared"
    static func database(_ device: Int) -> String { "\(ownDirectory(device))/data.sqlite" }

    /// - Parameters:
    ///   - faults: The kinds of faults that may occur.
    ///   - odds: Each of them occurs in one of so many rounds; nil for what is usual.
    ///   - often: How many times a fault occurs at most in a round that has it.
    ///   - focus: The work of which there is more than usual.
    init(
        seed: UInt64, devices: Int = 3, actions: Int = 150, pause: Int = 60,
        faults: [Fault] = Fault.allCases, odds: Int? = nil, often: Int = 2,
        focus: [Focus] = []
    ) {
        self.often = often
        self.focus = focus
        self.faults = faults
        self.odds = odds
        random = SeededRandom(seed: seed)
        (self.devices, self.actions, self.pause) = (devices, actions, pause)
    }

    mutating func round() -> Round {
        var round: Round = []
        var clocks = [Int](repeating: 0, count: devices)
        // Each round has only some kinds of faults, because a mixture of all would hide each one.
        let faults = faults.filter { fault in
            random.oneIn(odds ?? (Plan.rare.contains(fault) ? 8 : 3))
        }
        made = [:]
        for device in 0..<devices {
            for directory in ["", "/x", "/y", "/x/z", "/\(User.directory)"] {
                number += 1
                let path = own(device) + directory
                round.append(Action(number, at: 0, "dev\(device)", .makeDirectory(path)))
            }
        }
        // Each device creates these directories, which must become one.
        for (device, directory) in ["x", "y"].enumerated() where device < devices {
            number += 1
            let path = "\(Plan.sharedDirectory)/\(directory)"
            round.append(Action(number, at: 0, "dev\(device)", .makeDirectory(path)))
        }
        for _ in 0..<actions {
            let device = random.below(devices)
            let isShared = random.below(5) < 2
            clocks[device] += random.below(2 * pause + 1)
            number += 1
            if !focus.isEmpty, random.oneIn(2) {
                let scene = scene(of: random.pick(focus), device, number)
                for step in scene {
                    round.append(step.action(number, after: clocks[device]))
                    number += 1
                }
                clocks[device] += scene.map(\.time).max() ?? 0
                continue
            }
            let directory = isShared ? Plan.sharedDirectory : own(device)
            let verb = isShared ? verb(in: directory) : ownVerb(device)
            // Only contents that are at the hub can be evicted. Others must be refused.
            if case .evict(let path) = verb, !random.oneIn(4) {
                round.append(
                    Action(
                        number, at: clocks[device], "dev\(device)",
                        .wait(path, durability: "hub")))
                number += 1
            }
            round.append(Action(number, at: clocks[device], "dev\(device)", verb))
        }
        let length = clocks.max() ?? 0
        for fault in faults { round += occurrences(of: fault, until: length) }
        round.sort { ($0.time, $0.number) < ($1.time, $1.number) }
        number += 1
        round.append(Action(number, at: length, "all", .settle))
        return round
    }

    private func own(_ device: Int) -> String { Plan.ownDirectory(device) }

    // MARK: Actions of programs

    private static let names = ["a", "b", "c", "d.bin", "e.bin", "f"]
    private static let directories = ["", "x/", "y/", "x/z/"]

    private mutating func place(_ directory: String) -> String {
        // In the shared directory the devices use few names, so that they meet.
        if directory == Plan.sharedDirectory {
            return "\(directory)/\(random.pick(["a", "b", "c.bin", "x/a", "y/b"]))"
        }
        return "\(directory)/\(random.pick(Plan.directories))\(random.pick(Plan.names))"
    }

    private mutating func size() -> Int {
        switch random.below(20) {
        case 0: 1_500_000 + random.below(300_000)
        case 1, 2: 60_000 + random.below(60_000)
        default: 4_000 + random.below(4_000)
        }
    }

    /// Usually returns a path that probably exists.
    private mutating func existing(_ directory: String) -> String {
        guard let known = made[directory], !random.oneIn(8) else { return place(directory) }
        return random.pick(known)
    }

    private mutating func new(_ directory: String) -> String {
        let path = random.oneIn(2) ? existing(directory) : place(directory)
        made[directory, default: []].append(path)
        return path
    }

    /// Some actions are only done where one device works alone.
    private mutating func ownVerb(_ device: Int) -> Verb {
        let directory = own(device)
        let package = "\(directory)/\(random.pick(["p", "x/q"])).rtfd"
        switch random.below(40) {
        case 0..<3: return .package(package, random.pick(PackageWay.allCases), size: size())
        case 3: return .wait(package, durability: random.oneIn(3) ? "hub" : "disk")
        case 4, 5: return .transact(Plan.database(device), rows: 2 + random.below(5))
        case 7..<11:
            let name = random.pick(["a", "b"])
            return .saveAs(
                random.pick(User.allCases), "\(directory)/\(User.directory)/\(name)",
                size: size(), mode: random.pick([0o600, 0o600, 0o644]))
        case 6:
            return random.oneIn(3)
                ? .purge(random.oneIn(3) ? directory : existing(directory))
                : verb(in: directory)
        default: return verb(in: directory)
        }
    }

    private mutating func verb(in directory: String) -> Verb {
        switch random.below(44) {
        case 0..<15:
            let way = random.pick(SavePattern.allCases)
            return .save(new(directory), way, size: size(), synced: random.oneIn(5))
        case 15..<19:
            return .change(existing(directory), random.pick(InPlace.allCases), size: size())
        case 19..<23: return .rename(existing(directory), new(directory))
        case 23: return .exchange(existing(directory), existing(directory))
        case 24..<26: return .remove(existing(directory))
        case 26..<31: return directoryVerb(in: directory)
        case 31: return .link(existing(directory), place(directory))
        case 32..<35:
            return .wait(existing(directory), durability: random.oneIn(3) ? "hub" : "disk")
        case 43: return .date(existing(directory), seconds: random.pick(Plan.dates))
        case 35: return .hold(existing(directory), milliseconds: 20 + random.below(300))
        case 36: return .restore(existing(directory), back: random.oneIn(3) ? 2 : 1)
        case 39..<42: return .rewind(rewound(directory), seconds: 1 + random.below(3))
        case 37: return .evict(existing(directory))
        case 38:
            let path = existing(directory)
            return random.oneIn(2) ? .pin(path) : .unpin(path)
        default:
            let path = existing(directory)
            return number.isMultiple(of: 4) ? .visit(path) : .read(path)
        }
    }

    /// Of a camera without a clock, of another century, and of an archive that nobody believes.
    static let dates = [0, -3_000_000_000, 951_782_400, 10_413_792_000, 253_402_300_799]

    private mutating func rewound(_ directory: String) -> String {
        switch random.below(4) {
        case 0: directory
        case 1: "\(directory)/x"
        default: existing(directory)
        }
    }

    private mutating func directoryVerb(in directory: String) -> Verb {
        let path = "\(directory)/\(random.pick(["x", "y", "x/z"]))"
        switch random.below(5) {
        case 0: return .removeDirectory(path)
        case 1: return .rename("\(directory)/x", "\(directory)/y")
        case 2:
            // Nothing is saved under these names, because a save would follow the link.
            let link = "\(path)/link\(random.below(2))"
            return random.oneIn(3) ? .remove(link) : .symlink(link, target: "nowhere")
        default: return .makeDirectory(path)
        }
    }

    // MARK: Faults

    enum Fault: String, CaseIterable, Sendable {
        case deviceDies, deviceStops, hubDies, hubStops, lineCut, lineStalls, lineReset, offline
        case signedOut, quotaUsedUp, powerLost, diskFull
        case deviceRolledBack, hubRolledBack
        case clockSet, timePassed, storeMoved, storeCopied, partMissing, otherHub
    }

    /// Returns how far ahead a clock is set: minutes, days or years, forwards and back, or not at
    /// all.
    private mutating func ahead() -> Int {
        let distance = random.pick([0, 180, 7_200, 86_400 * 3, 86_400 * 100, 86_400 * 4_000])
        return random.oneIn(2) ? distance : -distance
    }

    /// The copy of a device saves in the shared directory as a device of its own.
    private mutating func savesOfCopy(after start: Int, until end: Int) -> Round {
        (0..<6).map { _ in
            number += 1
            let path = place(Plan.sharedDirectory)
            let way = random.pick([SavePattern.inPlace, .replace])
            return Action(
                number, at: start + random.below(end - start), "dev\(devices)",
                .save(path, way, size: size(), synced: false))
        }
    }

    /// Faults after which less is known of what the state must be.
    private static let rare: Set<Fault> = [.deviceRolledBack, .hubRolledBack, .otherHub]

    /// Returns some occurrences of a fault with their ends. Faults without an end are ended when
    /// the round settles.
    private mutating func occurrences(of fault: Fault, until length: Int) -> Round {
        var round: Round = []
        for _ in 0..<(1 + random.below(often)) {
            let start = random.below(max(length, 1))
            let end = start + 100 + random.below(2_000)
            let device = "dev\(random.below(devices))"
            let (actor, verbs): (String, [Verb]) =
                switch fault {
                case .clockSet:
                    (
                        random.oneIn(3) ? "hub" : device,
                        [.clock(ahead: ahead()), .kill, .start, .clock(ahead: ahead())]
                    )
                case .timePassed: ("all", [.sleep(days: random.pick([1, 2, 40]))])
                case .storeMoved: (device, [.moveStore])
                case .storeCopied: (device, [.copyStore])
                case .partMissing: (device, [.lack(random.pick(StorePart.allCases))])
                case .otherHub: (device, [.signInElsewhere, .signOut, .signIn])
                case .deviceDies: (device, [.kill, .start])
                case .deviceStops: (device, [.stop, .go])
                case .hubDies: ("hub", [.kill, .start])
                case .hubStops: ("hub", [.stop, .go])
                case .lineCut: (device, [.line(.cut), .line(.open)])
                case .lineStalls: (device, [.line(.stall), .line(.open)])
                case .lineReset: (device, [.line(.reset)])
                case .offline: (device, [.offline, .online])
                case .signedOut: (device, [.signOut, .signIn])
                case .quotaUsedUp: ("hub", [.quota(bytes: 1), .quota(bytes: nil)])
                case .powerLost: (device, [.losePower, .start])
                case .diskFull: (device, [.fill, .free])
                case .deviceRolledBack: (device, [.keep, .rollBack])
                case .hubRolledBack: ("hub", [.keep, .rollBack])
                }
            // A further verb follows shortly after the second, or ends the fault.
            for (time, verb) in zip([start, end, end + 10, end + 2_000], verbs) {
                number += 1
                round.append(Action(number, at: time, actor, verb))
            }
            if fault == .storeCopied { round += savesOfCopy(after: start, until: end + 2_000) }
        }
        return round
    }
}
