@testable import chaos

/// A history that is written by hand: what happened on two devices, and what was found at the end.
struct HandWrittenHistory {
    private(set) var events: [Event] = []
    /// The time of the next events.
    var at = 0
    private var number = 0

    mutating func add(
        _ kind: Event.Kind, _ actor: String, _ change: (inout Event) -> Void = { _ in }
    ) {
        var event = Event(kind, actor)
        event.round = 1
        event.at = at
        change(&event)
        events.append(event)
    }

    /// Adds the beginning and the end of a verb.
    mutating func act(
        _ actor: String, _ words: String, content: String? = nil, base: String? = nil,
        outcome: String = "ok", detail: String? = nil
    ) {
        number += 1
        let number = number
        let verb = words.split(separator: " ").map(String.init)
        for kind in [Event.Kind.began, .did] {
            add(kind, actor) {
                ($0.action, $0.verb, $0.path) = (number, verb, verb[1])
                ($0.content, $0.writers, $0.base) = (content, content, base)
                if kind == .did { ($0.outcome, $0.detail) = (outcome, detail) }
            }
        }
    }

    mutating func save(
        _ actor: String, _ path: String, _ content: String, base: String? = nil,
        outcome: String = "ok", detail: String? = nil
    ) {
        act(
            actor, "save \(path) replace 4000 unsynced", content: content, base: base,
            outcome: outcome, detail: detail)
    }

    mutating func found(
        _ actor: String, _ path: String, _ content: String? = nil, _ detail: String = "file 644"
    ) {
        add(.item, actor) {
            ($0.path, $0.content, $0.writers, $0.detail) = (path, content, content, detail)
        }
    }

    mutating func version(
        _ actor: String, _ path: String, _ content: String, _ kind: String = "history",
        parents: [String] = []
    ) {
        add(.version, actor) {
            ($0.path, $0.content, $0.writers, $0.detail) = (path, content, content, kind)
            $0.document = "document of \(path)"
            ($0.version, $0.parents) = (content, parents)
        }
    }

    /// - Parameter problem: What dev0 says about a document of its own.
    mutating func settle(problem: String? = nil) {
        add(.settled, "dev0") { $0.detail = problem }
        add(.settled, "dev1")
    }

    var violations: [Violation.Kind] { Checker.violations(of: events).map(\.kind) }
}
