import Foundation
import Glibc

/// The mounted file systems, as the kernel lists them. It asks no file system, so a dead mount is
/// no problem.
package enum MountTable {
    package struct Entry: Sendable {
        package let mountPoint: String
        package let type: String
        package let source: String
    }

    package static func entries() throws -> [Entry] {
        // A single read of the whole file, as Foundation does it, gets only the first 4 KiB or so.
        let file = try OpenFile("/proc/self/mountinfo", O_RDONLY)
        defer { file.close() }
        var bytes: [UInt8] = []
        while case let more = try file.bytes(65_536, at: bytes.count), !more.isEmpty {
            bytes += more
        }
        return String(decoding: bytes, as: UTF8.self).split(separator: "\n").compactMap { line in
            let words = line.split(separator: " ")
            guard words.count > 6, let dash = words.firstIndex(of: "-"), dash + 2 < words.count
            else { return nil }
            return Entry(
                mountPoint: unescape(words[4]), type: String(words[dash + 1]),
                source: unescape(words[dash + 2]))
        }
    }

    package static func isMounted(_ path: String) throws -> Bool {
        try entries().contains { $0.mountPoint == path }
    }

    /// Space, tab, newline and backslash are written as octal escapes in the table.
    private static func unescape(_ word: Substring) -> String {
        var text = String(word)
        for (code, plain) in [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")] {
            text = text.replacingOccurrences(of: code, with: plain)
        }
        return text
    }
}
