import CLinux
import Coordination
import Model
import Synchronization
import Volume

/// The opens for writing that wait until another device has let go of their document. `EditWaits`
/// decides; this carries it out.
final class EditorWaits: Sendable {
    /// Called once, without a lock, with the devices that still edit the document. It must be
    /// quick.
    typealias GoOn = @Sendable (_ risk: [OpenElsewhere]) -> Void

    private struct State {
        var waits: EditWaits
        var last: UInt64 = 0
        var opens: [UInt64: GoOn] = [:]
    }

    private let guarded: GuardedDocuments
    private let arbitration: Arbitration
    private let state: Mutex<State>

    init(_ guarded: GuardedDocuments, _ arbitration: Arbitration) {
        (self.guarded, self.arbitration) = (guarded, arbitration)
        let patience = Timestamp.span(seconds: arbitration.settings.editorTimeout)
        state = Mutex(State(waits: EditWaits(patience: patience)))
        guarded.changed.set { [weak self] in self?.step(nil) }
    }

    /// Begins a wait, which may be over at once. Returns its number, for `end`.
    func begin(_ document: Identifier, isPatient: Bool, _ goOn: @escaping GoOn) -> UInt64 {
        let number = state.withLock { state in
            state.last += 1
            state.opens[state.last] = goOn
            return state.last
        }
        step(.began(number, document: document, isPatient: isPatient))
        if state.withLock({ $0.opens[number] != nil }) {
            arbitration.timers.after(seconds: arbitration.settings.editorTimeout) { [weak self] in
                self?.step(.woken)
            }
        }
        return number
    }

    /// Ends a wait, if it is not over yet.
    func end(_ number: UInt64) {
        step(.ended(number))
        state.withLock { _ = $0.opens.removeValue(forKey: number) }
    }

    /// The document is still wanted until its program has surely opened it, so that others do not
    /// believe for a moment that nobody wants it.
    private func wantNoMore(_ document: Identifier) {
        arbitration.timers.after(seconds: 1) { [weak self] in
            self?.state.withLock { [guarded = self?.guarded] state in
                if !state.waits.wanted.contains(document) { guarded?.want(document, false) }
            }
        }
    }

    /// Takes over the editors, and then the event.
    private func step(_ event: EditWaits.Event?) {
        let ready = state.withLock { state -> [(GoOn, [OpenElsewhere])] in
            let (editors, now) = (guarded.editors, cl_clock_monotonic_ns())
            let devices = editors.mapValues { Set($0.map(\.device)) }
            var effects = state.waits.step(.edited(devices), at: now)
            if let event { effects += state.waits.step(event, at: now) }
            return effects.compactMap { effect in
                switch effect {
                case .want(let document, let isWanted):
                    if isWanted { guarded.want(document, true) } else { wantNoMore(document) }
                    return nil
                case .proceed(let number, let document, let risk):
                    let known = editors[document] ?? []
                    return state.opens.removeValue(forKey: number).map { goOn in
                        (goOn, known.filter { risk.contains($0.device) })
                    }
                }
            }
        }
        for (goOn, risk) in ready { goOn(risk) }
    }
}
