import Control
import Glibc
import Model
import SystemCalls

/// The mounts that this process sees, in the order in which they were made (proc(5), mountinfo).
package struct MountTable: Sendable {
    package struct Entry: Hashable, Sendable {
        /// The device number of the file system, as in `st_dev`.
        package var device: UInt64
        package var mountPoint: FilePath
        /// `ext4`, `fuse.sshfs`, …
        package var type: String
        package var source: String

        package var isConcord: Bool { type == "fuse.concord" }

        /// The minor number in `device` (glibc's gnu_dev_minor).
        package var minor: UInt64 { device & 0xFF | device >> 12 & ~0xFF }
    }

    package let entries: [Entry]

    package init() throws(VolumeError) {
        guard let text = contents(of: "/proc/self/mountinfo") else {
            throw VolumeError(.system, "cannot read /proc/self/mountinfo; is /proc mounted?")
        }
        self.init(text: text)
    }

    package init(text: [UInt8]) {
        entries = text.split(separator: UInt8(ascii: "\n")).compactMap(MountTable.entry)
    }

    /// The mount that is visible at `path`, which is the last one made there.
    package func top(at path: FilePath) -> Entry? { entries.last { $0.mountPoint == path } }

    private static func entry(_ line: ArraySlice<UInt8>) -> Entry? {
        let fields = line.split(separator: UInt8(ascii: " "))
        // Optional fields lie between the sixth and a lone "-".
        guard let dash = fields.firstIndex(of: [UInt8(ascii: "-")]), dash >= 6,
            fields.count > dash + 2
        else { return nil }
        let numbers = String(decoding: fields[2], as: UTF8.self).split(separator: ":")
        guard numbers.count == 2, let major = UInt32(numbers[0]), let minor = UInt32(numbers[1])
        else { return nil }
        return Entry(
            device: deviceNumber(major: major, minor: minor),
            mountPoint: FilePath(bytes: unescaped(fields[4])),
            type: String(decoding: fields[dash + 1], as: UTF8.self),
            source: String(decoding: unescaped(fields[dash + 2]), as: UTF8.self))
    }

    /// The number that stat(2) gives in `st_dev` (glibc's gnu_dev_makedev).
    private static func deviceNumber(major: UInt32, minor: UInt32) -> UInt64 {
        let (major, minor) = (UInt64(major), UInt64(minor))
        return (major & 0xFFF) << 8 | (major & ~0xFFF) << 32 | minor & 0xFF | (minor & ~0xFF) << 12
    }

    /// Decodes the octal escapes for space, tab, newline and backslash.
    private static func unescaped(_ text: ArraySlice<UInt8>) -> [UInt8] {
        var bytes: [UInt8] = []
        var rest = text
        while let byte = rest.popFirst() {
            let digits = rest.prefix(3).map { $0 &- UInt8(ascii: "0") }
            if byte == UInt8(ascii: "\\"), digits.count == 3, digits.allSatisfy({ $0 < 8 }) {
                bytes.append(digits[0] << 6 | digits[1] << 3 | digits[2])
                rest = rest.dropFirst(3)
            } else {
                bytes.append(byte)
            }
        }
        return bytes
    }
}

/// The bytes of a small file whose size need not be known, such as one in /proc; nil when it cannot
/// be read.
func contents(of path: String) -> [UInt8]? {
    guard let file = try? Descriptor(opening: path, flags: O_RDONLY) else { return nil }
    var bytes: [UInt8] = []
    var piece = [UInt8](repeating: 0, count: 1 << 16)
    while true {
        let count = read(file.raw, &piece, piece.count)
        if count < 0 { return nil }
        if count == 0 { return bytes }
        bytes += piece[..<count]
    }
}
