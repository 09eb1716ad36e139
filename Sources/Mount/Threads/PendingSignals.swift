import CLinux
import Glibc

/// The signals that wait to be delivered to a thread, as read from /proc at the moment of the call.
struct PendingSignals {
    /// A bit for each signal, the lowest for signal 1.
    private let bits: UInt64

    /// Nil if nothing is known of the thread: it has ended, or belongs to another namespace.
    init?(of thread: Int32) {
        let text = ProcessAncestry.text("/proc/\(thread)/status")
        guard !text.isEmpty else { return nil }
        var pending: UInt64 = 0
        var blocked: UInt64 = 0
        for line in text.split(separator: "\n") {
            let words = line.split { $0 == "\t" || $0 == " " }
            guard words.count == 2, let value = UInt64(words[1], radix: 16) else { continue }
            switch words[0] {
            case "SigPnd:", "ShdPnd:": pending |= value
            case "SigBlk:": blocked = value
            default: break
            }
        }
        bits = pending & ~blocked
    }

    /// Whether none of them asks the program to do something. A thread without any is about to be
    /// stopped together with its process, or the signal was for another of its threads.
    var areOnlyStops: Bool {
        let stops = [SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT].reduce(into: 0 as UInt64) {
            $0 |= 1 << UInt64($1 - 1)
        }
        return bits & ~stops == 0
    }
}
