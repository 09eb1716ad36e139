import Model

/// Decides which opens for writing wait for editors on other devices (`lock=ask`), and for how
/// long. It is a value without clock and I/O, like `LeaseHolder`.
///
/// An editor's lease is waited for once: when a wait for it has ended, for whatever reason, no open
/// of this device waits for it again until it has ended. Otherwise a program that saves every few
/// seconds would wait at each save.
package struct EditWaits: Sendable {
    package enum Event: Hashable, Sendable {
        /// An open of a document wants to wait. `isPatient` is false if it may not.
        case began(UInt64, document: Identifier, isPatient: Bool)
        /// It was interrupted, or its wait was ended by others.
        case ended(UInt64)
        /// The devices on which documents with the policy are edited; none while the hub is not
        /// heard.
        case edited([Identifier: Set<Identifier>])
        /// The time of `wakeTime` has come.
        case woken
    }

    package enum Effect: Hashable, Sendable {
        /// The open goes on. If these devices still edit the document, its program must be told.
        case proceed(UInt64, Identifier, risk: Set<Identifier>)
        /// Ask the other devices to let go of the document, or ask no more.
        case want(Identifier, Bool)
    }

    private struct Wait: Hashable, Sendable {
        var document: Identifier
        var end: Int64
    }

    /// How long an open waits, in nanoseconds.
    private let patience: Int64
    private var editors: [Identifier: Set<Identifier>] = [:]
    /// The editors that were waited for.
    private var passed: [Identifier: Set<Identifier>] = [:]
    private var waits: [UInt64: Wait] = [:]

    package init(patience: Int64) { self.patience = patience }

    /// When `woken` is to be called; nil while nothing waits.
    package var wakeTime: Int64? { waits.values.lazy.map(\.end).min() }

    /// The documents for which opens wait.
    package var wanted: Set<Identifier> { Set(waits.values.lazy.map(\.document)) }

    package mutating func step(_ event: Event, at now: Int64) -> [Effect] {
        let before = wanted
        let effects = react(to: event, at: now)
        let after = wanted
        return effects
            + after.subtracting(before).map { .want($0, true) }
            + before.subtracting(after).map { .want($0, false) }
    }

    private mutating func react(to event: Event, at now: Int64) -> [Effect] {
        switch event {
        case .began(let id, let document, let isPatient):
            let inTheWay = inTheWay(document)
            if inTheWay.isEmpty { return [.proceed(id, document, risk: [])] }
            waits[id] = Wait(document: document, end: now + patience)
            return isPatient ? [] : goOn(with: document)
        case .ended(let id):
            waits[id] = nil
            return []
        case .edited(let new):
            editors = new
            passed = passed.reduce(into: [:]) { kept, next in
                let there = next.value.intersection(new[next.key] ?? [])
                if !there.isEmpty { kept[next.key] = there }
            }
            let free = waits.filter { inTheWay($0.value.document).isEmpty }
            return end(free, risk: [])
        case .woken:
            let over = Set(waits.values.lazy.filter { $0.end <= now }.map(\.document))
            return over.flatMap { goOn(with: $0) }
        }
    }

    /// Lets all opens of a document go on. From then on this device edits it, too, so nothing is
    /// gained if one of them waits longer.
    private mutating func goOn(with document: Identifier) -> [Effect] {
        let risk = inTheWay(document)
        passed[document] = editors[document]
        return end(waits.filter { $0.value.document == document }, risk: risk)
    }

    private func inTheWay(_ document: Identifier) -> Set<Identifier> {
        (editors[document] ?? []).subtracting(passed[document] ?? [])
    }

    private mutating func end(_ over: [UInt64: Wait], risk: Set<Identifier>) -> [Effect] {
        for id in over.keys { waits[id] = nil }
        return over.sorted { $0.key < $1.key }.map {
            .proceed($0.key, $0.value.document, risk: risk)
        }
    }
}
