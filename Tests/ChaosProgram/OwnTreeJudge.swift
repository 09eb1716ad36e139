/// Follows what a device did in its own directory, and compares the answers, the contents that were
/// read, and the final tree with the model.
struct OwnTreeJudge {
    let device: String
    let root: String
    private let events: [Event]
    private var tree = OwnTree()
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
            // After a rollback the state is not known.
            if rollBack.map({ event.at >= $0 }) == true { return }
            switch event.kind {
            case .did: follow(event)
            case .observed: see(event)
            default: break
            }
        }
        if events.contains(where: { $0.kind == .settled && $0.actor == device }) { compare() }
    }

    private var rollBack: Int? {
        events.first { $0.kind == .fault && $0.actor == device && $0.verb == ["roll-back"] }?.at
    }

    private var hubIsRolledBack: Bool {
        events.contains { $0.kind == .fault && $0.actor == "hub" && $0.verb == ["roll-back"] }
    }

    private func concerns(_ event: Event) -> Bool {
        event.path?.hasPrefix(root + "/") == true || event.path == root
    }

    private mutating func see(_ event: Event) {
        tree.observe(event.path ?? "", event.detail ?? "", event.content)
    }

    private mutating func follow(_ event: Event) {
        guard let words = event.verb, let verb = Verb(words: words) else { return }
        // POSIX does not say when the product's own tools may refuse; `hold` reads in parallel with
        // others.
        switch verb {
        case .hold: return
        case .wait, .restore, .evict, .pin, .unpin: if !event.isOK { return }
        default: break
        }
        let before = tree
        let answer = tree.apply(verb, content: event.content)
        let outcome = event.outcome ?? ""
        switch answer {
        case .ok where event.isOK: checkContent(event, verb, before)
        case .refused(let code) where code == outcome: break
        case .ok:
            tree = before
            // `excused` means that a fault explains the failure; the state was observed afterwards.
            if event.detail != "excused" {
                findings.append((event, .told, "\(words.joined(separator: " ")): \(outcome)"))
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

    private mutating func compare() {
        var found: [String: (String, String?, Event)] = [:]
        for event in events where event.kind == .item && event.actor == device {
            guard let path = event.path, concerns(event) else { continue }
            let kind = String((event.detail ?? "").prefix { $0 != " " })
            found[path] = (kind, event.content, event)
        }
        guard let anchor = events.first(where: { $0.actor == device }) else { return }
        for path in Set(found.keys).union(tree.nodes.keys).sorted() where path != "" {
            let (expected, content) = expectation(path)
            let seen = found[path]
            let isSame =
                expected == (seen?.0 ?? "nothing")
                && (content == nil || content == seen?.1)
            // A restored hub infers no deletion, so items that were deleted since may come back.
            if isSame || (expected == "nothing" && hubIsRolledBack) { continue }
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

    private func expectation(_ path: String) -> (String, String?) {
        switch tree.nodes[path] {
        case nil: ("nothing", nil)
        case .directory: ("directory", nil)
        case .symlink(let target): ("symlink", target)
        case .file: ("file", tree.content(path) ?? nil)
        }
    }

    private func writer(of content: String?) -> String {
        let event = events.first { $0.content == content && $0.writers != nil }
        return content == nil ? "" : event?.writers ?? content ?? ""
    }
}
