/// Follows what a device did in its own directory, and compares the answers, the contents that were
/// read, and the final tree with the model.
struct OwnTreeJudge {
    let device: String
    let root: String
    private let events: [Event]
    private var tree = OwnTree()
    private var timeline = ContentTimeline()
    /// Whether items that came back make the expected state unknown.
    private var isUnknown = false
    /// Every content that a program saved here so far.
    private var saved: Set<String> = []
    private(set) var findings: [(Event, Violation.Kind, String)] = []

    init(device: String, events: [Event]) {
        self.device = device
        self.events = events
        root = "own" + device.dropFirst(3)
    }

    mutating func run() {
        // A directory that was never created is not missing.
        guard events.contains(where: { $0.actor == device && concerns($0) }) else { return }
        for event in events where event.actor == device && concerns(event) {
            // After a rollback or a loss of power the state is not known.
            if rollBack.map({ event.at >= $0 }) == true { return }
            switch event.kind {
            case .did: follow(event)
            case .observed: see(event)
            default: break
            }
            if isUnknown { return }
        }
        if events.contains(where: { $0.kind == .settled && $0.actor == device }) { compare() }
    }

    private var rollBack: Int? {
        events.first { $0.losesState(of: device) }?.at
    }

    private func mayHaveReturned(by event: Event? = nil) -> Bool {
        events.contains { $0.mayReturnItems(to: device) && $0.at <= event?.at ?? .max }
    }

    /// Returns whether an item that came back explains this answer.
    private func isOfReturned(_ event: Event, _ answer: OwnTree.Answer) -> Bool {
        let isExplained =
            switch answer {
            case .ok: ["EEXIST", "ENOTEMPTY", "EISDIR", "ENOTDIR"].contains(event.outcome)
            case .refused(let code): code == "ENOENT"
            }
        return isExplained && mayHaveReturned(by: event)
    }

    /// Returns whether the item, or a directory above it, has its name with a mark in the end,
    /// because an item that came back has the name.
    private func hasMark(_ path: String) -> Bool {
        events.contains { event in
            guard event.kind == .item, event.actor == device, let found = event.path,
                found.unmarked != found
            else { return false }
            return (path + "/").hasPrefix(found.unmarked + "/")
        }
    }

    private func concerns(_ event: Event) -> Bool {
        event.path?.hasPrefix(root + "/") == true || event.path == root
    }

    private mutating func see(_ event: Event) {
        // What was observed of a rewind is judged with it.
        if event.verb?.first == "rewind" { return }
        observe(event)
        timeline.forget(event.path ?? "")
    }

    /// The contents of a database are judged by its rows, because a log may be written into it
    /// later.
    private mutating func observe(_ event: Event) {
        let path = event.path ?? ""
        let content = Database.isNamed(path) ? nil : event.content
        tree.observe(path, event.detail ?? "", content)
    }

    private mutating func follow(_ event: Event) {
        guard let words = event.verb, let verb = Verb(words: words) else { return }
        if let content = event.content, Checker.writes(words) { saved.insert(content) }
        // Which of the two the program had before it is not known.
        if verb.paths.contains(where: hasMark), mayHaveReturned(by: event) {
            isUnknown = true
            return
        }
        if case .rewind(let path, let seconds) = verb { return rewind(event, path, seconds) }
        timeline.follow(event, verb, began: beginning(of: event))
        // POSIX does not say when the product's own tools may refuse; `hold` reads in parallel with
        // others, and a link shows what the hub has by then.
        switch verb {
        case .hold, .visit: return
        case .wait, .restore, .evict, .pin, .unpin, .purge: if !event.isOK { return }
        default: break
        }
        let before = tree
        let answer = tree.apply(verb, content: event.content)
        let outcome = event.outcome ?? ""
        switch answer {
        case .ok where event.isOK: checkContent(event, verb, before)
        case .refused(let code) where code == outcome: break
        case _ where isOfReturned(event, answer): isUnknown = true
        case .ok:
            tree = before
            // `excused` means that a fault explains the failure; the state was observed afterwards.
            if event.detail != "excused" {
                let what = "\(words.joined(separator: " ")): \(outcome) \(event.detail ?? "")"
                findings.append((event, .told, what))
            }
        case .refused(let code):
            if event.detail != "excused" {
                findings.append(
                    (event, .told, "\(words.joined(separator: " ")): \(outcome), not \(code)"))
            }
        }
    }

    private mutating func checkContent(_ event: Event, _ verb: Verb, _ before: OwnTree) {
        let path = event.path ?? ""
        switch verb {
        case .read:
            guard case .some(.some(let expected)) = before.content(path),
                event.content != expected
            else { return }
            findings.append(
                (event, .told, "\(device) reads \(event.writers ?? ""), not \(expected)"))
        case .restore:
            // Whether other names of the file change with it is the product's choice.
            tree.put(path, event.content)
        default: break
        }
    }

    private func beginning(of event: Event) -> Int {
        events.first { $0.kind == .began && $0.actor == device && $0.action == event.action }?.at
            ?? event.at
    }

    // MARK: Rewinding

    /// The difference between the time of a save and the time at which the program was seen to make
    /// it, in milliseconds.
    private static let accuracy = 150

    /// A rewind removes nothing, invents nothing, and gives a file the contents that it had then.
    private mutating func rewind(_ event: Event, _ root: String, _ seconds: Int) {
        let seen = events.filter {
            $0.kind == .observed && $0.actor == device && $0.action == event.action
                && $0.verb?.first == "rewind"
        }
        guard let first = seen.first else { return }
        let kinds = Dictionary(
            seen.map { ($0.path ?? "", $0.detail ?? "") }, uniquingKeysWith: { $1 })
        let known = tree.nodes.keys.filter { $0 == root || $0.hasPrefix(root + "/") }
        let isQuiet = event.isOK && event.detail != "excused"
        let missing = known.filter { kinds[$0] ?? "nothing" == "nothing" }.sorted()
        if missing.contains(where: hasMark), mayHaveReturned(by: event) {
            isUnknown = true
            return
        }
        for path in missing {
            if isQuiet { findings.append((event, .tree, "the rewind removed \(path)")) }
            tree.observe(path, "nothing", nil)
        }
        let start = beginning(of: event) - seconds * 1_000 - OwnTreeJudge.accuracy
        let end = first.at - seconds * 1_000 + OwnTreeJudge.accuracy
        // With a wrong clock it is not known which time was meant.
        let isClockRight = !events.contains { $0.setsClock(of: device) && $0.at <= event.at }
        for found in seen where found.detail != "nothing" {
            let path = found.path ?? ""
            if isQuiet, ["file", "package"].contains(found.detail), !Database.isNamed(path),
                let content = found.content
            {
                let expected = timeline.contents(of: path, from: start, to: end)
                check(found, content, isClockRight ? expected : nil, event)
            }
            if tree.content(path) != .some(found.content) { timeline.forget(path) }
            observe(found)
        }
    }

    private mutating func check(
        _ found: Event, _ content: String, _ expected: Set<String>?, _ event: Event
    ) {
        let path = found.path ?? ""
        if events.explainMixture(found) { return }
        let isKnown = saved.contains(content) || tree.content(path) == .some(content)
        if !isKnown {
            findings.append(
                (event, .told, "after the rewind \(path) holds \(found.writers ?? content)"))
        } else if let expected, !expected.contains(content) {
            let writers = expected.map { writer(of: $0) }.sorted().joined(separator: " or ")
            findings.append(
                (
                    event, .told,
                    "after the rewind \(path) holds \(found.writers ?? content), not \(writers)"
                ))
        }
    }

    private mutating func compare() {
        var found: [String: (String, String?, Event)] = [:]
        for event in events where event.kind == .item && event.actor == device {
            guard let path = event.path, concerns(event) else { continue }
            let kind = String((event.detail ?? "").prefix { $0 != " " })
            found[path] = (kind, event.content, event)
        }
        guard let anchor = events.first(where: { $0.actor == device }) else { return }
        let mayHaveReturned = mayHaveReturned()
        for path in Set(found.keys).union(tree.nodes.keys).sorted() where path != "" {
            let (expected, content) = expectation(path)
            let seen = found[path]
            // Whether a file may be unreadable is judged elsewhere (`checkReadability`).
            let isUnreadable = seen.map { $0.1 == nil && $0.2.outcome != nil && !$0.2.isOK }
            let isSame =
                expected == (seen?.0 ?? "nothing")
                && (content == nil || content == seen?.1 || isUnreadable ?? false)
            if isSame || (expected == "nothing" && mayHaveReturned) { continue }
            if mayHaveReturned, isInConflict(content, at: path, with: seen?.1) { continue }
            // If an item that came back has the name, this one has the name with a mark.
            let hasMark =
                mayHaveReturned
                && found.contains {
                    $0.key != path && $0.key.unmarked == path && $0.value.0 == expected
                        && (content == nil || content == $0.value.1)
                }
            if hasMark { continue }
            var event = seen?.2 ?? anchor
            event.path = path
            findings.append(
                (
                    event, .tree,
                    "\(device), which alone worked there, has \(seen?.0 ?? "nothing") "
                        + "\(seen?.2.writers ?? ""), not \(expected) \(writer(of: content))"
                ))
        }
    }

    /// Returns whether both contents are versions of one document, and the expected one is in
    /// conflict: a copy of the device, or what came back, is as good as another device there.
    private func isInConflict(_ content: String?, at path: String, with seen: String?) -> Bool {
        guard let content, let seen else { return false }
        let versions = events.filter {
            $0.kind == .version && $0.actor == device && $0.path == path
        }
        return versions.contains { version in
            version.content == content && version.detail == "conflict"
                && versions.contains {
                    $0.content == seen && $0.document == version.document
                        && $0.detail == "current"
                }
        }
    }

    private func expectation(_ path: String) -> (String, String?) {
        switch tree.nodes[path] {
        case nil: ("nothing", nil)
        case .directory: ("directory", nil)
        case .symlink(let target): ("symlink", target)
        case .file: ("file", tree.content(path) ?? nil)
        case .package: ("package", tree.content(path) ?? nil)
        }
    }

    private func writer(of content: String?) -> String {
        let event = events.first { $0.content == content && $0.writers != nil }
        return content == nil ? "" : event?.writers ?? content ?? ""
    }
}
