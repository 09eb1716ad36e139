import CLinux
import Model
import Synchronization

/// The time by which work must end, because the volume is being closed. Any thread may use it.
final class ClosingTime: Sendable {
    /// By the monotonic clock.
    private let end = Atomic<Int64>(.max)

    private let isLast = Atomic<Bool>(false)

    /// Whether the last work has begun, of which nothing is put off any more.
    var isLastWork: Bool { isLast.load(ordering: .relaxed) }

    func beginLastWork() { isLast.store(true, ordering: .relaxed) }

    /// Work may go on for this long from the first call on.
    func begin(seconds: Double) {
        let end = cl_clock_monotonic_ns() + Timestamp.span(seconds: seconds)
        _ = self.end.compareExchange(expected: .max, desired: end, ordering: .relaxed)
    }

    /// Whether the time for the last work is over.
    var isOverdue: Bool {
        let end = end.load(ordering: .relaxed)
        return end != .max && cl_clock_monotonic_ns() > end
    }

    /// To be called now and then in long work.
    ///
    /// - Throws: `.busy` when the time for the last work is over. The work is given up then.
    func check() throws(VolumeError) {
        if isOverdue { throw VolumeError(.busy, "The volume is being unmounted.") }
    }
}
