import CLinux
import Foundation
import Glibc

/// When the threads of a process wake by themselves. This is read from the system calls in which
/// they wait.
package enum Alarms {
    /// Waits until each thread of the process and of its children was seen once with more than 8
    /// seconds until it wakes, because an idle program wakes a few times a minute. The wait fails
    /// if a thread always wakes sooner.
    package static func waitForRest(of process: pid_t) throws {
        var rested: Set<String> = []
        var awake = ""
        try wait(seconds: 90, for: "all threads to rest; these wake too soon: \(awake)") {
            () throws -> Bool? in
            let children = try Command("ps", "-o", "pid=", "--ppid", "\(process)").run().output
            let all = [process] + children.split { $0.isWhitespace }.compactMap { pid_t($0) }
            var threads: [String: Double] = [:]
            for process in all { threads.merge(try alarms(in: process)) { $1 } }
            rested.formUnion(threads.filter { $0.value > 8 }.keys)
            let others = threads.filter { !rested.contains($0.key) }
            awake = others.map { "\($0.key) after \($0.value) s" }.joined(separator: ", ")
            return others.isEmpty ? true : nil
        }
    }

    /// Returns the seconds until each thread wakes, by the thread's id and name: 0 if it runs, and
    /// infinity if it waits without a time limit.
    private static func alarms(in process: pid_t) throws -> [String: Double] {
        var alarms: [String: Double] = [:]
        let tasks = "/proc/\(process)/task"
        for task in try FileManager.default.contentsOfDirectory(atPath: tasks) {
            // A thread that has ended in the meantime wakes nobody.
            func read(_ name: String) -> String? {
                try? String(contentsOfFile: "\(tasks)/\(task)/\(name)", encoding: .utf8)
            }
            guard let line = read("syscall"), let name = read("comm") else { continue }
            let words = line.split { $0 == " " || $0 == "\n" }
            let arguments = words.dropFirst().map { UInt64($0.dropFirst(2), radix: 16) ?? 0 }
            let number = words.first.flatMap { Int($0) }
            alarms["\(task) \(name.trimmingCharacters(in: .newlines))"] =
                try number.map { try seconds($0, arguments, of: process) } ?? 0
        }
        return alarms
    }

    #if arch(x86_64)
        private static let (futex, poll, ppoll, epoll, sleep) = (202, 7, 271, [232, 281], 230)
    #else
        private static let (futex, poll, ppoll, epoll, sleep) = (98, -1, 73, [22], 115)
    #endif

    private static func seconds(_ number: Int, _ arguments: [UInt64], of process: pid_t) throws
        -> Double
    {
        switch number {
        case futex where arguments[1] & 0x7f == 9:  // FUTEX_WAIT_BITSET: until a point in time
            guard let due = try time(at: arguments[3], of: process) else { return .infinity }
            let isRealTime = arguments[1] & 0x100 != 0
            let now = isRealTime ? cl_clock_realtime_ns() : cl_clock_monotonic_ns()
            return due - Double(now) / 1e9
        case futex, ppoll:
            let index = number == futex ? 3 : 2
            return try time(at: arguments[index], of: process) ?? .infinity
        case poll: return milliseconds(arguments[2])
        case _ where epoll.contains(number): return milliseconds(arguments[3])
        case sleep: return try time(at: arguments[2], of: process) ?? .infinity
        default: return .infinity
        }
    }

    private static func milliseconds(_ argument: UInt64) -> Double {
        let count = Int32(truncatingIfNeeded: argument)
        return count < 0 ? .infinity : Double(count) / 1000
    }

    /// Reads a `timespec` from the memory of the process; nil for the null pointer.
    private static func time(at address: UInt64, of process: pid_t) throws -> Double? {
        guard address != 0 else { return nil }
        let memory = open("/proc/\(process)/mem", O_RDONLY | O_CLOEXEC)
        guard memory >= 0 else { throw SupportError("the memory of \(process): errno \(errno)") }
        defer { close(memory) }
        var time = timespec()
        // A thread that has continued in the meantime may not have this memory any more.
        let count = pread(memory, &time, MemoryLayout<timespec>.size, off_t(address))
        guard count == MemoryLayout<timespec>.size else { return 0 }
        return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    }
}
