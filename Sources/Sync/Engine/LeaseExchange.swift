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
    /// Whether heartbeats and revisions of 0 matter to the thread.
    private var mindsBeats = false
    private var mindsNone = false

    // Only the thread uses these.

    private var holder = LeaseHolder()
    private var view = LeaseView<OpenElsewhere>()
    private var wasTold = false

    let parts: EngineParts

    init(_ parts: EngineParts) { self.parts = parts }

    // MARK: Any thread

    func start() {
        volume.openDocuments.changed.set { [weak self] in
            guard let self else { return }
            signal.change { mustLook = true }
        }
        signal.change { isRunning = true }
        startThread(named: "leases") { [self] in
            run()
            signal.change { isRunning = false }
        }
    }

    /// Tells the hub that nothing is open on this device any more, but does not wait for it long.
    func stop() {
        volume.openDocuments.changed.set(nil)
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
        guard matters else { return }
        signal.change {
            hasBeat = hasBeat || isBeat
            hinted = hint.leases ?? hinted
        }
    }

    // MARK: The thread

    private func run() {
        while let work = next() {
            if work.looks { perform(holder.step(.changed, at: now)) }
            if work.beats { perform(holder.step(.beat, at: now)) }
            if let revision = work.hinted { perform(view.step(.hinted(revision), at: now)) }
            if let due = holder.wakeTime, due <= now { perform(holder.step(.woken, at: now)) }
            if let due = view.wakeTime, due <= now { perform(view.step(.woken, at: now)) }
            signal.look { (mindsBeats, mindsNone) = (holder.hasLeases, !view.ignores(0)) }
        }
        perform(holder.step(.ended, at: now))
        volume.openDocuments.setElsewhere([], until: .min)
        volume.openDocuments.setHeld([], until: .min)
    }

    /// This clock also runs while the machine is suspended.
    private var now: Int64 { cl_clock_boottime_ns() }

    /// Waits for something to do. Returns nil at the end.
    private func next() -> (looks: Bool, beats: Bool, hinted: UInt64?)? {
        let due = min(holder.wakeTime ?? .max, view.wakeTime ?? .max)
        let time = due == .max ? .max / 2 : cl_clock_monotonic_ns() + max(0, due - now)
        _ = signal.wait(until: time) { mustLook || hasBeat || hinted != nil || isEnding }
        return signal.look {
            defer { (mustLook, hasBeat, hinted) = (false, false, nil) }
            return isEnding ? nil : (mustLook, hasBeat, hinted)
        }
    }

    private func perform(_ effects: [LeaseHolder.Effect]) {
        for effect in effects {
            switch effect {
            case .look:
                do throws(VolumeError) {
                    let open = try volume.openDocuments.look(limit: HubLimits.leases)
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

    private func tell(_ number: UInt64, _ documents: [LeaseHolder.Document]) -> LeaseHolder.Event {
        let (isOffline, maySend) = state.withLock { ($0.isOffline, $0.standing.maySend) }
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
        guard !state.withLock({ $0.isOffline }) else { return .failed }
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
