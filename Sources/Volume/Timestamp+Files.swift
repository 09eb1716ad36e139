import Glibc
import Model

// As members of `timespec` itself, other modules would not see them.
extension Timestamp {
    /// The nearest moment where the file system's time lies beyond what there is.
    package init(_ time: timespec) { self.init(seconds: time.tv_sec, nanoseconds: time.tv_nsec) }

    package var timespec: Glibc.timespec {
        Glibc.timespec(tv_sec: seconds, tv_nsec: nanosecondsOfSecond)
    }
}
