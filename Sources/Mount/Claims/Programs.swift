import CLinux
import Synchronization

/// The names of programs that make requests, each cached for a second.
final class Programs: Sendable {
    private struct Known {
        var name: String
        /// Monotonic nanoseconds.
        var until: Int64
    }

    private static let knownMax = 256
    private static let rememberedNanoseconds: Int64 = 1_000_000_000
    private let known = Mutex<[Int32: Known]>([:])

    /// The command name of a thread's process, at most 15 bytes; empty if it has ended or may not
    /// be read.
    func name(of thread: Int32) -> String {
        guard thread > 0 else { return "" }
        let now = cl_clock_monotonic_ns()
        if let name = known.withLock({ $0[thread].flatMap { $0.until > now ? $0.name : nil } }) {
            return name
        }
        let name = Programs.read(thread)
        known.withLock {
            if $0.count >= Programs.knownMax { $0.removeAll(keepingCapacity: true) }
            $0[thread] = Known(name: name, until: now + Programs.rememberedNanoseconds)
        }
        return name
    }

    /// Threads may have names of their own; the process's name is used.
    private static func read(_ thread: Int32) -> String {
        guard let process = ProcessAncestry.process(of: thread) else { return "" }
        let comm = ProcessAncestry.text("/proc/\(process)/comm", bytesMax: 64)
        return comm.hasSuffix("\n") ? String(comm.dropLast()) : comm
    }
}
