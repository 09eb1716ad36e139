import CLinux
import Glibc
import Model
import Synchronization

/// An event with its time and number.
struct NotedEvent: Sendable {
    var event: TreeEvent
    /// Nanoseconds since 1970.
    var time: Int64
    /// Grows by one with each event of a store and goes on after a restart.
    var sequence: UInt64 = 0
}

/// Events in the tree that the recorder has not processed yet. Many threads append; one takes all.
package final class EventQueue: Sendable {
    private struct State: ~Copyable {
        var events: [NotedEvent] = []
        var log: EventLog
        /// Monotonic nanoseconds of the oldest and the newest event.
        var oldest: Int64 = 0
        var newest: Int64 = 0
        /// The sequence number of the last event.
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
    /// Called when an event is appended to an empty queue.
    let onFirst = CallbackSlot<@Sendable () -> Void>()
    private let directory: Int32

    /// - Parameters:
    ///   - directory: A descriptor of the store.
    ///   - last: The sequence number of the last event that was ever appended.
    init(directory: Int32, last: UInt64) {
        state = Mutex(State(log: EventLog(directory: directory), sequence: last))
        self.directory = directory
    }

    /// Appends an event together with `more`; `takeAll` returns them together.
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
        if isFirst { onFirst.current?() }
    }

    func takeAll() -> [NotedEvent] {
        state.withLock { state in
            var taken: [NotedEvent] = []
            swap(&taken, &state.events)
            if !taken.isEmpty { state.log.rotate() }
            return taken
        }
    }

    /// Removes the log of all events that were taken; the journal has them now.
    func forgetTaken() {
        for name in state.withLock({ $0.log.takeOlder() }) { _ = cl_unlinkat(directory, name, 0) }
    }

    /// The number of waiting events, and the monotonic times of the oldest and the newest one.
    var waiting: (count: Int, oldest: Int64, newest: Int64) {
        state.withLock { ($0.events.count, $0.oldest, $0.newest) }
    }

    /// The waiting events whose sequence numbers are larger than this one.
    func waiting(after sequence: UInt64) -> [NotedEvent] {
        state.withLock { state in
            guard let first = state.events.first, sequence >= first.sequence else {
                return state.events
            }
            return Array(state.events.dropFirst(Int(sequence - first.sequence) + 1))
        }
    }

    /// Whether the journal has all events.
    var isProcessed: Bool { state.withLock { $0.events.isEmpty && $0.log.isEmpty } }

    /// The sequence number of the last event.
    var lastSequence: UInt64 { state.withLock { $0.sequence } }

    var total: UInt64 { state.withLock { $0.count } }

    /// The number of events that `takeAll` has returned since the volume was opened.
    var taken: UInt64 { state.withLock { $0.count - UInt64($0.events.count) } }
}
