import CLinux
import Coordination
import HubProtocol
import Journal
import Logging
import Model
import Volume

/// Asks the hub for the documents that only one device may edit (`lock=hard`), and tells it when
/// they are not needed any more. `GrantHolder` decides when; one thread carries it out, which
/// sleeps while nobody writes such a document. What it learns is in the volume's `DocumentGrants`.
final class GrantExchange: EnginePart, @unchecked Sendable {
    /// A document that the journal has as granted.
    private struct Held {
        var token: UInt64
        /// Whether the device may begin to edit it.
        var isValid: Bool
        /// Until when it is waited for what the hub had when it granted the document; nil if that
        /// is in the tree.
        var arrivalEnd: Int64?
        /// Since when no program writes it.
        var closed: Int64?
    }

    // What the thread has to do. Guarded by `signal`, at which it waits.

    private let signal = Signal()
    private var mustLook = true
    private var hasBeat = false
    private var isEnding = false
    private var isRunning = false
    /// Whether heartbeats, and the ends of the engine's rounds, matter to the thread.
    private var mindsBeats = false
    private var mindsRounds = false

    // Only the thread uses these.

    private var holder = GrantHolder(
        reliance: GrantTimes.shortened.map { $0 / 4 * 3 } ?? LeaseTerms.reliance)
    private var held: [Identifier: Held] = [:]
    /// Who has the documents that were refused.
    private var others: [Identifier: OpenElsewhere] = [:]
    /// What is edited here and was asked for since the last heartbeat.
    private var tried: Set<Identifier> = []

    let parts: EngineParts

    init(_ parts: EngineParts) { self.parts = parts }

    private var grants: DocumentGrants { volume.openDocuments.guarded.grants }

    /// How long an open waits for a newer version that is on its way, in nanoseconds.
    private static let arrival: Int64 = 15_000_000_000
    /// How long a document stays granted after it was closed, if its last save cannot be sent.
    private static let sending: Int64 = 900_000_000_000
    /// How often it is looked whether a save was sent, if no round of the engine says so.
    private static let pause: Int64 = 1_000_000_000

    // MARK: Any thread

    func start() {
        grants.changed.set { [weak self] in
            guard let self else { return }
            signal.change { mustLook = true }
        }
        grants.beginServing()
        signal.change { isRunning = true }
        startThread(named: "grants") { [self] in
            run()
            signal.change { isRunning = false }
        }
    }

    /// Ends the grants of what was sent, but does not wait for the hub for long.
    func stop() {
        grants.changed.set(nil)
        signal.change { isEnding = true }
        let patience = cl_clock_monotonic_ns() + GrantExchange.patience
        _ = signal.wait(until: patience) { !isRunning }
    }

    private static let patience: Int64 = 2_000_000_000

    /// To be called when the hub's feed has begun or has sent its heartbeat.
    func beat() {
        guard signal.look({ mindsBeats }) else { return }
        signal.change { hasBeat = true }
    }

    /// To be called when the engine has sent and applied what it could.
    func roundEnded() {
        guard signal.look({ mindsRounds }) else { return }
        signal.change { mustLook = true }
    }

    // MARK: The thread

    private func run() {
        resumeFormer()
        while let beats = next() {
            if beats {
                tried = []
                perform(holder.step(.beat, at: now))
            }
            if let due = holder.wakeTime, due <= now { perform(holder.step(.woken, at: now)) }
            takeWanted()
            takeEdited()
            publish()
            releaseSent()
            signal.look {
                (mindsBeats, mindsRounds) = (holder.hasEntries || !tried.isEmpty, isWaiting)
            }
        }
        end()
    }

    /// This clock also runs while the machine is suspended.
    private var now: Int64 { cl_clock_boottime_ns() }

    private var isWaiting: Bool {
        held.values.contains { $0.arrivalEnd != nil || $0.closed != nil }
    }

    /// Waits for something to do. Returns whether there was a heartbeat; nil at the end.
    private func next() -> Bool? {
        let (now, later) = (now, now + GrantExchange.pause)
        let again = held.values.lazy.compactMap { held -> Int64? in
            if held.arrivalEnd != nil { return later }
            guard let settled = held.closed.map({ $0 + LeaseTerms.settling }) else { return nil }
            return settled > now ? settled : later
        }.min()
        let due = min(holder.wakeTime ?? .max, again ?? .max)
        let time = due == .max ? .max / 2 : cl_clock_monotonic_ns() + max(0, due - now)
        _ = signal.wait(until: time) { mustLook || hasBeat || isEnding }
        return signal.look {
            defer { (mustLook, hasBeat) = (false, false) }
            return isEnding ? nil : hasBeat
        }
    }

    /// Goes on with what an earlier process of the device had.
    private func resumeFormer() {
        do throws(VolumeError) {
            for (item, token) in try volume.journal.read({ try $0.hub.grants() }) {
                held[item] = Held(token: token, isValid: false)
                perform(holder.step(.resumed(item, token: token), at: now))
            }
        } catch {
            log.error("the documents that this device edited alone are not known: \(error)")
        }
    }

    /// Asks for the documents that programs want.
    private func takeWanted() {
        let (isOffline, maySend) = state.withLock { ($0.isOffline, $0.standing.maySend) }
        for document in grants.wanted.waiting where held[document]?.arrivalEnd == nil {
            if isOffline {
                grants.refuse(document, .offline)
            } else if !maySend {
                grants.refuse(document, .reader)
            } else {
                take(document)
                // What an earlier process had is asked for first. It may be lost.
                if grants.wanted.waiting.contains(document) { take(document) }
            }
        }
    }

    private func take(_ document: Identifier) {
        guard holder.token(for: document, at: now) == nil else { return }
        perform(holder.step(.wanted(document, true), at: now))
    }

    /// Asks for what programs edit without having it open, so that others do not write it. Nothing
    /// waits for the answer.
    private func takeEdited() {
        let wanted = grants.wanted
        tried.formIntersection(wanted.edited)
        guard state.withLock({ !$0.isOffline && $0.standing.maySend }) else { return }
        for document in wanted.edited.subtracting(wanted.written)
        where held[document] == nil && tried.insert(document).inserted {
            guard (try? volume.openDocuments.mustBeGranted(document)) == true else { continue }
            perform(holder.step(.wanted(document, true), at: now))
        }
    }

    private func perform(_ effects: [GrantHolder.Effect]) {
        var effects = effects
        while !effects.isEmpty {
            var steps: [GrantRequest.Step] = []
            for effect in effects {
                switch effect {
                case .take(let number, let item):
                    steps.append(.init(.take, item, number: number))
                case .resume(let number, let item, let token):
                    steps.append(.init(.resume, item, number: number, token: token))
                case .renew(let number, let item, let token):
                    steps.append(.init(.renew, item, number: number, token: token))
                case .release(let number, let item, let token):
                    steps.append(.init(.release, item, number: number, token: token))
                case .gained(let item, let token): gain(item, token)
                case .refused(let item): grants.refuse(item, .elsewhere(others[item]))
                case .lost(let item, _): lose(item)
                }
            }
            effects = []
            for start in stride(from: 0, to: steps.count, by: HubLimits.grants) {
                effects += ask(Array(steps[start...].prefix(HubLimits.grants)))
            }
        }
    }

    private func ask(_ steps: [GrantRequest.Step]) -> [GrantHolder.Effect] {
        do throws(HubFault) {
            let seconds = signal.look { isEnding } ? 1 : GrantExchange.seconds
            let answer = try client.ask(
                journal.account.volume, GrantRequest(steps: steps), seconds: seconds)
            var effects: [GrantHolder.Effect] = []
            for (step, result) in zip(steps, answer.results) where step.kind != .release {
                others[step.item] = OpenElsewhere(result, of: step.item)
                effects += holder.step(.answered(result.number, token: result.token), at: now)
            }
            return effects
        } catch {
            log.debug("the hub was not asked who may edit documents: \(error)")
            var effects: [GrantHolder.Effect] = []
            for step in steps where step.kind != .release {
                effects += holder.step(.failed(step.number), at: now)
                if step.kind == .take {
                    effects += holder.step(.wanted(step.item, false), at: now)
                }
                grants.refuse(step.item, .offline)
            }
            return effects
        }
    }

    private static let seconds: Int64 = 5

    private func gain(_ item: Identifier, _ token: UInt64) {
        do throws(VolumeError) {
            // Before any program may write it, so that each save carries the token.
            if held[item]?.token != token {
                try volume.journal.write { try GrantRows.set(token, of: item, $0) }
            }
            held[item] = Held(
                token: token, isValid: true, arrivalEnd: now + GrantExchange.arrival)
            // The token is a position of the hub's journal: what is before it must be here.
            state.withLock { state in
                state.head = max(state.head, token)
                state.isUrgent = true
            }
            threads.poke()
        } catch {
            log.error("a document cannot be edited alone: \(error)")
            perform(holder.step(.wanted(item, false), at: now))
            grants.refuse(item, .offline)
        }
    }

    private func lose(_ item: Identifier) {
        held[item]?.isValid = false
        held[item]?.arrivalEnd = nil
        grants.lose(item)
        log.notice(
            "another device may edit a document now that programs here have open",
            metadata: ["item": "\(item)"])
    }

    /// Lets programs go on whose document is here as the hub has it.
    private func publish() {
        for (item, known) in held where known.isValid {
            if let end = known.arrivalEnd {
                guard state.withLock({ $0.cursor >= known.token }), !isDue(item) else {
                    if now >= end { grants.refuse(item, .arriving) }
                    let isLate = now >= end - GrantExchange.arrival + GrantExchange.pause
                    if isLate || isDue(item) {
                        grants.refuse(item, .arriving, onlyImpatient: true)
                    }
                    continue
                }
                held[item]?.arrivalEnd = nil
            }
            if let end = holder.end(of: item, at: now) { grants.grant(item, until: end) }
        }
    }

    /// Whether the tree may not have what the hub has sent of a document.
    private func isDue(_ document: Identifier) -> Bool {
        do throws(VolumeError) {
            let mirror = try volume.journal.read { try $0.hub.mirror(document) }
            return [.due, .underway, .stuck].contains(mirror?.state)
        } catch {
            return true
        }
    }

    /// Ends the grants of the documents that no program writes any more, and whose saves the hub
    /// has: the next one would otherwise begin with older contents.
    private func releaseSent() {
        let wanted = grants.wanted
        for (item, known) in held {
            let isEdited = known.isValid && wanted.edited.contains(item)
            guard !wanted.waiting.contains(item), !wanted.written.contains(item), !isEdited else {
                held[item]?.closed = nil
                continue
            }
            let closed = known.closed ?? now
            held[item]?.closed = closed
            // Programs that save often open the document again at once.
            guard now >= closed + LeaseTerms.settling, isSent(item, since: closed) else { continue }
            release(item, known)
        }
    }

    private func isSent(_ item: Identifier, since closed: Int64) -> Bool {
        if now >= closed + GrantExchange.sending { return true }
        // What was changed before the last stop is not known yet.
        guard !volume.scan.isRunning else { return false }
        let mirror = try? volume.journal.read { try $0.hub.mirror(item) }
        return mirror?.state == .refused
            || !volume.openDocuments.isUnsent(item)
    }

    private func release(_ item: Identifier, _ known: Held) {
        guard grants.giveUp(item) || !known.isValid else { return }
        held[item] = nil
        perform(holder.step(.wanted(item, false), at: now))
        try? volume.journal.write { try GrantRows.remove(known.token, of: item, $0) }
    }

    /// What was not sent stays granted until the hub's time for it is over, and its token stays in
    /// the journal.
    private func end() {
        grants.endServing()
        for (item, known) in held {
            grants.lose(item)
            if known.isValid, isSent(item, since: now) { release(item, known) }
        }
    }
}

extension OpenElsewhere {
    fileprivate init?(_ result: GrantAnswer.Result, of item: Identifier) {
        guard let device = result.device else { return nil }
        self.init(
            document: item, device: device, deviceName: result.deviceName ?? "",
            user: result.user ?? "", use: .edits, since: cl_clock_realtime_ns())
    }
}
