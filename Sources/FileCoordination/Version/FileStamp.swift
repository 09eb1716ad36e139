import Control
import Foundation
import Glibc

/// Identifies the state of a file without reading it: size and modification time, for a directory
/// those of all that it contains. The inode does not count, because a safe save changes it while a
/// copy of the contents has the same size and time.
struct FileStamp: Hashable, Sendable {
    private struct Entry: Hashable {
        let name: [UInt8]
        let mode: mode_t
        let size: Int64
        let seconds: Int
        let nanoseconds: Int
    }

    private var entries: [Entry] = []
    /// The newest modification time.
    private(set) var modified = Date.distantPast
    /// The newest modification time of anything in a directory, without its own.
    private var newest = timespec()

    /// Nil when there is nothing at `path`.
    init?(_ path: FilePath) {
        guard let status = try? path.status() else { return nil }
        add([], path, status)
        entries.sort { $0.name.lexicographicallyPrecedes($1.name) }
    }

    /// The stamp of a file or a link, or an empty one for a directory, without what it contains.
    init?(shallow path: FilePath, _ status: stat) {
        if FileKind(status) != .directory { add([], path, status) }
    }

    private mutating func add(_ name: [UInt8], _ path: FilePath, _ status: stat) {
        let kind = FileKind(status)
        let isDirectory = kind == .directory
        // A directory's time is left out because temporary files change it. Its names are compared
        // anyway.
        entries.append(
            Entry(
                name: name, mode: status.st_mode & S_IFMT,
                size: isDirectory ? 0 : Int64(status.st_size),
                seconds: isDirectory ? 0 : status.st_mtim.tv_sec,
                nanoseconds: isDirectory ? 0 : status.st_mtim.tv_nsec))
        modified = max(modified, Date(status.st_mtim))
        if !name.isEmpty, newest < status.st_mtim { newest = status.st_mtim }
        guard isDirectory else { return }
        for child in (try? path.children()) ?? [] {
            let path = path.appending(child)
            guard let status = try? path.status() else { continue }
            add(name + [0x2F] + child.bytes, path, status)
        }
    }

    /// The stamp of a package in the form in which a save names its base: the size of all files and
    /// the newest time of anything in it. Nil for a file.
    var packageBase: String? {
        guard entries.first?.mode == S_IFDIR else { return nil }
        let size = entries.reduce(0) { $1.mode == S_IFREG ? $0 + $1.size : $0 }
        return "\(size) \(newest.tv_sec) \(newest.tv_nsec)"
    }

    /// The stamp in the form in which a save names its base (``FilePath/name(base:)``); nil for a
    /// directory.
    var base: [UInt8]? {
        guard entries.count == 1, entries[0].mode != S_IFDIR else { return nil }
        let entry = entries[0]
        return Array("\(entry.size) \(entry.seconds) \(entry.nanoseconds)".utf8)
    }

    /// The size of a file; nil for a directory.
    var size: Int64? { base == nil ? nil : entries[0].size }

    static func == (one: FileStamp, other: FileStamp) -> Bool { one.entries == other.entries }
    func hash(into hasher: inout Hasher) { hasher.combine(entries) }
}

extension Data {
    /// A hash for comparisons within this process; nil for contents over 16 MiB, which would take
    /// long.
    var contentHash: Int? {
        guard count <= 1 << 24 else { return nil }
        var hasher = Hasher()
        for region in regions { region.withUnsafeBytes { hasher.combine(bytes: $0) } }
        return hasher.finalize()
    }
}

extension timespec {
    fileprivate static func < (one: timespec, other: timespec) -> Bool {
        (one.tv_sec, one.tv_nsec) < (other.tv_sec, other.tv_nsec)
    }
}

extension Date {
    init(_ time: timespec) {
        self.init(timeIntervalSince1970: Double(time.tv_sec) + Double(time.tv_nsec) / 1e9)
    }
}
