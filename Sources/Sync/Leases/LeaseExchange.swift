import CLinux
import Coordination
import HubProtocol
import Logging
import Model
import Volume

/// Tells the hub which documents programs on this device have open, and asks it which ones others
/// have. `LeaseHolder` and `LeaseView` decide when; one thread carries it out, which sleeps while
/// nothing is open. What it learns is in the volume's `OpenDocuments`.
final class LeaseExchange: EnginePart, @unchecked Sendable {
    // What the thread has to do. Guarded by `signal`, at which it waits.

    private let signal = Signal()
    private var mustLook = true
    private var hasBeat = false
    private var hinted: UInt64?
    private var isEnding = false
    private var isRunning = false
    /// Whether the hub is heard: whether a feed has begun and has not ended.
    private var isHeard = false
    /// Whether the end of a round of the engine matters to the thread.
    private var mindsRounds = false
    private var haveRulesChanged = false
    /// `isHeard`, as the thread knows it.
    private var wasHeard = false
    /// Whether heartbeats and revisions of 0 matter to the thread.
    private var mindsBeats = false
    private var mindsNone = false

    // Only the thread uses these.

    private var holder = LeaseHolder()
    private var view = LeaseView<OpenElsewhere>()
    private var wasTold = false

    let parts: EngineParts
    private let locked: LockedDocuments

    init(_ parts: EngineParts) {
        self.parts = parts
        locked = LockedDocuments(parts)
    }

    // MARK: Any thread

    func start() {
        volume.openDocuments.changed.set { [weak self] in
            guard let self else { return }
            signal.change { mustLook = true }
        }
        // At once, because programs may already open documents.
        _ = locked.haveRulesChanged()
        locked.readRules()
        signal.change { isRunning = true }
        startThread(named: "leases") { [self] in
            run()
            signal.change { isRunning = false }
        }
    }

    /// Tells the hub that nothing is open on this device any more, but does not wait for it long.
    func stop() {
        volume.openDocuments.changed.set(nil)
        locked.forgetRules()
        signal.change { isEnding = true }
        let patience = cl_clock_monotonic_ns() + LeaseExchange.patience
        _ = signal.wait(until: patience) { !isRunning }
    }

    private static let patience: Int64 = 2_000_000_000

    /// Takes a hint of the hub.
    ///
    /// - Parameter isFirst: Whether the feed has just begun.
    func take(_ hint: Hint, isFirst: Bool) {
        let isBeat = isFirst || hint.beat != nil
        let matters = signal.look {
            isBeat && mindsBeats || (hint.leases.map { $0 != 0 || mindsNone } ?? false)
        }
        guard matters || isFirst else { return }
        signal.change {
            isHeard = true
            hasBeat = hasBeat || isBeat
            hinted = hint.leases ?? hinted
        }
    }

    /// To be called when the hub's feed has ended.
    func feedEnded() {
        signal.change { isHeard = false }
    }

    /// To be called when the engine has sent and applied what it could.
    func roundEnded() {
        let haveChanged = locked.haveRulesChanged()
        guard haveChanged || signal.look({ mindsRounds }) else { return }
        signal.change {
            haveRulesChanged = haveRulesChanged || haveChanged
            mustLook = true
        }
    }

    // MARK: The thread

    private func run() {
        while let work = next() {
            if work.readsRules { locked.readRules() }
            if work.looks || locked.isWaiting { perform(holder.step(.changed, at: now)) }
            if work.beats { perform(holder.step(.beat, at: now)) }
            if let revision = work.hinted { perform(view.step(.hinted(revision), at: now)) }
            if let due = holder.wakeTime, due <= now { perform(holder.step(.woken, at: now)) }
            if let due = view.wakeTime, due <= now { perform(view.step(.woken, at: now)) }
            locked.publish(volume.openDocuments.elsewhere, isHeard: work.isHeard && !isOffline)
            signal.look {
                (mindsBeats, mindsNone) = (holder.hasLeases, !view.ignores(0))
                (mindsRounds, wasHeard) = (locked.isWaiting, work.isHeard)
            }
        }
        perform(holder.step(.ended, at: now))
        locked.publish([], isHeard: false)
        volume.openDocuments.setElsewhere([], until: .min)
        volume.openDocuments.setHeld([], until: .min)
    }

    /// This clock also runs while the machine is suspended.
    private var now: Int64 { cl_clock_boottime_ns() }

    private var isOffline: Bool { state.withLock { $0.isOffline } }

    private struct Work {
        var looks: Bool
        var beats: Bool
        var hinted: UInt64?
        var readsRules: Bool
        var isHeard: Bool
    }

    /// Waits for something to do. Returns nil at the end.
    private func next() -> Work? {
        let again = locked.isWaiting ? now + LeaseTerms.pause : .max
        let due = min(holder.wakeTime ?? .max, view.wakeTime ?? .max, again)
        let time = due == .max ? .max / 2 : cl_clock_monotonic_ns() + max(0, due - now)
        _ = signal.wait(until: time) {
            mustLook || hasBeat || hinted != nil || isEnding || isHeard != wasHeard
        }
        return signal.look {
            defer { (mustLook, hasBeat, hinted, haveRulesChanged) = (false, false, nil, false) }
            return isEnding
                ? nil
                : Work(
                    looks: mustLook, beats: hasBeat, hinted: hinted, readsRules: haveRulesChanged,
                    isHeard: isHeard)
        }
    }

    private func perform(_ effects: [LeaseHolder.Effect]) {
        for effect in effects {
            switch effect {
            case .look:
                do throws(VolumeError) {
                    var open = try volume.openDocuments.look(limit: HubLimits.leases)
                    tellEdited(open)
                    locked.keep(in: &open)
                    perform(holder.step(.looked(open), at: now))
                } catch {
                    log.debug("it is not known what is open: \(error)")
                    perform(holder.step(.looked([:]), at: now))
                }
            case .tell(let number, let documents):
                perform(holder.step(tell(number, documents), at: now))
            }
        }
        publishHeld()
    }

    private func tellEdited(_ open: [Identifier: DocumentUse]) {
        let grants = volume.openDocuments.guarded.grants
        let edited = grants.isAny ? open.filter { $0.value == .edits } : [:]
        grants.setEdited(Set(edited.keys))
    }

    private func tell(_ number: UInt64, _ documents: [LeaseHolder.Document]) -> LeaseHolder.Event {
        let maySend = state.withLock { $0.standing.maySend }
        guard !isOffline else { return .failed(number) }
        let request = LeaseRequest(
            number: number,
            documents: documents.map {
                LeaseRequest.Document(
                    item: $0.id, use: maySend ? $0.use : .shows, age: max(0, $0.age))
            })
        do throws(HubFault) {
            let seconds = signal.look { isEnding } ? LeaseExchange.lastSeconds : 5
            try client.tell(journal.account.volume, request, seconds: seconds)
            return .told(number)
        } catch {
            log.debug("the hub was not told what is open: \(error)")
            return .failed(number)
        }
    }

    private static let lastSeconds: Int64 = 1

    private func perform(_ effects: [LeaseView<OpenElsewhere>.Effect]) {
        for effect in effects {
            switch effect {
            case .changed: volume.openDocuments.setElsewhere(view.leases, until: view.end)
            case .fetch: perform(view.step(fetch(), at: now))
            }
        }
    }

    private func fetch() -> LeaseView<OpenElsewhere>.Event {
        guard !isOffline else { return .failed }
        do throws(HubFault) {
            let answer = try client.leases(journal.account.volume)
            let time = cl_clock_realtime_ns()
            let leases = answer.leases.map { lease in
                OpenElsewhere(
                    document: lease.item, device: lease.device, deviceName: lease.deviceName,
                    user: lease.user, use: lease.use, since: time - lease.age)
            }
            return .fetched(leases, revision: answer.revision)
        } catch {
            log.debug("the hub was not asked what others have open: \(error)")
            return .failed
        }
    }

    private func publishHeld() {
        let (now, time) = (now, cl_clock_realtime_ns())
        let held = holder.heldDocuments(at: now).map { document in
            OpenDocuments.Held(
                document: document.id, use: document.use, since: time - document.age)
        }
        guard !held.isEmpty || wasTold else { return }
        wasTold = !held.isEmpty
        volume.openDocuments.setHeld(held, until: holder.relianceEnd)
    }
}
