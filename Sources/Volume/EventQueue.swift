import CLinux
import Glibc
import Synchronization

/// An event, when it happened and which one it was.
struct NotedEvent: Sendable {
    var event: TreeEvent
    /// Nanoseconds since 1970.
    var time: Int64
    /// Grows by one with each event of a store, also over restarts.
    var sequence: UInt64 = 0
}

/// What happened in the tree and has not been understood yet. Many threads append, one takes all.
final class EventQueue: Sendable {
    private struct State: ~Copyable {
        var events: [NotedEvent] = []
        var log: EventLog
        /// Monotonic nanoseconds of the oldest and the newest event.
        var oldest: Int64 = 0
        var newest: Int64 = 0
        /// Of the last event.
        var sequence: UInt64
        /// Events appended since the volume was opened.
        var count: UInt64 = 0

        init(log: consuming EventLog, sequence: UInt64) {
            self.log = log
            self.sequence = sequence
        }

        mutating func note(_ event: TreeEvent, at time: Int64) {
            count += 1
            sequence += 1
            let noted = NotedEvent(event: event, time: time, sequence: sequence)
            log.append(noted)
            events.append(noted)
        }
    }

    private let state: Mutex<State>
    private let onFirst: @Sendable () -> Void
    private let directory: Int32

    /// `directory` is the store's, `last` the sequence of the last event that was ever noted.
    /// `onFirst` is called when an event comes and none was waiting.
    init(directory: Int32, last: UInt64, onFirst: @escaping @Sendable () -> Void) {
        state = Mutex(State(log: EventLog(directory: directory), sequence: last))
        self.onFirst = onFirst
        self.directory = directory
    }

    /// `more` belongs to the event: nobody takes one without the other.
    func append(_ event: TreeEvent, _ more: [TreeEvent] = []) {
        let now = cl_clock_monotonic_ns()
        let time = cl_clock_realtime_ns()
        let isFirst = state.withLock { state in
            let isFirst = state.events.isEmpty
            if isFirst { state.oldest = now }
            state.newest = now
            state.note(event, at: time)
            for event in more { state.note(event, at: time) }
            return isFirst
        }
        if isFirst { onFirst() }
    }

    func takeAll() -> [NotedEvent] {
        state.withLock { state in
            var taken: [NotedEvent] = []
            swap(&taken, &state.events)
            if !taken.isEmpty { state.log.rotate() }
            return taken
        }
    }

    /// The journal knows all that was ever taken.
    func forgetTaken() {
        for name in state.withLock({ $0.log.takeOlder() }) { _ = cl_unlinkat(directory, name, 0) }
    }

    /// How many wait, since when, and when the last one came.
    var waiting: (count: Int, oldest: Int64, newest: Int64) {
        state.withLock { ($0.events.count, $0.oldest, $0.newest) }
    }

    /// Of the last event that was noted.
    var lastSequence: UInt64 { state.withLock { $0.sequence } }

    var total: UInt64 { state.withLock { $0.count } }
}
