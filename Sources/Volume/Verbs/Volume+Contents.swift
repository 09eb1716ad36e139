import CLinux
import Glibc
import Journal
import Model
import SystemCalls

/// The progress of a download or an eviction.
package struct ContentsProgress: Hashable, Sendable {
    package var items = 0
    package var itemsTotal = 0
    package var bytes: Int64 = 0
    package var bytesTotal: Int64 = 0

    package init() {}
}

/// A document that is being downloaded because a caller waits for it.
package struct ActiveDownload: Sendable {
    /// The path from the root.
    package var path: [Name]
    package var bytes: UInt64
    package var bytesTotal: UInt64
}

// Contents on demand: which documents are on this device, and how they are downloaded and evicted.
extension Volume {
    /// Sets the source of bytes that are not on this device. With nil, callers that need such bytes
    /// fail at once.
    package func setRemote(_ remote: (any RemoteContents)?) {
        hydration.setRemote(remote)
        guard remote != nil else { return }
        recorder.placeholders.askAgain()
        pinned.poke()
    }

    /// Sets the function of the mount that tells whether programs have an inode open.
    package func watchOpenFiles(_ isOpen: @escaping @Sendable (UInt64) -> Bool) {
        openFiles.set(isOpen)
    }

    /// Whether bytes of the document at a path are not on this device.
    package func isDataless(at path: [Name]) throws(VolumeError) -> Bool {
        let file = try found(path)
        return PlaceholderMark(of: file.raw, size: snapshot(file.raw).size) != nil
    }

    /// The documents whose bytes callers wait for, with their progress.
    package func activeDownloads() throws(VolumeError) -> [ActiveDownload] {
        let files = hydration.waitedFor
        if files.isEmpty { return [] }
        return try journal.read { reader in
            try files.compactMap { file in
                guard let item = try reader.item(id: file.mark.item), item.deleted == nil,
                    let path = try reader.path(of: item.key)
                else { return nil }
                return ActiveDownload(
                    path: path, bytes: UInt64(file.bytesHere), bytesTotal: UInt64(file.size))
            }
        }
    }

    /// Sets a callback for contents that were downloaded or evicted, with the paths of their
    /// documents, and for downloads that begin, without a path. It is called on any thread.
    package func onContents(_ body: @escaping @Sendable ([[Name]]) -> Void) {
        hydration.moved.set(body)
    }

    // MARK: Pins

    /// Pins a document, or everything below a directory, to this device. This does not download
    /// anything; `hydrate` does.
    package func pin(at path: [Name]) throws(VolumeError) {
        try catchUp(with: path, timeoutSeconds: 5)
        try journal.write { t in try t.setPin(try self.known(path, t).key, to: true) }
    }

    /// Unpins an item. Below a pinned directory it becomes an exception.
    package func unpin(at path: [Name]) throws(VolumeError) {
        try catchUp(with: path, timeoutSeconds: 5)
        try journal.write { t in
            let item = try self.known(path, t)
            try t.setPin(item.key, to: nil)
            if try t.isPinned(item.key) { try t.setPin(item.key, to: false) }
        }
        pinned.poke()
    }

    package func isPinned(at path: [Name]) throws(VolumeError) -> Bool {
        try journal.read { try $0.isPinned(try self.known(path, $0).key) }
    }

    // MARK: Download

    /// Downloads a document, or everything below a directory, and returns when all bytes are on the
    /// disk. `progress` is called now and then on the caller's thread; returning false ends the
    /// download.
    ///
    /// - Throws: `.offline`, `.timeout`, `.damaged`, `.full` of the first document that cannot be
    ///   downloaded, or would take space that is kept free for programs; `.cancelled`; `.notFound`.
    package func hydrate(
        at path: [Name], progress: @escaping (ContentsProgress) -> Bool = { _ in true },
        isMeant: @escaping ([Name]) -> Bool = { _ in true }
    ) throws(VolumeError) {
        try Downloads(self, try absent(below: path).filter { isMeant($0.path) }).run(progress)
    }

    /// The placeholders at or below a path, with their sizes.
    private func absent(below path: [Name]) throws(VolumeError) -> [(path: [Name], size: Int64)] {
        try catchUp(with: path, timeoutSeconds: 5)
        let item = try journal.read { try self.known(path, $0) }
        guard item.kind == .directory else {
            let file = try found(path)
            let size = snapshot(file.raw).size
            return PlaceholderMark(of: file.raw, size: size) == nil ? [] : [(path, size)]
        }
        return try absentDocuments { (_, names, _) in names.starts(with: path) }
    }

    /// The placeholders that `isMeant` selects by key and path, with their sizes.
    func absentDocuments(_ isMeant: @escaping (Int64, [Name], Reader) throws -> Bool)
        throws(VolumeError) -> [(path: [Name], size: Int64)]
    {
        try journal.read { reader in
            var found: [(path: [Name], size: Int64)] = []
            var cursor: Int64 = 0
            while true {
                let page = try reader.absentItems(after: cursor, limit: 512)
                guard let last = page.last else { return found }
                cursor = last
                for key in page {
                    guard let item = try reader.item(key), item.deleted == nil,
                        let names = try reader.path(of: key), try isMeant(key, names, reader)
                    else { continue }
                    found.append((names, Int64(clamping: item.size)))
                }
            }
        }
    }

    // MARK: For the mount

    /// The state of a file that a program is about to use.
    package enum ContentsFound: Sendable {
        case here
        /// A placeholder, in use until `endUse`.
        case absent(PlaceholderFile)
        /// The file is being evicted, which takes a moment; ask again.
        case evicting
    }

    /// Begins to use a file; `file` may be O_PATH.
    package func use(_ file: Int32, status: stat) throws(Errno) -> ContentsFound {
        let snapshot = FileSnapshot(status)
        guard snapshot.isFile else { return .here }
        switch try hydration.use(file, snapshot) {
        case .whole: return .here
        case .absent(let file): return .absent(file)
        case .evicting: return .evicting
        }
    }

    package func endUse(_ file: PlaceholderFile) { hydration.end(file) }

    /// Keeps a file from being evicted until `allowEviction`. Returns false if it is being
    /// evicted; ask again.
    package func preventEviction(_ inode: UInt64) -> Bool { hydration.keep(inode) }
    package func allowEviction(_ inode: UInt64) { hydration.endKeeping(inode) }

    /// Has bytes fetched. Returns nil if they are present already. Otherwise `done` is called once,
    /// unless it is cancelled first, on a thread that must not be blocked.
    package func want(
        _ need: PlaceholderFile.Need, of file: PlaceholderFile,
        _ done: @escaping @Sendable (VolumeError?) -> Void
    ) -> UInt64? {
        hydration.want(need, of: file, done)
    }

    package func cancel(_ want: UInt64, of file: PlaceholderFile) { file.cancel(want) }

    /// Plans to read ahead of a read of these bytes.
    package func willRead(_ range: Range<Int64>, of file: PlaceholderFile) {
        hydration.willRead(range, of: file)
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

    /// Runs `body`, which may wait for the network, on a thread of its own pool.
    package func remotely(_ body: @escaping @Sendable () -> Void) { hydration.pool.run(body) }

    /// Adjusts a file's attributes to what programs are shown: a placeholder always has its exact
    /// times, and the number of blocks that it takes on this device.
    package func present(_ status: inout stat, of file: () -> Int32?) {
        guard status.st_mode & S_IFMT == S_IFREG, status.st_size > 0 else { return }
        let (known, told) = hydration.look(
            UInt64(status.st_ino), changed: FileSnapshot(status).changed)
        if let told { status.st_ctim = Timestamp(nanoseconds: told).timespec }
        if let known, !known.isVoid {
            let times = known.times
            status.st_mtim = Timestamp(nanoseconds: times.modified).timespec
            status.st_ctim = Timestamp(nanoseconds: times.changed).timespec
            status.st_blocks = max(status.st_blocks, Volume.absentBlocks)
            return
        }
        // A file can be so long that rounding its size up would overflow.
        guard status.st_blocks <= (status.st_size - 1) / 512, let file = file(),
            PlaceholderMark(of: file) != nil
        else { return }
        status.st_blocks = max(status.st_blocks, Volume.absentBlocks)
        if let modified = PlaceholderMark.modified(ofFilling: file) {
            status.st_mtim = Timestamp(nanoseconds: modified).timespec
        }
    }

    /// A placeholder without blocks is shown with one, because tar(1) archives a file without
    /// blocks as zeros, without reading it.
    private static let absentBlocks: blkcnt_t = 1

    /// Notes that a program has set attributes of a file; `modified` says whether its modification
    /// time was among them.
    package func attributesSet(on file: Int32, status: stat, modified: Bool) {
        let snapshot = FileSnapshot(status)
        if let known = hydration.known(snapshot.inode) {
            known.setTimes(snapshot, modified: modified)
        } else if modified, PlaceholderMark.modified(ofFilling: file) != nil {
            try? PlaceholderMark.setFilling(file, modified: snapshot.modified)
        }
    }

    /// Called before a file is emptied. Bytes that are being fetched for it are not written any
    /// more.
    package func willEmpty(inode: UInt64) { hydration.void(inode: inode) }

    /// Called after a file was emptied. An empty file is no placeholder.
    package func didEmpty(_ file: Int32) throws(Errno) { try PlaceholderMark.remove(from: file) }

    // MARK: Lookup

    func known(_ path: [Name], _ reader: Reader) throws -> Item {
        guard let item = try item(at: path, reader) else {
            throw VolumeError(
                .notFound,
                "\(path.shown) is not a document of this volume.")
        }
        return item
    }

    /// Opens the item at a path with O_PATH.
    func found(_ path: [Name]) throws(VolumeError) -> Descriptor {
        do throws(Errno) {
            return try openBeneath(path, from: root, flags: O_PATH)
        } catch {
            throw VolumeError(
                error.isMissing ? .notFound : .system,
                "\(path.shown) cannot be opened: \(error).")
        }
    }

    func snapshot(_ file: Int32) -> FileSnapshot {
        var status = stat()
        _ = cl_fstat(file, &status)
        return FileSnapshot(status)
    }
}

/// A download of several documents, some of them at a time.
final class Downloads: @unchecked Sendable {
    private let volume: Volume
    /// Used by `run` only, from last to first.
    private var waiting: [(path: [Name], size: Int64)]
    private let signal = Signal()
    // The following properties are guarded by `signal`.
    private var underway: [Int: (file: PlaceholderFile, wait: UInt64)] = [:]
    private var ended: [(number: Int, error: VolumeError?)] = []

    private static let together = 16

    init(_ volume: Volume, _ files: [(path: [Name], size: Int64)]) {
        self.volume = volume
        waiting = files.reversed()
    }

    func run(_ progress: (ContentsProgress) -> Bool) throws(VolumeError) {
        var done = ContentsProgress()
        done.itemsTotal = waiting.count
        done.bytesTotal = waiting.reduce(0) { $0 + $1.size }
        var sizes: [Int: Int64] = [:]
        var number = 0
        var failure: VolumeError?
        defer { abandon() }
        while true {
            while failure == nil, sizes.count < Downloads.together, let next = waiting.popLast() {
                guard volume.room.has(sizes.values.reduce(next.size, +)) else {
                    failure = VolumeError(
                        .full,
                        "\(next.path.shown) stays at the hub, because the rest of this disk is "
                            + "kept for what programs write. Free some space. Pinned documents "
                            + "are then downloaded automatically; request others again.")
                    break
                }
                number += 1
                sizes[number] = next.size
                begin(next.path, number)
            }
            guard !sizes.isEmpty else { break }
            let deadline = cl_clock_monotonic_ns() + 100_000_000
            _ = signal.wait(until: deadline) { !ended.isEmpty }
            let (over, partial) = signal.look {
                () -> ([(number: Int, error: VolumeError?)], Int64) in
                defer { ended = [] }
                return (ended, underway.values.reduce(0) { $0 + $1.file.bytesHere })
            }
            for (number, error) in over {
                done.items += 1
                done.bytes += sizes.removeValue(forKey: number) ?? 0
                failure = failure ?? error
            }
            var shown = done
            shown.bytes = min(done.bytes + partial, done.bytesTotal)
            guard progress(shown) else {
                throw VolumeError(.cancelled, "The download was cancelled.")
            }
        }
        if let failure { throw failure }
    }

    private func begin(_ path: [Name], _ number: Int) {
        guard let descriptor = try? volume.found(path), let status = try? descriptor.status(),
            case .absent(let file) = (try? volume.use(descriptor.raw, status: status)) ?? .here
        else {
            // It was removed or is complete by now.
            return signal.change { ended.append((number, nil)) }
        }
        let wait = volume.want(.finish, of: file) { error in self.end(number, file, error) }
        guard let wait else { return end(number, file, nil) }
        signal.change {
            // It may have ended already.
            if !ended.contains(where: { $0.number == number }) { underway[number] = (file, wait) }
        }
    }

    private func end(_ number: Int, _ file: PlaceholderFile, _ error: VolumeError?) {
        signal.change {
            underway[number] = nil
            ended.append((number, error))
        }
        volume.endUse(file)
    }

    private func abandon() {
        let left = signal.look { underway }
        for (file, wait) in left.values where file.cancel(wait) { volume.endUse(file) }
    }
}
