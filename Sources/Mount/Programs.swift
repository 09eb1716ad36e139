import CLinux
import Glibc
import Synchronization
import SystemCalls

/// The names of the programs behind requests, remembered for a second each.
final class Programs: Sendable {
    private struct Known {
        var name: String
        /// On the monotonic clock, nanoseconds.
        var until: Int64
    }

    private static let knownMax = 256
    private static let rememberedNanoseconds: Int64 = 1_000_000_000
    private let known = Mutex<[Int32: Known]>([:])

    /// The command's name of a thread's process, at most 15 bytes; empty when it is gone or not
    /// ours to see.
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

    /// Threads of one program have names of their own: what counts is the process's.
    private static func read(_ thread: Int32) -> String {
        let status = text("/proc/\(thread)/status")
        guard let line = status.split(separator: "\n").first(where: { $0.hasPrefix("Tgid:") }),
            let process = Int32(line.dropFirst(5).drop { $0 == "\t" || $0 == " " })
        else { return "" }
        let comm = text("/proc/\(process)/comm")
        return comm.hasSuffix("\n") ? String(comm.dropLast()) : comm
    }

    private static func text(_ path: String) -> String {
        let raw = cl_openat(AT_FDCWD, path, O_RDONLY, 0)
        guard raw >= 0 else { return "" }
        let file = Descriptor(owning: raw)
        return withUnsafeTemporaryAllocation(byteCount: 512, alignment: 1) { buffer in
            let count = cl_pread(file.raw, buffer.baseAddress, buffer.count, 0)
            return count > 0 ? String(decoding: buffer[..<Int(count)], as: UTF8.self) : ""
        }
    }
}
