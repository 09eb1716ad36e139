import CLinux
import Glibc
import SystemCalls

/// Process ancestry, as read from /proc at the moment of the call.
enum ProcessAncestry {
    /// The process of a thread, its parent, and so on, without init; empty if the thread has ended.
    static func line(of thread: Int32) -> [Int32] {
        var line: [Int32] = []
        var next = thread
        while next > 1, line.count < 64, let (process, parent) = relatives(of: next) {
            if process > 1 { line.append(process) }
            next = parent
        }
        return line
    }

    /// Whether the two processes are the same or one descends from the other.
    static func areKin(_ a: [Int32], _ b: [Int32]) -> Bool {
        guard let first = a.first, let second = b.first else { return false }
        return a.contains(second) || b.contains(first)
    }

    /// Whether two processes belong to one program, which coordinates its own files: one descends
    /// from the other, or a third has forked both and none of the three has executed another file
    /// since.
    static func share(_ a: [Int32], _ b: [Int32]) -> Bool {
        if areKin(a, b) { return true }
        guard a.count > 1, b.count > 1, a[1] == b[1], let program = program(of: a[1]) else {
            return false
        }
        return self.program(of: a[0]) == program && self.program(of: b[0]) == program
    }

    /// The device and inode of the file that a process executes; nil if this may not be read.
    private static func program(of process: Int32) -> [UInt64]? {
        var status = stat()
        guard stat("/proc/\(process)/exe", &status) == 0 else { return nil }
        return [UInt64(status.st_dev), UInt64(status.st_ino)]
    }

    /// The process of a thread; nil if it has ended or may not be read.
    static func process(of thread: Int32) -> Int32? { relatives(of: thread)?.process }

    private static func relatives(of thread: Int32) -> (process: Int32, parent: Int32)? {
        var process: Int32?
        var parent: Int32?
        for line in text("/proc/\(thread)/status").split(separator: "\n") {
            if line.hasPrefix("Tgid:") { process = number(line.dropFirst(5)) }
            if line.hasPrefix("PPid:") { parent = number(line.dropFirst(5)) }
        }
        guard let process, let parent else { return nil }
        return (process, parent)
    }

    private static func number(_ text: Substring) -> Int32? {
        Int32(text.drop { $0 == "\t" || $0 == " " })
    }

    /// The first bytes of a file in /proc; empty if it cannot be read.
    static func text(_ path: String, bytesMax: Int = 4096) -> String {
        let raw = cl_openat(AT_FDCWD, path, O_RDONLY, 0)
        guard raw >= 0 else { return "" }
        let file = Descriptor(owning: raw)
        var bytes = [UInt8](repeating: 0, count: bytesMax)
        var count = 0
        while count < bytesMax {
            let got = bytes.withUnsafeMutableBytes {
                Glibc.read(file.raw, $0.baseAddress! + count, bytesMax - count)
            }
            if got <= 0 { break }
            count += got
        }
        return String(decoding: bytes[..<count], as: UTF8.self)
    }
}
