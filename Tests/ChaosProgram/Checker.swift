/// Judges a history by comparing what was promised with what was found. It uses no clock, no file
/// and no program.
struct Checker {
    private var violations: [Violation] = []
    let events: [Event]
    /// The rounds in which a hub may have lost contents.
    private let losing: Set<Int>

    /// - Parameter earlier: Rounds before these events in which a hub may have lost contents. What
    ///   a doctor says of their documents is said later.
    static func violations(of events: [Event], afterLossesIn earlier: Set<Int> = []) -> [Violation]
    {
        let rounds = Dictionary(grouping: events, by: \.round)
        let losing = earlier.union(events.filter(\.mayTakeContentsFromHub).map(\.round))
        return rounds.keys.sorted().flatMap { round in
            var checker = Checker(events: rounds[round] ?? [], losing: losing)
            checker.check()
            return checker.violations
        }
    }

    private init(events: [Event], losing: Set<Int>) {
        (self.events, self.losing) = (events, losing)
    }

    mutating func note(
        _ kind: Violation.Kind, _ event: Event, _ subject: String, _ message: String
    ) {
        let violation = Violation(
            kind: kind, round: event.round, subject: subject, message: message)
        if !violations.contains(violation) { violations.append(violation) }
    }

    private mutating func check() {
        incidents()
        checkOwnTrees()
        checkWhatIsLeft()
        // Without a settled state the devices may differ.
        guard events.contains(where: { $0.kind == .settled }) else { return }
        checkLosses()
        checkReadability()
        checkLineage()
        checkInventions()
        checkConflicts()
        checkEquality()
        checkReaders()
    }

    // MARK: Incidents

    private mutating func incidents() {
        for event in events {
            let detail = event.detail ?? ""
            switch event.kind {
            case .died: note(.died, event, event.actor, detail)
            case .hung: note(.hung, event, event.actor, detail)
            case .unsettled: note(.unsettled, event, event.actor, detail)
            case .examined where !event.isOK && !isLossOfHub(event):
                note(.unsound, event, event.actor, detail)
            default: break
            }
        }
    }

    /// Whether all damage that a doctor reports is that versions cannot be read which only a hub
    /// had, and that hub has been replaced by an older copy of it since, or exists no longer.
    private func isLossOfHub(_ event: Event) -> Bool {
        let damages = (event.detail ?? "").split(separator: "\n")
            .filter { $0.hasPrefix("damage: ") }
        return !damages.isEmpty
            && damages.allSatisfy { line in
                let pattern =
                    #/damage: r(\d+)/.* cannot be read now: the contents are not on this device.*/#
                return line.wholeMatch(of: pattern).flatMap { Int($0.1) }
                    .map(losing.contains) ?? false
            }
    }

    // MARK: No closed contents are lost

    /// Returns for each device the contents that it has as files or versions.
    private func held() -> [String: Set<String>] {
        var held: [String: Set<String>] = [:]
        for event in events where event.kind == .item || event.kind == .version {
            if let content = event.content { held[event.actor, default: []].insert(content) }
        }
        return held
    }

    private mutating func checkLosses() {
        let held = held()
        let all = held.values.reduce(into: Set<String>()) { $0.formUnion($1) }
        let promised = Dictionary(
            grouping: events.filter { $0.kind == .promised }, by: { $0.content ?? "" })
        for (index, event) in events.enumerated() where event.kind == .did && event.isOK {
            guard let content = event.content, event.verb.map(Checker.writes) == true,
                isOwed(event, promised[content] ?? [], index),
                held[event.actor]?.contains(content) != true
            else { continue }
            // A fault is told when it begins, and a save may end before it has happened.
            let began = beginning(of: event, at: index)
            if isRolledBack(event.actor, after: began) {
                // An older store knows only those later contents that were promised to be at the
                // hub, and gets from there only the last ones of a file.
                let isPromised = promised[content]?.contains { $0.detail == "hub" } == true
                if !isPromised || isKept(content, index, all) { continue }
            } else if events[began...].contains(where: { $0.losesState(of: event.actor) }) {
                // A loss of power takes only what was not promised to be on the disk.
                if promised[content] == nil { continue }
            }
            let said = (promised[content] ?? []).compactMap(\.detail).map { ", durable: \($0)" }
            let place = all.contains(content) ? "only on another device" : "nowhere"
            note(
                .lost, event, event.path ?? "",
                "\(event.writers ?? content) of \(event.actor), action "
                    + "\(event.action ?? 0) (\(event.verb?.joined(separator: " ") ?? "")"
                    + "\(said.joined())) is \(place)")
        }
    }

    /// Whether a device has the content, or one that the device which saved it has made from it.
    private func isKept(_ content: String, _ index: Int, _ all: Set<String>) -> Bool {
        if all.contains(content) { return true }
        let save = events[index]
        return events.indices.dropFirst(index + 1).contains { later in
            let event = events[later]
            guard event.kind == .did, event.isOK, event.actor == save.actor,
                event.base == content, event.verb.map(Checker.writes) == true,
                let next = event.content
            else { return false }
            return isKept(next, later, all)
        }
    }

    /// Returns whether the save must be a version.
    private func isOwed(_ save: Event, _ promises: [Event], _ index: Int) -> Bool {
        // Saves of a package within a second are one version, unless something asks for it.
        if save.verb?.first == "package" && promises.isEmpty { return false }
        // The present contents, which a purge and a full disk keep, are judged with the tree.
        let isFilled = events.contains {
            $0.kind == .fault && $0.actor == save.actor && $0.verb == ["fill"]
        }
        let isPurged = events[index...].contains {
            $0.kind == .began && $0.actor == save.actor && $0.verb?.first == "purge"
                && Checker.owner(of: save.path ?? "") == save.actor
        }
        return !isFilled && !isPurged && !mayBeThinned(save, index)
            && !mayBeOnlyAtHub(save, index)
    }

    /// Whether the device let go of contents that a hub had, which came back as an older copy of
    /// itself before or after, or exists no longer. A document that was moved or exchanged may have
    /// been saved at another path.
    private func mayBeOnlyAtHub(_ save: Event, _ index: Int) -> Bool {
        let directory = save.path?.prefix { $0 != "/" }
        return events[index...].contains(where: \.mayTakeContentsFromHub)
            && events[index...].contains {
                $0.kind == .did && $0.isOK && $0.actor == save.actor && $0.verb?.first == "evict"
                    && $0.path?.prefix { $0 != "/" } == directory
            }
    }

    /// Of versions that are older than a day, the newest one of each hour is kept at least. All
    /// saves of a round are in one or two hours, and a document that was moved or exchanged may
    /// have been saved at another path.
    private func mayBeThinned(_ save: Event, _ index: Int) -> Bool {
        guard events[index...].contains(where: \.isSleep) else { return false }
        let directory = save.path?.prefix { $0 != "/" }
        return events[(index + 1)...].contains {
            $0.kind == .did && $0.isOK && $0.verb.map(Checker.writes) == true
                && $0.path?.prefix { $0 != "/" } == directory
        }
    }

    private func beginning(of event: Event, at index: Int) -> Int {
        events[..<index].lastIndex {
            $0.kind == .began && $0.actor == event.actor && $0.action == event.action
        } ?? index
    }

    private func isRolledBack(_ actor: String, after index: Int) -> Bool {
        events[index...].contains { $0.isRollBack(of: actor) }
    }

    static func writes(_ verb: [String]) -> Bool {
        ["save", "change", "package", "save-as"].contains(verb.first)
    }

    // MARK: Everything that is listed can be read

    /// When a round has settled, the hub is there and no fault is left, so a device returns the
    /// contents of each file and of each version that it shows.
    private mutating func checkReadability() {
        // The hub was replaced by an older copy of it, or was another one, which exists no longer.
        guard !events.contains(where: \.mayTakeContentsFromHub) else { return }
        for event in events where event.outcome != nil && !event.isOK && event.content == nil {
            switch event.kind {
            case .item, .version: break
            // A read during the round may fail with every error that a fault explains.
            case .did
            where ["read", "hold"].contains(event.verb?.first) && event.outcome == "EIO"
                && event.detail != "excused":
                break
            default: continue
            }
            note(
                .unreadable, event, "\(event.actor) \(event.path ?? "")",
                "\(event.kind) \(event.detail ?? ""): \(event.outcome ?? "")")
        }
    }

    // MARK: Nothing is replaced by somebody who had not seen it

    private mutating func checkLineage() {
        var judge = LineageJudge(events: events)
        judge.run()
        for (event, kind, message) in judge.findings {
            note(kind, event, event.path ?? "", message)
        }
    }

    // MARK: No contents are invented

    private mutating func checkInventions() {
        var written: Set<String> = []
        var unfinished: [String] = []
        // A loss of power leaves files that were created and not synced without their contents.
        var mayBeEmpty = events.contains { $0.kind == .fault && $0.verb == ["lose-power"] }
        for event in events where event.verb.map(Checker.writes) == true {
            if event.kind == .began || event.isOK, let content = event.content {
                written.insert(content)
            }
            if event.kind == .did && event.detail == "excused" {
                unfinished.append(event.writers ?? "")
                mayBeEmpty = true
            }
        }
        for (index, event) in events.enumerated() {
            if event.verb?.first == "hold", isWrittenMeanwhile(event, index) { continue }
            let isSeen =
                event.kind == .item || event.kind == .version
                || (event.kind == .did && event.isOK
                    && ["read", "hold", "visit"].contains(event.verb?.first))
            guard isSeen, let content = event.content, !written.contains(content),
                event.path.map({ Database.isNamed($0) || Database.isLog($0) }) != true
            else { continue }
            if event.detail?.hasPrefix("symlink") == true { continue }
            let writers = event.writers ?? ""
            if events.explainMixture(event) { continue }
            // A program that was killed during its save leaves a part of its contents.
            if mayBeEmpty && ["", "…"].contains(writers) { continue }
            if unfinished.contains(where: { !$0.isEmpty && writers.contains($0) }) { continue }
            if isTornByPowerLoss(writers) { continue }
            note(
                .invented, event, "\(event.actor) \(event.path ?? "")",
                "\(event.kind) \(event.detail ?? "") holds \(writers) (\(content))")
        }
    }

    /// Returns whether it is a part of contents that were written in place, or of those and of what
    /// was there before, and the device lost its power then: the kernel or the daemon may have been
    /// writing.
    private func isTornByPowerLoss(_ writers: String) -> Bool {
        guard writers.hasSuffix("…") else { return false }
        let whole = writers.dropLast()
        let contents = Set(
            events.filter { $0.writers?.hasPrefix(whole) == true }.compactMap(\.content))
        let inPlace = events.indices.filter {
            let event = events[$0]
            return event.kind == .began && event.verb?.first == "change"
                && [event.content, event.base].contains { $0.map(contents.contains) == true }
        }
        return inPlace.contains { index in
            events[index...].contains {
                $0.kind == .fault && $0.verb == ["lose-power"] && $0.actor == events[index].actor
            }
        }
    }

    /// Returns whether the file was written in place during a long read. The reader does not wait
    /// for a writer of the same process.
    private func isWrittenMeanwhile(_ read: Event, _ index: Int) -> Bool {
        for event in events[..<index].reversed() where event.actor == read.actor {
            if event.kind == .began && event.action == read.action { return false }
            let isInPlace = event.verb?.first == "change" || event.verb?.contains("inPlace") == true
            if isInPlace && (event.kind == .began || event.kind == .did) { return true }
        }
        return true
    }

    // MARK: Nobody reads what is not theirs

    /// Contents that a user saved privately were read by no other user, in whatever way.
    private mutating func checkReaders() {
        checkVisitors()
        var savers: [String: (User, UInt16)] = [:]
        for event in events where event.kind == .began {
            guard let content = event.content, let verb = event.verb.flatMap(Verb.init(words:)),
                case .saveAs(let user, _, _, let mode) = verb
            else { continue }
            savers[content] = (user, mode)
        }
        let versions = events.filter { $0.kind == .version }
        let ids = Dictionary(versions.map { ($0.version, $0) }) { one, _ in one }
        for event in events where event.kind == .readBy {
            let told =
                event.version.flatMap { ids[$0] }
                ?? versions.first {
                    event.number != nil && $0.number == event.number
                        && $0.document == event.document && $0.actor == event.actor
                }
            guard let (saver, mode) = (told ?? event).content.flatMap({ savers[$0] }),
                saver.rawValue != event.detail, mode & 0o004 == 0,
                !isMadeCurrentAgain(event)
            else { continue }
            let way = event.verb?.joined(separator: " ") ?? ""
            note(
                .leaked, event, "\(event.actor) \(event.path ?? "")",
                "\(event.detail ?? "") \(told == nil ? "reads" : "knows of") "
                    + "\((told ?? event).writers ?? "") by \(way), which \(saver) saved with mode "
                    + "\(String(mode, radix: 8))")
        }
    }

    /// A hub that comes back from a backup has the links that it had then.
    private mutating func checkVisitors() {
        guard !events.contains(where: { $0.isRollBack(of: "hub") }) else { return }
        for event in events where event.verb?.first == "visit" && event.outcome == "still open" {
            note(
                .leaked, event, "\(event.actor) \(event.path ?? "")",
                "the link still leads to \(event.writers ?? "") after it was revoked")
        }
    }

    /// Returns whether somebody gave files there contents that they had earlier, which then have
    /// the permissions of the present files.
    private func isMadeCurrentAgain(_ read: Event) -> Bool {
        events.contains { event in
            guard event.kind == .began, let path = event.path, event.verb?.first == "rewind" else {
                return false
            }
            return read.path?.hasPrefix(path) == true
        }
    }

    /// Returns the only device that works at the path; nil if several do.
    static func owner(of path: String) -> String? {
        let first = path.prefix { $0 != "/" }
        guard first.hasPrefix("own"), Int(first.dropFirst(3)) != nil else { return nil }
        return "dev\(first.dropFirst(3))"
    }

    // MARK: The trees

    private mutating func checkOwnTrees() {
        let devices = Set(events.map(\.actor)).filter { $0.hasPrefix("dev") }.sorted()
        for device in devices {
            var judge = OwnTreeJudge(device: device, events: events)
            judge.run()
            for (event, kind, message) in judge.findings {
                note(kind, event, event.path ?? device, message)
            }
            guard events.contains(where: { $0.kind == .settled && $0.actor == device }),
                !isRolledBack(device, after: 0)
            else { continue }
            var databases = DatabaseJudge(device: device, events: events)
            databases.run()
            for (event, kind, message) in databases.findings {
                note(kind, event, event.path ?? device, message)
            }
        }
    }

    /// Returns the kind, the mode and the content, by device and path.
    private func trees(_ kind: Event.Kind) -> [String: [String: String]] {
        var trees: [String: [String: String]] = [:]
        for event in events where event.kind == kind {
            let about = "\(event.detail ?? "") \(event.writers ?? "") \(event.content ?? "")"
            trees[event.actor, default: [:]][event.path ?? ""] = about
        }
        return trees
    }

    private mutating func checkEquality() {
        let trees = trees(.item)
        let devices = events.filter { $0.kind == .settled && $0.actor.hasPrefix("dev") }
        guard let first = devices.first, let mine = trees[first.actor] else { return }
        for other in devices.dropFirst() {
            for (path, here, there) in Checker.differences(mine, trees[other.actor] ?? [:])
            where !isUnfinished(path, on: first) && !isUnfinished(path, on: other) {
                note(.tree, first, path, "\(here) on \(first.actor), \(there) on \(other.actor)")
            }
        }
    }

    /// Whether the device says that a loss of power may have left only a part of what was saved
    /// there, or that neither the hub nor the device has its contents. What the device then shows
    /// is sent to no other device until it is saved again.
    private func isUnfinished(_ path: String, on settled: Event) -> Bool {
        let problems = settled.detail ?? ""
        if problems.contains("/\(path) was being saved when the machine stopped") { return true }
        if problems.contains("/\(path): \(DeviceStatus.lost)"),
            events.contains(where: \.mayTakeContentsFromHub)
        {
            return true
        }
        let names = path.split(separator: "/")
        return names.indices.contains { index in
            let package = names[...index].joined(separator: "/")
            return problems.contains("/\(package) has no new version:")
        }
    }

    private mutating func checkWhatIsLeft() {
        let (before, after) = (trees(.item), trees(.left))
        for (device, tree) in after.sorted(by: { $0.key < $1.key }) {
            guard let event = events.first(where: { $0.actor == device }) else { continue }
            for (path, then, now) in Checker.differences(before[device] ?? [:], tree) {
                note(.changed, event, path, "\(then), and later \(now), on \(device)")
            }
        }
    }

    private static func differences(
        _ one: [String: String], _ other: [String: String]
    ) -> [(String, String, String)] {
        Set(one.keys).union(other.keys).sorted().filter { one[$0] != other[$0] }
            .map { ($0, one[$0] ?? "nothing", other[$0] ?? "nothing") }
    }
}
