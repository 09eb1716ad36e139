import CLinux
import Glibc
import Synchronization

/// An event, and when it happened.
struct NotedEvent: Sendable {
    var event: TreeEvent
    /// Nanoseconds since 1970.
    var time: Int64
}

/// What happened in the tree and has not been understood yet. Many threads append, one takes all.
final class EventQueue: Sendable {
    private struct State {
        var events: [NotedEvent] = []
        /// Monotonic nanoseconds of the oldest and the newest event.
        var oldest: Int64 = 0
        var newest: Int64 = 0
        /// Events ever appended.
        var count: UInt64 = 0
    }

    private let state = Mutex(State())
    private let onFirst: @Sendable () -> Void

    /// `onFirst` is called when an event comes and none was waiting.
    init(onFirst: @escaping @Sendable () -> Void) { self.onFirst = onFirst }

    func append(_ event: TreeEvent) {
        let now = cl_clock_monotonic_ns()
        let noted = NotedEvent(event: event, time: cl_clock_realtime_ns())
        let isFirst = state.withLock { state in
            let isFirst = state.events.isEmpty
            if isFirst { state.oldest = now }
            state.newest = now
            state.count += 1
            state.events.append(noted)
            return isFirst
        }
        if isFirst { onFirst() }
    }

    func takeAll() -> [NotedEvent] {
        state.withLock { state in
            var taken: [NotedEvent] = []
            swap(&taken, &state.events)
            return taken
        }
    }

    /// How many wait, since when, and when the last one came.
    var waiting: (count: Int, oldest: Int64, newest: Int64) {
        state.withLock { ($0.events.count, $0.oldest, $0.newest) }
    }

    var total: UInt64 { state.withLock { $0.count } }
}
