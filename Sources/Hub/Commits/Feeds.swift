import HubProtocol
import Model
import Synchronization

/// The open feeds of all devices.
package final class Feeds: Sendable {
    /// The feeds of each volume that has any, by their ids.
    private let lines = Mutex<[Identifier: [Identifier: FeedLine]]>([:])

    package var count: Int { lines.withLock { $0.values.reduce(0) { $0 + $1.count } } }

    var volumes: [Identifier] { lines.withLock { Array($0.keys) } }

    package func open(
        _ volume: Identifier, caller: Caller, standing: MemberStanding, token: Digest,
        epoch: Identifier,
        process: Identifier?
    ) -> FeedLine {
        let line = FeedLine(
            volume: volume, caller: caller, standing: standing, token: token, epoch: epoch,
            process: process)
        lines.withLock { $0[volume, default: [:]][line.id] = line }
        return line
    }

    package func close(_ line: FeedLine) {
        lines.withLock { lines in
            lines[line.volume]?[line.id] = nil
            if lines[line.volume]?.isEmpty == true { lines[line.volume] = nil }
        }
        line.wake.finish()
    }

    func all() -> [FeedLine] { lines.withLock { $0.values.flatMap(\.values) } }

    func announce(_ head: UInt64, of volume: Identifier) {
        let (meant, now) = (
            lines.withLock { $0[volume].map { Array($0.values) } ?? [] }, ContinuousClock.now
        )
        for line in meant { line.tell(head: head, since: now) }
    }

    func announceLeases(of volume: Identifier) {
        let meant = lines.withLock { $0[volume].map { Array($0.values) } ?? [] }
        for line in meant { line.tellLeases() }
    }

    func beat() {
        for line in all() { line.tellBeat() }
    }

    func isListening(_ process: Identifier, as device: Identifier) -> Bool {
        all().contains { $0.process == process && $0.caller.device == device }
    }

    func isListening(_ device: Identifier) -> Bool {
        all().contains { $0.caller.device == device }
    }

    /// Asks all listeners of the device whether they are still alive, because `process` claims to
    /// be the device.
    func ask(_ device: Identifier, beside process: Identifier) {
        for line in all() where line.caller.device == device && line.process != process {
            line.ask(beside: process)
        }
    }

    func end(_ failure: Failure, where isMeant: (FeedLine) -> Bool) {
        for line in all() where isMeant(line) { line.tellEnd(failure) }
    }
}

/// One device's open feed. Hints that arrive while one is being sent are merged into one.
package final class FeedLine: Sendable {
    let id = Identifier.random()
    let volume: Identifier
    let caller: Caller
    /// The caller's standing when the feed was opened.
    let standing: MemberStanding
    let token: Digest
    let epoch: Identifier
    /// The process of the device; nil if the device did not send it.
    let process: Identifier?
    package let wakes: AsyncStream<Void>
    let wake: AsyncStream<Void>.Continuation
    private let state = Mutex(Waiting())

    private struct Waiting {
        var head: UInt64?
        var told: UInt64?
        /// When the oldest head was announced that no hint has said yet.
        var since: ContinuousClock.Instant?
        /// The same for the hint that is being sent.
        var sentSince: ContinuousClock.Instant?
        var beats = false
        /// Whether the next hint says the revision of the leases, as each heartbeat does.
        var saysLeases = true
        var ended: Failure?
        var process: Identifier?
    }

    init(
        volume: Identifier, caller: Caller, standing: MemberStanding, token: Digest,
        epoch: Identifier,
        process: Identifier?
    ) {
        self.volume = volume
        self.caller = caller
        self.standing = standing
        self.token = token
        self.epoch = epoch
        self.process = process
        (wakes, wake) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    /// - Parameter since: When the head was announced to all feeds; nil if it was only read.
    package func tell(head: UInt64, since: ContinuousClock.Instant? = nil) {
        state.withLock { state in
            state.head = max(state.head ?? 0, head)
            if state.since == nil { state.since = since }
        }
        wake.yield()
    }

    /// Returns for how long the head waited that the last hint said; nil if it said none that was
    /// announced.
    func takeDelay() -> Duration? {
        state.withLock { state in
            defer { state.sentSince = nil }
            return state.sentSince.map { .now - $0 }
        }
    }

    func tellBeat() {
        state.withLock { $0.beats = true }
        wake.yield()
    }

    func tellLeases() {
        state.withLock { $0.saysLeases = true }
        wake.yield()
    }

    func ask(beside process: Identifier) {
        state.withLock { $0.process = process }
        wake.yield()
    }

    func tellEnd(_ failure: Failure) {
        state.withLock { $0.ended = failure }
        wake.yield()
    }

    /// Returns the hint that must be sent now; nil if there is none. If it has a revision of the
    /// leases, that is 0 in place of the present one, which the caller reads afterwards: what
    /// changes later is told by another hint.
    package func next(at time: Int64) -> Hint? {
        state.withLock { state in
            var hint = Hint()
            if let head = state.head, state.told.map({ head > $0 }) ?? true {
                hint.head = head
                state.told = head
                state.sentSince = state.since
            }
            (state.head, state.since) = (nil, nil)
            if state.beats { hint.beat = time }
            if state.beats || state.saysLeases { hint.leases = 0 }
            state.saysLeases = false
            state.beats = false
            hint.process = state.process
            state.process = nil
            hint.ended = state.ended
            return hint == Hint() ? nil : hint
        }
    }
}
