import CLinux
import Control
import Glibc
import Model
import SystemCalls

/// Copies a folder of another program into a volume. The other sides of conflicts become conflict
/// versions, and old versions become versions, each with the time of its file.
///
/// What the volume has already is left as it is, so an import that was interrupted continues when
/// the command is said again. The folder is only read.
final class FolderImport {
    struct Report {
        var documents = 0
        var versions = 0
        var conflicts = 0
        var deleted = 0
        /// What was there already with the same size and time.
        var present = 0
        /// Sentences about what was not imported.
        var problems: [String] = []
    }

    private let folder: SyncedFolder
    private let place: MountedPath
    private let client: ControlClient
    private let progress: (Report) -> Void
    private var report = Report()
    /// Directories that were made only because documents had been deleted with them.
    private var deletedDirectories: [FilePath] = []

    init(
        _ folder: SyncedFolder, to place: MountedPath, progress: @escaping (Report) -> Void
    ) throws(VolumeError) {
        (self.folder, self.place, self.progress) = (folder, place, progress)
        client = try ControlClient(socket: place.socket)
    }

    /// - Throws: What prevents that anything more is imported: `.full`, `.offline`, `.notFound`
    ///   when the volume was unmounted.
    func run() throws(VolumeError) -> Report {
        var open: [[Name]] = [[]]
        while let directory = open.popLast() {
            do throws(VolumeError) {
                let listing = try folder.list(directory)
                if folder.exists(directory) { try makeDirectory(directory) }
                try importEntries(of: listing, in: directory)
                open += listing.directories.reversed().map { directory + [$0] }
            } catch { try note(error) }
        }
        // Those in others come after them.
        for directory in deletedDirectories.reversed() {
            _ = directory.withCString { rmdir($0) }
        }
        var request = Request(.wait, path: place.components)
        (request.durability, request.timeoutSeconds) = ("disk", 600)
        _ = try client.ask(request, as: Nothing.self, timeoutSeconds: 660)
        return report
    }

    private func importEntries(
        of listing: SyncedFolder.Listing, in directory: [Name]
    ) throws(VolumeError) {
        for document in listing.documents {
            do throws(VolumeError) { try importDocument(document, in: directory) } catch {
                try note(error)
            }
            progress(report)
        }
        for name in listing.links { importLink(directory + [name]) }
        for name in listing.others {
            report.problems.append(
                "\(folder.path(directory + [name])) was not imported, because it is neither a "
                    + "file nor a directory nor a symbolic link")
        }
    }

    /// Notes what could not be imported, or throws it if nothing else can be.
    private func note(_ error: VolumeError) throws(VolumeError) {
        switch error.code {
        case .full, .offline: throw error
        default: report.problems.append(error.message)
        }
    }

    // MARK: Documents

    private func importDocument(
        _ document: SyncedFolder.Document, in directory: [Name]
    ) throws(VolumeError) {
        let path = directory + [document.name]
        guard let current = document.current else { return try importDeleted(document, at: path) }
        var conflicts = document.conflicts
        switch try copy(current, to: path) {
        case .copied: report.documents += 1
        case .equal: report.present += 1
        case .taken: conflicts.insert(current, at: 0)
        }
        if document.versions.isEmpty && conflicts.isEmpty { return }
        guard let history = try history(of: path) else {
            throw VolumeError(
                .invalid,
                "the old versions and conflicts of \(current) were not imported, because files "
                    + "with such names have no versions")
        }
        report.versions += try add(document.versions, to: path, knowing: history)
        report.conflicts += try add(conflicts, to: path, knowing: history, areConflicts: true)
    }

    /// Only old versions are left of it, so it becomes a deleted document.
    private func importDeleted(
        _ document: SyncedFolder.Document, at path: [Name]
    ) throws(VolumeError) {
        let target = place.path.appending(path)
        if let history = try history(of: path) {
            report.versions += try add(
                document.versions, to: path, knowing: history, isDeleted: target.isMissing)
            return
        }
        guard target.isMissing, let newest = try byTime(document.versions).last else {
            throw VolumeError(
                .invalid,
                "the old versions of \(folder.path(path)) were not imported, because "
                    + "\(target) is no document")
        }
        for depth in path.indices.dropFirst() { try makeDirectory(Array(path[..<depth])) }
        _ = try copy(newest, to: path)
        // The answer comes when the file is recorded.
        guard let history = try history(of: path) else {
            throw VolumeError(
                .invalid,
                "\(newest) was imported as \(target), because files with such names have no "
                    + "versions")
        }
        _ = target.withCString { unlink($0) }
        report.deleted += 1
        report.versions += 1
        report.versions += try add(
            document.versions, to: path, knowing: history, isDeleted: true)
    }

    /// Adds versions that the document does not have.
    ///
    /// - Returns: How many there were.
    private func add(
        _ files: [FilePath], to path: [Name], knowing history: HistoryReport,
        areConflicts: Bool = false, isDeleted: Bool = false
    ) throws(VolumeError) -> Int {
        let known = Set(history.versions.map { [$0.modified, Int64($0.size)] })
        let ids = Set(history.versions.map(\.id))
        var count = 0
        for file in try byTime(files) {
            let status = try Self.status(of: file)
            let modified = Timestamp(status.st_mtim).nanoseconds
            if known.contains([modified, Int64(status.st_size)]) {
                report.present += 1
                continue
            }
            let draft = self.draft
            defer { _ = draft.withCString { unlink($0) } }
            try write(file, to: draft)
            var request = Request(.add, path: place.components + path)
            request.from = RawText(path: place.components + [draft.name])
            request.program = "concord import"
            request.time = modified
            request.conflict = areConflicts ? true : nil
            request.deleted = isDeleted ? true : nil
            let added = try client.ask(request, as: AdditionReport.self)
            // The same contents, with another time.
            if ids.contains(added.id) { report.present += 1 } else { count += 1 }
        }
        return count
    }

    private func byTime(_ files: [FilePath]) throws(VolumeError) -> [FilePath] {
        var dated: [(file: FilePath, time: Int64)] = []
        for file in files {
            dated.append((file, Timestamp(try Self.status(of: file).st_mtim).nanoseconds))
        }
        return dated.sorted { ($0.time, $0.file) < ($1.time, $1.file) }.map(\.file)
    }

    /// The versions of a document, as soon as it is recorded; nil if the volume has none at this
    /// path, also no deleted one.
    private func history(of path: [Name]) throws(VolumeError) -> HistoryReport? {
        let request = Request(.versions, path: place.components + path)
        for attempt in 1... {
            do throws(VolumeError) {
                return try client.ask(request, as: HistoryReport.self)
            } catch {
                if error.code == .notFound { return nil }
                // The daemon waits five seconds each time.
                guard error.code == .timeout, attempt < 12 else { throw error }
            }
        }
        return nil
    }

    // MARK: Files

    private enum Copy {
        /// `taken` means that something else has the name.
        case copied, equal, taken
    }

    private func copy(_ source: FilePath, to path: [Name]) throws(VolumeError) -> Copy {
        let target = place.path.appending(path)
        switch target.kind {
        case nil: break
        case .file:
            let (one, two) = (try Self.status(of: source), try Self.status(of: target))
            let isEqual =
                one.st_size == two.st_size
                && Timestamp(one.st_mtim).nanoseconds == Timestamp(two.st_mtim).nanoseconds
            return isEqual ? .equal : .taken
        default:
            throw VolumeError(
                .invalid, "\(source) was not imported, because \(target) is not a file")
        }
        let draft = self.draft
        defer { _ = draft.withCString { unlink($0) } }
        try write(source, to: draft)
        let result = draft.withCString { from in
            target.withCString { cl_renameat2(AT_FDCWD, from, AT_FDCWD, $0, Self.noReplace) }
        }
        if result == -EEXIST { return .taken }
        guard result >= 0 else { throw Self.failure("\(target) cannot be made", Int(result)) }
        return .copied
    }

    private static let noReplace: UInt32 = 1

    /// A new name in the destination. Volumes never treat files with such names as documents.
    private var draft: FilePath {
        let tag = String(UInt64.random(in: .min ... .max), radix: 36)
        return place.path.appending(".#import-\(tag)")
    }

    /// Writes a copy with the contents, permissions, extended attributes and time of the source.
    private func write(_ source: FilePath, to draft: FilePath) throws(VolumeError) {
        let before = try Self.status(of: source)
        let from = source.withCString { cl_openat(AT_FDCWD, $0, O_RDONLY | O_NOFOLLOW, 0) }
        guard from >= 0 else { throw Self.failure("\(source) cannot be read", Int(from)) }
        let reading = Descriptor(owning: from)
        let to = draft.withCString { cl_openat(AT_FDCWD, $0, O_WRONLY | O_CREAT | O_EXCL, 0o600) }
        guard to >= 0 else { throw Self.failure("\(draft) cannot be made", Int(to)) }
        let writing = Descriptor(owning: to)
        let result = cl_copy_file(reading.raw, writing.raw, Int64(before.st_size), nil)
        guard result >= 0 else { throw Self.failure("\(source) cannot be copied", Int(result)) }
        draft.takeAttributes(of: source)
        var times = [before.st_atim, before.st_mtim]
        _ = cl_utimens_fd(writing.raw, &times)
        let after = try Self.status(of: source)
        guard after.st_size == before.st_size,
            Timestamp(after.st_mtim) == Timestamp(before.st_mtim)
        else {
            throw VolumeError(
                .busy, "\(source) has changed while it was copied: say the command again")
        }
    }

    private func makeDirectory(_ directory: [Name]) throws(VolumeError) {
        let target = place.path.appending(directory)
        if target.kind == .directory { return }
        let result = target.withCString { mkdir($0, 0o777) }
        guard result == 0 else {
            throw Self.failure("\(target) cannot be made", Int(-errno))
        }
        if folder.exists(directory) {
            target.takeAttributes(of: folder.path(directory))
        } else {
            deletedDirectories.append(target)
        }
    }

    private func importLink(_ path: [Name]) {
        let (source, target) = (folder.path(path), place.path.appending(path))
        var bytes = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = source.withCString { readlink($0, &bytes, bytes.count - 1) }
        guard count > 0 else { return }
        bytes[count] = 0
        let result = target.withCString { cl_symlinkat(bytes, AT_FDCWD, $0) }
        switch result {
        case -EEXIST: report.present += 1
        case ..<0:
            report.problems.append("\(target) cannot be made: \(Errno(-result))")
        default: report.documents += 1
        }
    }

    private static func status(of file: FilePath) throws(VolumeError) -> stat {
        do throws(Errno) { return try file.status() } catch {
            throw VolumeError(.system, "\(file) cannot be examined: \(error)")
        }
    }

    private static func failure(_ sentence: String, _ result: Int) -> VolumeError {
        let error = Errno(Int32(-result))
        let isFull = error == .noSpace || error == Errno(EDQUOT)
        return VolumeError(isFull ? .full : .system, "\(sentence): \(error)")
    }
}
