import CLinux
import Glibc
import Model
import Synchronization
import SystemCalls
import Volume

/// Reads variables in the environments of other processes, on threads of its own. The kernel reads
/// them in that process's memory: where a process has mapped a file of this mount there, it waits
/// for this daemon. So the caller waits for a bounded time only. While a process keeps a thread
/// waiting for longer, no other process of its user is asked.
final class EnvironmentReader: @unchecked Sendable {
    private final class Job: @unchecked Sendable {
        let process: Int32
        let uid: UInt32
        let variable: String
        // Guarded by the signal.
        var isBegun = false
        var isDone = false
        var isOverdue = false
        var value: String?

        init(_ process: Int32, _ uid: UInt32, _ variable: String) {
            (self.process, self.uid, self.variable) = (process, uid, variable)
        }
    }

    private static let threadsAtOnce = 2
    private static let threadsMax = 16
    private static let waitNanoseconds: Int64 = 250_000_000
    /// Bytes: what lies behind these in an environment is not read.
    private static let environmentMax = 1 << 17

    private let signal = Signal()
    // Guarded by the signal.
    private var jobs: [Job] = []
    /// Threads that run: each ends when no job is left.
    private var threads = 0
    /// Threads that a process keeps waiting, by its user.
    private var overdue: [UInt32: Int] = [:]

    /// Nil where it is not set, or where the process runs with another user's rights than its
    /// caller's: then its environment is not that user's to show.
    func value(of variable: String, in process: Int32, uid: UInt32) -> String? {
        let job = Job(process, uid, variable)
        let (isAdmitted, needsThread) = signal.change { () -> (Bool, Bool) in
            guard overdue[uid] == nil else { return (false, false) }
            let waiting = overdue.values.reduce(0, +)
            let needsThread =
                threads - waiting < Self.threadsAtOnce && threads < Self.threadsMax
            guard needsThread || threads > waiting else { return (false, false) }
            if needsThread { threads += 1 }
            jobs.append(job)
            return (true, needsThread)
        }
        guard isAdmitted else { return nil }
        if needsThread {
            startThread(named: "environments") { [self] in
                while let job = next() {
                    let value = EnvironmentReader.read(job.variable, of: job.process, uid: job.uid)
                    signal.change {
                        (job.value, job.isDone) = (value, true)
                        if job.isOverdue { ended(job.uid) }
                    }
                }
            }
        }
        let deadline = cl_clock_monotonic_ns() + Self.waitNanoseconds
        if signal.wait(until: deadline, { job.isDone }) { return signal.look { job.value } }
        return signal.change {
            // One that was not begun waits behind others, and is not to blame.
            if !job.isDone, job.isBegun {
                job.isOverdue = true
                overdue[uid, default: 0] += 1
            }
            return job.value
        }
    }

    /// Returns nil when no job is left; then the thread that asked ends.
    private func next() -> Job? {
        signal.change {
            guard !jobs.isEmpty else {
                threads -= 1
                return nil
            }
            let job = jobs.removeFirst()
            job.isBegun = true
            return job
        }
    }

    private func ended(_ uid: UInt32) {
        let left = (overdue[uid] ?? 0) - 1
        overdue[uid] = left > 0 ? left : nil
    }

    private static func read(_ variable: String, of process: Int32, uid: UInt32) -> String? {
        let raw = cl_openat(AT_FDCWD, "/proc/\(process)/environ", O_RDONLY, 0)
        guard raw >= 0 else { return nil }
        let file = Descriptor(owning: raw)
        // The file belongs to the effective user; to root where the process shows its memory to
        // nobody, as one does that runs a set-id program.
        guard let status = try? file.status(), status.st_uid == uid else { return nil }
        var bytes = [UInt8](repeating: 0, count: 4096)
        var text: [UInt8] = []
        while text.count < environmentMax {
            let count = bytes.withUnsafeMutableBytes {
                Glibc.read(file.raw, $0.baseAddress, $0.count)
            }
            if count <= 0 { break }
            text += bytes[..<count]
        }
        return find(variable, in: text)
    }

    static func find(_ variable: String, in environment: [UInt8]) -> String? {
        let start = Array("\(variable)=".utf8)
        let line = environment.split(separator: 0).first { $0.starts(with: start) }
        return line.flatMap { String(validating: $0.dropFirst(start.count), as: UTF8.self) }
    }
}
