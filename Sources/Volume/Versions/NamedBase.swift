import CLinux
import Glibc
import Model
import SystemCalls

/// The contents that a save was made from, as the saving program states them: those with this size
/// and modification time, of a package the size of all its files and the newest time of anything in
/// it. A draft has it in an attribute until it takes the document's name. If the
/// document has other contents by then, the program has not seen them, and they become a conflict
/// version (Design.md, promise 4).
package struct NamedBase: Hashable, Sendable {
    package static let attribute = "user.concord.base"

    package var size: Int64
    /// Nanoseconds since 1970.
    package var modified: Int64
    /// The unseen contents are merged only when a person asks for it (`ManualMergeVersions`).
    package var mergesOnlyManually: Bool

    package init(size: Int64, modified: Int64, mergesOnlyManually: Bool = false) {
        (self.size, self.modified, self.mergesOnlyManually) = (size, modified, mergesOnlyManually)
    }

    /// Reads the attribute of a draft; nil if it has none.
    init?(of name: UnsafePointer<CChar>, in directory: Int32) {
        guard let file = NamedBase.open(name, in: directory),
            let value = try? extendedAttribute(NamedBase.attribute, of: file.raw)
        else { return nil }
        self.init(value)
    }

    /// Removes the attribute of a draft that has become the document.
    static func remove(from name: UnsafePointer<CChar>, in directory: Int32) {
        guard let file = open(name, in: directory) else { return }
        try? removeAttribute(attribute, of: file.raw)
    }

    private static func open(_ name: UnsafePointer<CChar>, in directory: Int32) -> Descriptor? {
        let file = cl_openat(directory, name, O_PATH | O_NOFOLLOW, 0)
        return file < 0 ? nil : Descriptor(owning: file)
    }

    /// Reads the value of the attribute: the size, then the time in seconds and nanoseconds,
    /// separated by spaces. Returns nil for anything else.
    package init?(_ value: some Sequence<UInt8>) {
        let numbers = Array(value).split(separator: UInt8(ascii: " ")).compactMap {
            Int(String(decoding: $0, as: UTF8.self))
        }
        guard numbers.count == 3 else { return nil }
        let time = Timestamp(seconds: numbers[1], nanoseconds: numbers[2])
        self.init(size: Int64(numbers[0]), modified: time.nanoseconds)
    }

    func isThat(of snapshot: FileSnapshot) -> Bool {
        size == snapshot.size && modified == snapshot.modified
    }

    func isThat(of version: Version) -> Bool {
        UInt64(max(0, size)) == version.size && modified == version.modified
    }
}
