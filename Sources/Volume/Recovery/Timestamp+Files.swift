import CLinux
import Glibc
import Model

// Extensions of `timespec` itself would not be visible in other modules.
extension Timestamp {
    /// Uses the nearest representable moment if the file system's time is out of range.
    package init(_ time: timespec) { self.init(seconds: time.tv_sec, nanoseconds: time.tv_nsec) }

    /// When a file was created, by statx(2); nil if the file system does not know it.
    init?(birthOf file: Int32) {
        // STATX_BTIME (linux/stat.h)
        let birthTime: UInt32 = 0x800
        var answer = cl_statx()
        guard cl_statx(file, birthTime, &answer) >= 0, answer.mask & birthTime != 0 else {
            return nil
        }
        self.init(
            seconds: Int(answer.birth_seconds), nanoseconds: Int(answer.birth_nanoseconds))
    }

    package var timespec: Glibc.timespec {
        Glibc.timespec(tv_sec: seconds, tv_nsec: nanosecondsOfSecond)
    }
}
