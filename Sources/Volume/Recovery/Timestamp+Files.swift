import Glibc
import Model

// Extensions of `timespec` itself would not be visible in other modules.
extension Timestamp {
    /// Uses the nearest representable moment if the file system's time is out of range.
    package init(_ time: timespec) { self.init(seconds: time.tv_sec, nanoseconds: time.tv_nsec) }

    package var timespec: Glibc.timespec {
        Glibc.timespec(tv_sec: seconds, tv_nsec: nanosecondsOfSecond)
    }
}
