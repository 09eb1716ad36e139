import CLinux
import Glibc
import SystemCalls

/// Processes and where they come from, as /proc tells at this moment.
enum Family {
    /// The process of a thread, then its parent, and so on, without init. Empty when it is gone.
    static func line(of thread: Int32) -> [Int32] {
        var line: [Int32] = []
        var next = thread
        while next > 1, line.count < 64, let (process, parent) = relatives(of: next) {
            if process > 1 { line.append(process) }
            next = parent
        }
        return line
    }

    /// Whether one of the two processes is the other, or descends from it.
    static func areKin(_ a: [Int32], _ b: [Int32]) -> Bool {
        guard let first = a.first, let second = b.first else { return false }
        return a.contains(second) || b.contains(first)
    }

    /// Whether two processes are one program's, which shares its files out among them by itself:
    /// one descends from the other, or a third has forked both and none of the three has executed
    /// anything since.
    static func share(_ a: [Int32], _ b: [Int32]) -> Bool {
        if areKin(a, b) { return true }
        guard a.count > 1, b.count > 1, a[1] == b[1], let program = program(of: a[1]) else {
            return false
        }
        return self.program(of: a[0]) == program && self.program(of: b[0]) == program
    }

    /// The file that a process executes; nil when it is not ours to see.
    private static func program(of process: Int32) -> [UInt64]? {
        var status = stat()
        guard stat("/proc/\(process)/exe", &status) == 0 else { return nil }
        return [UInt64(status.st_dev), UInt64(status.st_ino)]
    }

    /// The process that a thread is of; nil when it is gone or not ours to see.
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

    /// The beginning of one of the kernel's files; nothing when it cannot be read.
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
