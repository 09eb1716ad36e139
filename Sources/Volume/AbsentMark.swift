import CLinux
import Glibc
import Model
import SystemCalls

/// What makes a sparse file of the working tree a placeholder for bytes that are not here: an
/// extended attribute of the inode itself, so that neither a crash nor the loss of the journal
/// makes its zeros anybody's contents. It goes only when every byte is there, verified and on the
/// disk. An empty file has nothing that could be absent: a mark on it means nothing.
package struct AbsentMark: Hashable, Sendable {
    package let item: Identifier
    /// Whose bytes belong there.
    package let version: Identifier

    package init(item: Identifier, version: Identifier) {
        self.item = item
        self.version = version
    }

    package static let attribute = "user.concord.absent"
    /// While it is being filled: its modification time (nanoseconds since 1970, eight bytes, most
    /// significant first), which each write moves for a moment.
    static let fillingAttribute = "user.concord.filling"
    private static let length = 32

    /// Of a file by any descriptor, O_PATH too. Nil: all of it is here.
    package init?(of file: Int32) {
        var bytes = [UInt8](repeating: 0, count: AbsentMark.length)
        guard cl_getxattr_fd(file, AbsentMark.attribute, &bytes, bytes.count) == bytes.count,
            let item = Identifier(bytes: bytes[..<16]),
            let version = Identifier(bytes: bytes[16...])
        else { return nil }
        self.init(item: item, version: version)
    }

    /// The same, where an empty file's mark means nothing.
    package init?(of file: Int32, size: Int64) {
        guard size > 0 else { return nil }
        self.init(of: file)
    }

    package func set(on file: Int32) throws(Errno) {
        let bytes = item.bytes + version.bytes
        try check(cl_setxattr_fd(file, AbsentMark.attribute, bytes, bytes.count, 0))
    }

    static func remove(from file: Int32) throws(Errno) {
        for name in [fillingAttribute, attribute] {
            let result = cl_removexattr_fd(file, name)
            if result < 0, result != -ENODATA { throw Errno(-result) }
        }
    }

    // MARK: Filling

    /// The modification time that an interrupted filling has to give back.
    package static func modified(ofFilling file: Int32) -> Int64? {
        var bytes = [UInt8](repeating: 0, count: 8)
        guard cl_getxattr_fd(file, fillingAttribute, &bytes, 8) == 8 else { return nil }
        return Int64(bitPattern: bytes.reduce(0) { $0 << 8 | UInt64($1) })
    }

    static func setFilling(_ file: Int32, modified: Int64) throws(Errno) {
        let bytes = (0..<8).map { UInt8(truncatingIfNeeded: modified >> (56 - 8 * $0)) }
        try check(cl_setxattr_fd(file, fillingAttribute, bytes, 8, 0))
    }

    static func endFilling(_ file: Int32) throws(Errno) {
        let result = cl_removexattr_fd(file, fillingAttribute)
        if result < 0, result != -ENODATA { throw Errno(-result) }
    }

    /// Gives a file its modification time back; the time of access stays.
    static func restore(_ modified: Int64, of file: Int32) throws(Errno) {
        let omit = timespec(tv_sec: 0, tv_nsec: 0x3fff_fffe)  // UTIME_OMIT
        try check(cl_utimens_fd(file, [omit, Timestamp(nanoseconds: modified).timespec]))
    }
}

extension Volume {
    /// Makes a new empty file, open for writing, the placeholder of a version: its exact size,
    /// modification time (nanoseconds since 1970) and permission bits, and no byte.
    package static func mark(
        absent file: Int32, _ mark: AbsentMark, size: UInt64, modified: Int64, mode: UInt16
    ) throws(Errno) {
        // The mark first: at no moment are its zeros contents.
        if size > 0 { try mark.set(on: file) }
        try check(cl_ftruncate(file, Int64(clamping: size)))
        try check(cl_chmod_fd(file, mode_t(mode)))
        try AbsentMark.restore(modified, of: file)
    }
}
