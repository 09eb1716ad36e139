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
        // The kernel gives a part of the table at each read. `String(contentsOfFile:)` takes the
        // first one, of 4 KB, for the whole file.
        let file = try OpenFile("/proc/self/mountinfo", O_RDONLY)
        let handle = FileHandle(fileDescriptor: file.descriptor, closeOnDealloc: false)
        var table = Data()
        while let part = try handle.read(upToCount: 1 << 16), !part.isEmpty { table += part }
        return String(decoding: table, as: UTF8.self).split(separator: "\n").compactMap { line in
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
