import Control
import Foundation

extension FilePath {
    /// The mount points of all volumes that this process sees, the newest first.
    static var mountPoints: [FilePath] {
        let text = (try? FilePath("/proc/self/mounts").readAll()) ?? Data()
        return text.split(separator: 0x0A).reversed().compactMap { line in
            let fields = line.split(separator: 0x20)
            guard fields.count > 2, fields[2].elementsEqual("fuse.concord".utf8) else { return nil }
            return FilePath(bytes: unescaped(fields[1]))
        }
    }

    /// Decodes the octal escapes for space, tab, newline and backslash.
    private static func unescaped(_ field: Data) -> [UInt8] {
        var bytes: [UInt8] = []
        var rest = field[...]
        while let byte = rest.popFirst() {
            let digits = String(decoding: rest.prefix(3), as: UTF8.self)
            if byte == UInt8(ascii: "\\"), let value = UInt8(digits, radix: 8) {
                bytes.append(value)
                rest = rest.dropFirst(3)
            } else {
                bytes.append(byte)
            }
        }
        return bytes
    }
}
