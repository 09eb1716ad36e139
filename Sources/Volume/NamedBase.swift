import CLinux
import Glibc
import Model
import SystemCalls

/// Which contents a save was made from, where its maker says so: those with this size and
/// modification time. A draft bears it in an attribute until it takes the document's name. If the
/// document has other contents by then, their maker's save is one that nobody has seen, and a
/// conflict version (Design.md, promise 4).
package struct NamedBase: Hashable, Sendable {
    package static let attribute = "user.concord.base"

    package var size: Int64
    /// Nanoseconds since 1970.
    package var modified: Int64
    /// Nobody asked for a merge with what was not seen: a person is to ask for it.
    package var isApart: Bool

    package init(size: Int64, modified: Int64, isApart: Bool = false) {
        (self.size, self.modified, self.isApart) = (size, modified, isApart)
    }

    /// Takes it off a draft. Nil: it bears none.
    init?(takenOff name: UnsafePointer<CChar>, in directory: Int32) {
        guard
            let file = try? Descriptor(
                owning: check(cl_openat(directory, name, O_PATH | O_NOFOLLOW, 0))),
            let value = try? extendedAttribute(NamedBase.attribute, of: file.raw)
        else { return nil }
        _ = cl_removexattr_fd(file.raw, NamedBase.attribute)
        // The size, and the time in seconds and nanoseconds.
        let numbers = value.split(separator: UInt8(ascii: " ")).compactMap {
            Int(String(decoding: $0, as: UTF8.self))
        }
        guard numbers.count == 3 else { return nil }
        let time = Timestamp(seconds: numbers[1], nanoseconds: numbers[2])
        self.init(size: Int64(numbers[0]), modified: time.nanoseconds)
    }

    func isThat(of trace: Trace) -> Bool { size == trace.size && modified == trace.modified }

    func isThat(of version: Version) -> Bool {
        UInt64(max(0, size)) == version.size && modified == version.modified
    }
}
