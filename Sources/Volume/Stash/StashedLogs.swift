import CLinux
import Glibc
import Model
import SystemCalls

// The logs that SQLite databases had when their contents were moved aside.
extension Stash {
    /// The log that a SQLite database had when its contents were moved aside, if it was not empty,
    /// has the name of these contents after this prefix.
    private static let logPrefix = "log."

    /// Links the log of a database whose name is about to be removed, so that the log's removal
    /// does not destroy it. Fails silently where a file cannot have another link.
    func linkLog(beside place: Place, of name: String) {
        for ending in DatabaseLog.endings {
            // A name need not be UTF-8.
            let log = Name(bytes: place.spot.name.bytes + Array(ending.utf8))
            guard let status = try? entryStatus(log, in: place.descriptor),
                FileSnapshot(status).isFile, status.st_size > 0
            else { continue }
            let kept = Stash.logPrefix + name
            guard
                log.withCString({ cl_linkat(place.descriptor, $0, directory, kept, 0) }) >= 0,
                let file = try? open(kept)
            else { return }
            KeptLog(of: file.raw)?.note(on: file.raw, for: name)
            return
        }
    }

    /// Copies the log of a database that a program is about to open, and change together with it.
    /// Without space there is no copy.
    func copyLog(_ log: Int32, of name: String) {
        var status = stat()
        guard cl_fstat(log, &status) == 0 else { return }
        let snapshot = FileSnapshot(status)
        guard
            let copy = try? Descriptor(
                opening: Stash.logPrefix + name, in: directory, flags: O_RDWR | O_CREAT | O_EXCL,
                mode: 0o600)
        else { return }
        let isCopied =
            cl_copy_file(log, copy.raw, snapshot.size, nil) >= 0
            && (try? PlaceholderMark.restore(snapshot.modified, of: copy.raw)) != nil
            && cl_fsync(copy.raw, 0) >= 0
        KeptLog(of: copy.raw)?.note(on: copy.raw, for: name)
        if !isCopied { _ = cl_unlinkat(directory, Stash.logPrefix + name, 0) }
    }

    /// The log that was kept with contents; nil if it was written after them.
    func openLog(of entry: Entry) throws(VolumeError) -> Descriptor? {
        guard let log = try openIfPresent(Stash.logPrefix + entry.file),
            let now = KeptLog(of: log.raw)
        else { return nil }
        // Without the attribute only the daemon's clock tells, which may have been set back.
        let noted = KeptLog(notedOn: log.raw, for: entry.file)
        guard noted.map({ $0 == now }) ?? (now.modified <= entry.saved) else { return nil }
        return log
    }

    func removeLog(of name: String) { _ = cl_unlinkat(directory, Stash.logPrefix + name, 0) }

    /// Removes logs whose contents are no longer in the stash.
    func removeLogsWithoutContents(_ names: [String]) {
        let present = Set(names)
        for name in names where name.hasPrefix(Stash.logPrefix) {
            let owner = String(name.dropFirst(Stash.logPrefix.count))
            if !present.contains(owner) { _ = cl_unlinkat(directory, name, 0) }
        }
    }
}

/// What a log was when it was kept, noted in an attribute of it: a program may write to it after
/// that. The attribute has the number of the contents in its name, because the log of one database
/// may be kept several times.
private struct KeptLog: Equatable {
    let size: Int64
    let modified: Int64

    private static func attribute(_ name: String) -> String {
        "user.concord.log." + name.prefix { $0 != "-" }
    }

    init?(of file: Int32) {
        var status = stat()
        guard cl_fstat(file, &status) == 0 else { return nil }
        let snapshot = FileSnapshot(status)
        (size, modified) = (snapshot.size, snapshot.modified)
    }

    /// Reads what was noted; nil if nothing was.
    init?(notedOn file: Int32, for name: String) {
        var bytes = [UInt8](repeating: 0, count: 16)
        guard cl_getxattr_fd(file, KeptLog.attribute(name), &bytes, 16) == 16
        else { return nil }
        func number(_ range: Range<Int>) -> Int64 {
            Int64(bitPattern: bytes[range].reduce(0) { $0 << 8 | UInt64($1) })
        }
        (size, modified) = (number(0..<8), number(8..<16))
    }

    /// Notes it; nothing is noted where the file system has no attributes.
    func note(on file: Int32, for name: String) {
        let bytes = [size, modified].flatMap { value in
            (0..<8).map { UInt8(truncatingIfNeeded: value >> (56 - 8 * $0)) }
        }
        _ = cl_setxattr_fd(file, KeptLog.attribute(name), bytes, bytes.count, 0)
    }
}
