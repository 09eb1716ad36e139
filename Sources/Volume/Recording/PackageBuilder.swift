import CLinux
import ChunkStore
import Glibc
import Journal
import Model
import SystemCalls

/// A file in a package as it was last cut. It is not read again while its attributes are unchanged.
struct PackageFile {
    var snapshot: FileSnapshot
    var chunks: [ChunkReference]
}

/// The files of each package as they were last cut, by their paths. Only the recorder's thread uses
/// it.
final class PackageCuts {
    private var files: [Int64: [[UInt8]: PackageFile]] = [:]

    subscript(package: Int64) -> [[UInt8]: PackageFile]? {
        get { files[package] }
        set { files[package] = newValue }
    }

    /// The path that a file has in a package.
    func path(of inode: UInt64, in package: Int64) -> [UInt8]? {
        files[package]?.first { $0.value.snapshot.inode == inode }?.key
    }
}

/// Walks a package and collects its manifest.
struct PackageBuilder {
    let known: [[UInt8]: PackageFile]
    /// The files of the previous version by path; empty if they cannot be used.
    private var prior: [[UInt8]: Manifest.Entry] = [:]
    private let since: Int64
    /// Called for each file before it is cut.
    private let write: (Int32) throws(Errno) -> Void
    /// Whether a program is known to have a file open for writing. It may be about to empty a file
    /// whose contents are in the stash already.
    private let isOpen: (UInt64) -> Bool
    /// Called for each chunk; an error that it throws ends the cutting.
    private let mayGoOn: () throws(VolumeError) -> Void
    /// The newest change time of anything in the package. Programs cannot set change times back.
    var newest: Int64 = 0
    /// The protection of the package itself.
    private let package: Protection
    /// The protection of the version: that of the package, restricted by those of its parts.
    private(set) var protection: Protection
    var entries: [Manifest.Entry] = []
    var files: [[UInt8]: PackageFile] = [:]
    var directories: [UInt64: [Name]] = [:]
    var isBusy = false
    /// The inode of a file that a program has begun to write to while it was read.
    private(set) var changing: UInt64?
    /// Why a file could not be read, if no program is the cause. `isBusy` is set then, too.
    private(set) var failure: VolumeError?
    /// Placeholders, which must be downloaded before the package can become a version.
    var absent: [[Name]] = []
    private let lostFiles: LostPackageFiles?
    /// The files of which a loss of power destroyed the contents or the end, by path.
    var destroyed: [[UInt8]: LostPackageFiles.Loss] = [:]

    init(
        known: [[UInt8]: PackageFile], _ manifest: Manifest?, unchangedSince: Int64,
        of package: Protection = .unknown, _ lostFiles: LostPackageFiles? = nil,
        write: @escaping (Int32) throws(Errno) -> Void = { _ in },
        isOpen: @escaping (UInt64) -> Bool = { _ in false },
        mayGoOn: @escaping () throws(VolumeError) -> Void = {}
    ) {
        self.package = package
        protection = package
        self.known = known
        self.lostFiles = lostFiles
        self.write = write
        self.isOpen = isOpen
        self.mayGoOn = mayGoOn
        since = unchangedSince
        guard since > 0, known.isEmpty, let manifest else { return }
        for entry in manifest.entries where entry.kind == .file { prior[entry.path] = entry }
    }

    var manifest: Manifest {
        Manifest(entries: entries.sorted { $0.path.lexicographicallyPrecedes($1.path) })
    }

    /// The destroyed files that can show the contents of the last version: all of them if nothing
    /// else in the package has changed, and otherwise those that only have lost what was appended.
    /// A package with files of two saves would be contents that no program wrote.
    func files(toShowAgain last: Manifest?) -> [[UInt8]: LostPackageFiles.Loss] {
        let before = (last?.entries ?? []).filter { $0.kind == .file }
        let now = entries.filter { $0.kind == .file }
        let present = Dictionary(now.map { ($0.path, $0.chunks) }) { $1 }
        let isUnchanged =
            absent.isEmpty && !destroyed.values.contains(.unfinished)
            && before.count == now.count + destroyed.count
            && before.allSatisfy { destroyed[$0.path] != nil || present[$0.path] == $0.chunks }
        return isUnchanged ? destroyed : destroyed.filter { $0.value == .excess }
    }

    /// The attributes of the package; `directory` are those of its directory.
    func snapshot(of directory: FileSnapshot) -> FileSnapshot {
        var snapshot = directory
        snapshot.modified = entries.map(\.modified).max() ?? snapshot.modified
        snapshot.changed = newest
        return snapshot
    }

    mutating func add(directory: Int32, path: [Name]) throws(Errno) {
        var names: [Name] = []
        try forEachName(in: directory) { names.append($0) }
        for name in names.sorted() where !isBusy {
            let status = try entryStatus(name, in: directory)
            let snapshot = FileSnapshot(status)
            let part = Protection(status)
            protection = protection.covering(part, isDirectory: snapshot.isDirectory)
            let isOfAnother =
                part.owner != package.owner
                && package.covering(part, isDirectory: snapshot.isDirectory) == .unknown
            try add(name, snapshot, isOfAnother, in: directory, path: path + [name])
        }
    }

    private mutating func add(
        _ name: Name, _ snapshot: FileSnapshot, _ isOfAnother: Bool, in directory: Int32,
        path: [Name]
    )
        throws(Errno)
    {
        var entry = Manifest.Entry(
            path: Array(path.map(\.bytes).joined(separator: [UInt8(ascii: "/")])),
            mode: snapshot.permissions, isOfAnother: isOfAnother, modified: snapshot.modified)
        newest = max(newest, snapshot.changed)
        if snapshot.isDirectory {
            entry.kind = .directory
            entries.append(entry)
            directories[snapshot.inode] = path
            let inner = try openBeneath([name], from: directory, flags: O_PATH | O_DIRECTORY)
            try add(directory: inner.raw, path: path)
        } else if snapshot.isSymlink {
            entry.kind = .symlink
            entry.target = try target(of: name, in: directory)
            entry.size = UInt64(entry.target.count)
            entries.append(entry)
        } else if snapshot.isFile {
            let chunks = try chunks(of: name, snapshot, in: directory, key: entry.path)
            guard let chunks else {
                if !isBusy, destroyed[entry.path] == nil { absent.append(path) }
                return
            }
            entry.size = UInt64(snapshot.size)
            entry.chunks = chunks
            entries.append(entry)
        }
    }

    private func target(of name: Name, in directory: Int32) throws(Errno) -> [UInt8] {
        var buffer = [UInt8](repeating: 0, count: 4096)
        let length = try name.withCString { (text) throws(Errno) in
            try check(
                buffer.withUnsafeMutableBytes {
                    cl_readlinkat(
                        directory, text, $0.baseAddress!.assumingMemoryBound(to: CChar.self),
                        $0.count)
                })
        }
        return Array(buffer[..<length])
    }

    /// Returns nil if a program is writing the file, or it is a placeholder or was destroyed.
    private mutating func chunks(
        of name: Name, _ snapshot: FileSnapshot, in directory: Int32, key: [UInt8]
    ) throws(Errno) -> [ChunkReference]? {
        let file = try openBeneath(
            [name], from: directory, flags: O_RDONLY | O_NOATIME | O_NONBLOCK)
        if isOpen(snapshot.inode) || cl_probe_writers(file.raw) == -EAGAIN {
            isBusy = true
            return nil
        }
        if PlaceholderMark(of: file.raw, size: snapshot.size) != nil { return nil }
        if lostFiles?.powerLoss.destroyed(file.raw, snapshot) == true {
            destroyed[key] = .contents
            return nil
        }
        if let before = known[key], !before.snapshot.differs(from: snapshot) {
            files[key] = before
            return before.chunks
        }
        if let entry = prior[key], snapshot.changed <= since, entry.size == UInt64(snapshot.size),
            entry.modified == snapshot.modified
        {
            files[key] = PackageFile(snapshot: snapshot, chunks: entry.chunks)
            return entry.chunks
        }
        do throws(VolumeError) {
            if let loss = try lostFiles?.loss(in: file.raw, snapshot, at: key) {
                destroyed[key] = loss
                return nil
            }
        } catch {
            stop(error, at: snapshot)
            return nil
        }
        guard snapshot.size <= PackStore.Limits.contentBytes else { throw Errno(EFBIG) }
        try write(file.raw)
        let chunks: [ChunkReference]
        do throws(VolumeError) {
            chunks = try cutFile(file.raw, size: snapshot.size) { (_, _) throws(VolumeError) in
                try mayGoOn()
            }
        } catch {
            stop(error, at: snapshot)
            return nil
        }
        guard !FileSnapshot(try file.status()).differs(from: snapshot) else {
            isBusy = true
            changing = snapshot.inode
            return nil
        }
        files[key] = PackageFile(snapshot: snapshot, chunks: chunks)
        return chunks
    }

    private mutating func stop(_ error: VolumeError, at snapshot: FileSnapshot) {
        isBusy = true
        if error.code == .busy { changing = snapshot.inode } else { failure = error }
    }
}

extension PackageBuilder {
    /// Cuts a file or a package that is no item.
    ///
    /// - Throws: `.notFound`; `.busy` while a program writes to it.
    static func cutAside(_ path: [Name], in tree: Int32) throws(VolumeError)
        -> (manifest: Manifest, snapshot: FileSnapshot, protection: Protection)
    {
        var failure: VolumeError?
        do throws(Errno) {
            let file = try openBeneath(path, from: tree, flags: O_RDONLY | O_NOATIME | O_NONBLOCK)
            let snapshot = FileSnapshot(try file.status())
            let protection = Protection(of: file.raw)
            var builder = PackageBuilder(known: [:], nil, unchangedSince: 0, of: protection)
            if snapshot.isDirectory {
                try builder.add(directory: file.raw, path: [])
                if !builder.isBusy, builder.absent.isEmpty {
                    return (
                        builder.manifest, builder.snapshot(of: snapshot), builder.protection
                    )
                }
                failure = builder.failure
            } else if snapshot.isFile {
                var chunks: [ChunkReference]?
                do throws(VolumeError) {
                    chunks = try cutFile(file.raw, size: snapshot.size)
                } catch { failure = error.code == .busy ? nil : error }
                let isStill = !FileSnapshot(try file.status()).differs(from: snapshot)
                if let chunks, isStill, cl_probe_writers(file.raw) != -EAGAIN {
                    let manifest = Manifest(
                        chunks: chunks, mode: snapshot.permissions, modified: snapshot.modified)
                    return (manifest, snapshot, protection)
                }
            }
        } catch {
            throw VolumeError(
                error.isMissing ? .notFound : .system,
                "\(path.shown) cannot be read: \(error).")
        }
        if let failure { throw failure }
        throw VolumeError(
            .busy, "\(path.shown) is being written now, or is neither a file nor a directory.")
    }
}

extension Manifest.Entry {
    /// Its path from the package.
    package var names: [Name] {
        path.split(separator: UInt8(ascii: "/")).map { Name(bytes: Array($0)) }
    }
}
