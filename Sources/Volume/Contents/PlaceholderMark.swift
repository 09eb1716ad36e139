import CLinux
import Glibc
import Journal
import Model
import SystemCalls

/// The mark that makes a sparse file of the working tree a placeholder for bytes that are not on
/// this device. It is an extended attribute of the inode itself, so neither a crash nor the loss of
/// the journal turns the file's zeros into contents. It is removed only when every byte is present,
/// verified and synced. On an empty file the mark has no meaning.
package struct PlaceholderMark: Hashable, Sendable {
    package let item: Identifier
    /// The version whose bytes belong in the file.
    package let version: Identifier

    package init(item: Identifier, version: Identifier) {
        self.item = item
        self.version = version
    }

    private static let unknown = Identifier(high: 0, low: 0)
    /// Whether the attribute exists and does not tell which version is meant.
    var isUnknown: Bool { item == PlaceholderMark.unknown }

    package static let attribute = "user.concord.absent"
    /// Kept while the file is being filled: its modification time (nanoseconds since 1970, eight
    /// bytes, most significant first), because each write changes the time for a moment.
    static let fillingAttribute = "user.concord.filling"
    private static let length = 32

    /// Reads the mark of a file by any descriptor, O_PATH too; nil if the file has none. A mark
    /// that is damaged or cannot be read counts as one of an unknown version: the file's zeros must
    /// not become contents.
    package init?(of file: Int32) {
        var bytes = [UInt8](repeating: 0, count: PlaceholderMark.length)
        let count = cl_getxattr_fd(file, PlaceholderMark.attribute, &bytes, bytes.count)
        // A process that gets EACCES or EPERM cannot read the file's bytes either.
        guard ![-ENODATA, -EOPNOTSUPP, -EACCES, -EPERM].contains(Int32(count)) else { return nil }
        guard count == bytes.count, let item = Identifier(bytes: bytes[..<16]),
            let version = Identifier(bytes: bytes[16...])
        else {
            self.init(item: PlaceholderMark.unknown, version: PlaceholderMark.unknown)
            return
        }
        self.init(item: item, version: version)
    }

    /// As `init(of:)`, but ignores the mark of an empty file.
    package init?(of file: Int32, size: Int64) {
        guard size > 0 else { return nil }
        self.init(of: file)
    }

    /// The version whose bytes belong in the file, by its present id. The mark keeps the ids that
    /// item and version had when it was made, and the version may have got the hub's id since then.
    ///
    /// - Parameter inode: That of the placeholder.
    func version(inode: UInt64, _ reader: Reader) throws(VolumeError) -> Identifier {
        guard try reader.item(ofVersion: version) == nil else { return version }
        let items = try reader.items(inode: inode) + [try reader.item(id: item)].compactMap { $0 }
        for item in items {
            if let present = try reader.absentVersion(of: item.key) { return present }
        }
        return version
    }

    package func set(on file: Int32) throws(Errno) {
        try setAttribute(PlaceholderMark.attribute, item.bytes + version.bytes, of: file)
    }

    /// An empty file is no placeholder, so this is called after a file was emptied.
    package static func remove(from file: Int32) throws(Errno) {
        for name in [fillingAttribute, attribute] { try removeAttribute(name, of: file) }
    }

    // MARK: Filling

    /// The modification time to restore after an interrupted filling.
    package static func modified(ofFilling file: Int32) -> Int64? {
        var bytes = [UInt8](repeating: 0, count: 8)
        guard cl_getxattr_fd(file, fillingAttribute, &bytes, 8) == 8 else { return nil }
        return Int64(bitPattern: bytes.reduce(0) { $0 << 8 | UInt64($1) })
    }

    /// Removes the bytes of a file and marks it. The mark is on the disk before any byte is
    /// removed.
    func replaceBytes(of file: Int32, size: Int64, modified: Int64) throws(Errno) -> FileSnapshot {
        try PlaceholderMark.setFilling(file, modified: modified)
        try set(on: file)
        try check(cl_fsync(file, 0))
        let (keepSize, punchHole): (Int32, Int32) = (1, 2)
        try check(cl_fallocate(file, keepSize | punchHole, 0, size))
        try PlaceholderMark.restore(modified, of: file)
        try PlaceholderMark.endFilling(file)
        var status = stat()
        try check(cl_fstat(file, &status))
        return FileSnapshot(status)
    }

    static func setFilling(_ file: Int32, modified: Int64) throws(Errno) {
        let bytes = (0..<8).map { UInt8(truncatingIfNeeded: modified >> (56 - 8 * $0)) }
        try setAttribute(fillingAttribute, bytes, of: file)
    }

    static func endFilling(_ file: Int32) throws(Errno) {
        try removeAttribute(fillingAttribute, of: file)
    }

    /// Restores a file's modification time and leaves its access time.
    static func restore(_ modified: Int64, of file: Int32) throws(Errno) {
        let omit = timespec(tv_sec: 0, tv_nsec: 0x3fff_fffe)  // UTIME_OMIT
        try check(cl_utimens_fd(file, [omit, Timestamp(nanoseconds: modified).timespec]))
    }

    /// Turns a new empty file, open for writing, into the placeholder of a version, with its exact
    /// size, modification time (nanoseconds since 1970) and permission bits but no data.
    package func makePlaceholder(of file: Int32, size: UInt64, modified: Int64, mode: UInt16)
        throws(Errno)
    {
        // The mark is set first, so that the zeros never count as contents.
        if size > 0 { try set(on: file) }
        try check(cl_ftruncate(file, Int64(clamping: size)))
        try check(cl_chmod_fd(file, mode_t(mode)))
        try PlaceholderMark.restore(modified, of: file)
    }

    /// The placeholders below a directory, by their paths from it.
    package static func placeholders(below directory: Int32) throws(Errno) -> [[Name]] {
        var found: [[Name]] = []
        try forEachName(in: directory) { (name) throws(Errno) in
            let snapshot = FileSnapshot(try entryStatus(name, in: directory))
            if snapshot.isDirectory {
                let inner = try openBeneath([name], from: directory, flags: O_PATH | O_DIRECTORY)
                found += try placeholders(below: inner.raw).map { [name] + $0 }
            } else if snapshot.isFile, snapshot.size > 0 {
                let file = try openBeneath([name], from: directory, flags: O_PATH)
                if PlaceholderMark(of: file.raw) != nil { found.append([name]) }
            }
        }
        return found
    }
}
