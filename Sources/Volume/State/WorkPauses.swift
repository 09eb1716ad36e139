import CLinux
import Journal
import Model

/// Until when the recorder's work pauses, for example because the disk is full. Only the recorder's
/// thread uses it.
final class WorkPauses {
    enum Work {
        case all
        /// Events are still processed, so that what they replace can make room.
        case recording
    }

    /// Returns whether the journal has found space since a failure, so that work is retried at
    /// once.
    private let takeRetry: () -> Bool
    /// How many immediate retries are left until a transaction succeeds.
    private var retriesLeft = WorkPauses.retriesMax
    private static let retriesMax = 3
    /// Monotonic nanoseconds.
    private(set) var end: Int64 = 0
    private(set) var recordingEnd: Int64 = 0

    init(takeRetry: @escaping () -> Bool) { self.takeRetry = takeRetry }

    var isPaused: Bool { cl_clock_monotonic_ns() < end }

    var isRecordingPaused: Bool { cl_clock_monotonic_ns() < max(end, recordingEnd) }

    /// Pauses after a failure.
    func pause(_ work: Work = .all, seconds: Double) {
        if takeRetry(), retriesLeft > 0 {
            retriesLeft -= 1
            return
        }
        let until = cl_clock_monotonic_ns() + Timestamp.span(seconds: seconds)
        switch work {
        case .all: end = until
        case .recording: recordingEnd = until
        }
    }

    /// A transaction has succeeded.
    func succeeded() { retriesLeft = WorkPauses.retriesMax }

    /// Ends the pause of all work, so that space can be made. Recording still waits for it.
    func endPauseOfAll() { end = 0 }

    /// There is space again.
    func endAll() { (end, recordingEnd) = (0, 0) }
}
