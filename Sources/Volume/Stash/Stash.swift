import CLinux
import Glibc
import Model
import Synchronization
import SystemCalls

/// The directory of contents that were moved aside and wait to be cut into chunks. A file's name
/// has all that is needed to find its document after a crash:
/// `SEQUENCE-KIND-INODE-DIRECTORY-SAVED-MODIFIED-UID-PROGRAM-NAME`, with numbers in hexadecimal.
final class Stash: Sendable {
    /// An O_PATH descriptor.
    let directory: Int32
    private let sequence: Atomic<UInt64>
    private let cannotClone = Atomic(false)
    /// Read by the copying in C; 1 when no copy is to be completed any more.
    private nonisolated(unsafe) let mustStop = UnsafeMutablePointer<Int32>.allocate(capacity: 1)

    /// Whether the file system may be able to clone files.
    var mayClone: Bool { !cannotClone.load(ordering: .relaxed) }

    enum Kind: UInt8, Sendable {
        /// The file itself, whose last name was removed or given to another file.
        case displaced = 0x64
        /// A copy of a file that is about to be written in place.
        case copied = 0x63
        /// A pre-image log: old blocks of a file that is being written in place, at their offsets,
        /// with holes where the file still has them.
        case preImages = 0x75
    }

    init(directory: Int32, firstSequence: UInt64) {
        self.directory = directory
        sequence = Atomic(firstSequence)
        mustStop.initialize(to: 0)
    }

    deinit { mustStop.deallocate() }

    /// The volume is about to close: copies are given up with ECANCELED, and with them the changes
    /// for which they were made.
    func endCopying() { mustStop.pointee = 1 }

    /// A name that was never used before.
    func newName(_ kind: Kind, _ snapshot: FileSnapshot, spot: DirectoryEntry?, actor: Actor)
        -> String
    {
        let number = sequence.wrappingAdd(1, ordering: .relaxed).oldValue
        let program = actor.program.utf8.map { byte in
            byte == UInt8(ascii: "-") || byte == UInt8(ascii: "/") ? UInt8(ascii: "_") : byte
        }
        var text = hexadecimal(number: number)
        text += "-\(Character(UnicodeScalar(kind.rawValue)))"
        let times = [cl_clock_realtime_ns(), snapshot.modified].map { UInt64(bitPattern: $0) }
        for value in [snapshot.inode, spot?.directory ?? 0] + times {
            text += "-" + hexadecimal(number: value)
        }
        text += "-" + hexadecimal(number: UInt64(actor.uid))
        text += "-" + String(decoding: program, as: UTF8.self) + "-"
        // The document's name is only a hint, and left out if the file name would be too long.
        if let name = spot?.name, name.bytes.count + text.utf8.count < 250,
            let readable = String(validating: name.bytes, as: UTF8.self)
        {
            text += readable
        }
        return text
    }

    /// Parses a name; nil for a file that is no stash file.
    static func parse(_ name: String) -> Entry? {
        let parts = name.split(separator: "-", maxSplits: 8, omittingEmptySubsequences: false)
        guard parts.count == 9, let sequence = UInt64(parts[0], radix: 16),
            let letter = parts[1].utf8.first, let kind = Kind(rawValue: letter),
            let inode = UInt64(parts[2], radix: 16), let directory = UInt64(parts[3], radix: 16),
            let saved = UInt64(parts[4], radix: 16),
            let modified = UInt64(parts[5], radix: 16), let uid = UInt32(parts[6], radix: 16)
        else { return nil }
        let spot = directory == 0 ? nil : DirectoryEntry(directory: directory, name: Name(parts[8]))
        return Entry(
            file: name, sequence: sequence, kind: kind, inode: inode, spot: spot,
            saved: Int64(bitPattern: saved), modified: Int64(bitPattern: modified),
            actor: Actor(process: 0, uid: uid, program: String(parts[7])))
    }

    struct Entry: Hashable, Sendable {
        var file: String
        var sequence: UInt64
        var kind: Kind
        /// The inode whose contents these are; for a displaced file its own.
        var inode: UInt64
        var spot: DirectoryEntry?
        /// Nanoseconds since 1970.
        var saved: Int64
        /// When the contents were last changed, nanoseconds since 1970.
        var modified: Int64
        var actor: Actor
    }

    /// All stash files, oldest first.
    func entries() throws(Errno) -> [Entry] {
        var found: [Entry] = []
        try forEachName(in: directory) { name in
            if let entry = Stash.parse(name.text) { found.append(entry) }
        }
        return found.sorted { $0.sequence < $1.sequence }
    }

    func open(_ name: String) throws(Errno) -> Descriptor {
        try Descriptor(opening: name, in: directory, flags: O_RDONLY | O_NOFOLLOW)
    }

    /// All stash files, for the recorder, which postpones its work if they cannot be listed.
    func entriesToRead() throws(VolumeError) -> [Entry] {
        do throws(Errno) { return try entries() } catch {
            throw VolumeError(.system, "The stash cannot be listed: \(error).")
        }
    }

    /// Opens a stash file; nil if it is gone. Every other error says nothing about its contents.
    func openIfPresent(_ name: String) throws(VolumeError) -> Descriptor? {
        do throws(Errno) { return try open(name) } catch {
            if error == .notFound { return nil }
            throw VolumeError(.system, "\(name) in the stash cannot be read: \(error).")
        }
    }

    /// Syncs a stash file and its name to the disk. A missing file has been recorded and needs no
    /// sync.
    func sync(_ name: String) throws(Errno) {
        if PlantedFault.leavesCopiesUnsynced.isPlanted { return }
        do throws(Errno) {
            let file = try open(name)
            try check(cl_fsync(file.raw, 0))
        } catch {
            if error == .notFound { return }
            throw error
        }
        try syncNames()
    }

    /// Syncs the stash's directory. File systems that cannot sync a directory (EINVAL) keep the
    /// order of its changes.
    func syncNames() throws(Errno) {
        let names = try Descriptor(opening: ".", in: directory, flags: O_RDONLY | O_DIRECTORY)
        let result = cl_fsync(names.raw, 0)
        if result < 0, result != -EINVAL { throw Errno(-result) }
    }

    func remove(_ name: String) {
        _ = cl_unlinkat(directory, name, 0)
        removeLog(of: name)
    }

    private static let unfinished = "unfinished."
    /// The size that a copy must have: eight bytes, most significant first. A shorter copy was
    /// damaged by a loss of power.
    private static let sizeAttribute = "user.concord.size"

    /// The size that a copy must have; nil if it is not known.
    static func intendedSize(of copy: Int32) -> Int64? {
        var bytes = [UInt8](repeating: 0, count: 8)
        guard cl_getxattr_fd(copy, sizeAttribute, &bytes, 8) == 8 else { return nil }
        return Int64(bitPattern: bytes.reduce(0) { $0 << 8 | UInt64($1) })
    }

    /// Copies the file of an O_PATH descriptor, by cloning where the file system can. The copy gets
    /// its name when it is complete.
    func copy(of file: Int32, _ snapshot: FileSnapshot, into name: String) throws(Errno) {
        let source = Descriptor(owning: try check(quietly(O_RDONLY) { cl_reopen(file, $0) }))
        // The number of the content alone: with the document's name, which may be as long as a name
        // may be, the prefix would have no room.
        let draft = Stash.unfinished + name.prefix { $0 != "-" }
        let copy = try Descriptor(
            opening: draft, in: directory, flags: O_RDWR | O_CREAT | O_EXCL, mode: 0o600)
        var result = cl_copy_file(source.raw, copy.raw, snapshot.size, mustStop)
        Protection(of: file).apply(to: copy.raw)
        if result >= 0 {
            let size = (0..<8).map { UInt8(truncatingIfNeeded: snapshot.size >> (56 - 8 * $0)) }
            result = cl_setxattr_fd(copy.raw, Stash.sizeAttribute, size, size.count, 0)
        }
        // A copy of a placeholder must not look like contents.
        if let mark = PlaceholderMark(of: file, size: snapshot.size) { try mark.set(on: copy.raw) }
        if result >= 0 { result = cl_renameat2(directory, draft, directory, name, 0) }
        if result < 0 {
            remove(draft)
            throw Errno(-result)
        }
    }

    /// Removes incomplete copies that a killed daemon has left, and logs without their contents.
    func removeUnfinished() throws(Errno) {
        var names: [String] = []
        try forEachName(in: directory) { name in
            names.append(name.text)
        }
        for name in names where name.hasPrefix(Stash.unfinished) { remove(name) }
        removeLogsWithoutContents(names)
    }

    /// Clones a file into the stash; returns false if the file system cannot.
    func cloneIfPossible(_ file: Int32, _ snapshot: FileSnapshot, into name: String) -> Bool {
        guard mayClone, let source = try? Descriptor(owning: check(cl_reopen(file, O_RDONLY))),
            let copy = try? Descriptor(
                opening: name, in: directory, flags: O_RDWR | O_CREAT | O_EXCL, mode: 0o600)
        else { return false }
        let result = cl_clone_file(source.raw, copy.raw)
        if result == 0 {
            Protection(of: file).apply(to: copy.raw)
            return true
        }
        if [-EOPNOTSUPP, -ENOTTY, -EXDEV].contains(result) {
            cannotClone.store(true, ordering: .relaxed)
        }
        // The log that was kept for these contents stays.
        _ = cl_unlinkat(directory, name, 0)
        return false
    }
}

/// Hexadecimal without leading zeros.
private func hexadecimal(number: UInt64) -> String { String(number, radix: 16) }
