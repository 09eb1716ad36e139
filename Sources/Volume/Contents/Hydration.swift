import CLinux
import ChunkStore
import Glibc
import Journal
import Logging
import Model
import Synchronization
import SystemCalls

/// Fetches the bytes of placeholders: it has the placeholders in use and the threads that fetch for
/// them. Readers of one file share what is fetched. A thread that serves requests never waits here.
package final class Hydration: Sendable {
    private struct Registry {
        var files: [UInt64: PlaceholderFile] = [:]
        /// Inodes whose bytes are being evicted.
        var evicting: Set<UInt64> = []
        var whole = WholeFiles()
        /// Inodes whose bytes must not be evicted, with the number of users that need them.
        var kept: [UInt64: Int] = [:]
        /// When placeholders were last closed. Reads that arrive in pieces do not update access
        /// times.
        var lastUses: [UInt64: Int64] = [:]
        var changes: [UInt64: ChangeTime] = [:]
        /// Items whose placeholders are partly filled.
        var partial: Set<Identifier> = []

        func told(_ inode: UInt64, _ actual: Int64) -> Int64? {
            changes[inode].flatMap { $0.actual == actual ? $0.told : nil }
        }

        mutating func tell(_ inode: UInt64, _ change: ChangeTime?) {
            if changes.count >= 1 << 16 { changes = [:] }
            changes[inode] = change
        }
    }

    /// The state of a file that a program is about to use.
    package enum Found: Sendable {
        case here
        /// A placeholder, in use until `endUse`.
        case absent(PlaceholderFile)
        /// The file is being evicted, which takes a moment; ask again.
        case evicting
    }

    private let registry = Mutex(Registry())
    private let source = Mutex<(any RemoteContents)?>(nil)
    /// For work that may wait for the network.
    let pool = WorkerPool(name: "contents", threads: 8)
    /// Work that waits for the disk only, so that no fetch waits for a sync.
    private let disk = WorkerPool(name: "contents disk", threads: 2)
    private let tree: Int32
    private let journal: Journal
    private let packs: PackStore
    private let log: Logger
    /// Called after a transaction of the recorder, and when the journal was told that a document
    /// was downloaded or evicted.
    let journalChanged = CallbackSlot<@Sendable () -> Void>()
    /// Called on any thread for contents that were downloaded or evicted, with the paths of their
    /// documents, and for downloads that begin, without a path.
    package let moved = CallbackSlot<@Sendable ([[Name]]) -> Void>()
    private let zeros = Mutex<[UInt32: Digest]>([:])

    init(tree: Int32, journal: Journal, packs: PackStore, log: Logger) {
        self.tree = tree
        self.journal = journal
        self.packs = packs
        self.log = log
    }

    var remote: (any RemoteContents)? { source.withLock { $0 } }
    func setRemote(_ remote: (any RemoteContents)?) { source.withLock { $0 = remote } }

    func reached() throws(VolumeError) -> any RemoteContents {
        guard let remote else {
            throw VolumeError(
                .offline, "The contents are not on this device, and no hub is connected.")
        }
        return remote
    }

    // MARK: Files in use

    /// Adds a user to a file if it is a placeholder. `file` may be O_PATH.
    package func use(_ file: Int32, _ snapshot: FileSnapshot) throws(Errno) -> Found {
        guard snapshot.isFile, snapshot.size > 0 else { return .here }
        let (inode, changed) = (snapshot.inode, snapshot.changed)
        let (known, removals) = registry.withLock { registry -> (Found?, Int) in
            let removals = registry.whole.removals
            if registry.evicting.contains(inode) { return (.evicting, removals) }
            guard let known = registry.files[inode] else {
                let isWhole = registry.whole.contains(inode, changed: changed)
                return (isWhole ? .here : nil, removals)
            }
            _ = known.changeUsers(by: 1)
            return (.absent(known), removals)
        }
        if let known { return known }
        let now = cl_clock_realtime_ns()
        guard let mark = PlaceholderMark(of: file) else {
            registry.withLock {
                $0.whole.insert(inode, changed: changed, now: now, removals: removals)
            }
            return .here
        }
        let before = FileSnapshot(of: file).changed
        let descriptor = try withOwnerAccess(to: file) { () throws(Errno) in
            Descriptor(owning: try check(cl_reopen(file, O_RDWR | O_NOATIME)))
        }
        let new = try PlaceholderFile(mark, file: descriptor) { inode, _ in
            told(inode, before) ?? before
        }
        let found = registry.withLock { registry -> PlaceholderFile in
            let found = registry.files[inode] ?? new
            registry.files[inode] = found
            _ = found.changeUsers(by: 1)
            return found
        }
        // Another thread may have finished it a moment before; then it is no longer a placeholder.
        guard found !== new || PlaceholderMark(of: file) != nil else {
            new.void()
            endUse(new)
            return .here
        }
        return .absent(found)
    }

    package func endUse(_ file: PlaceholderFile) {
        registry.withLock { registry in
            _ = file.changeUsers(by: -1)
            if registry.lastUses.count >= 4096 { registry.lastUses = [:] }
            registry.lastUses[file.inode] = cl_clock_realtime_ns()
            forget(file, &registry)
        }
    }

    private func forget(_ file: PlaceholderFile, _ registry: inout Registry) {
        guard registry.files[file.inode] === file, file.isIdle else { return }
        registry.files[file.inode] = nil
        guard let changes = file.changes else { return }
        registry.tell(file.inode, changes)
        if file.bytesHere > 0 { registry.partial.insert(file.mark.item) }
    }

    /// Items whose placeholders are partly filled, as far as known since the start.
    var partial: Set<Identifier> { registry.withLock { $0.partial } }

    /// The item is no longer partly filled: it has become complete or empty.
    func forgetPartial(_ item: Identifier) { registry.withLock { _ = $0.partial.remove(item) } }

    /// The change time that programs are shown of an inode; nil when they are shown the actual one.
    func told(_ inode: UInt64, _ actual: Int64) -> Int64? {
        registry.withLock { $0.told(inode, actual) }
    }

    func tell(_ inode: UInt64, _ change: ChangeTime) {
        registry.withLock { $0.tell(inode, change) }
    }

    /// The placeholder in use, if any, and the change time that programs are shown.
    func look(_ inode: UInt64, changed actual: Int64) -> (PlaceholderFile?, told: Int64?) {
        registry.withLock { ($0.files[inode], $0.told(inode, actual)) }
    }

    /// The time of the last use, in nanoseconds since 1970; 0 if it was not used as a placeholder
    /// lately.
    func lastUse(of inode: UInt64) -> Int64 { registry.withLock { $0.lastUses[inode] ?? 0 } }

    func known(_ inode: UInt64) -> PlaceholderFile? { registry.withLock { $0.files[inode] } }

    /// A program is about to empty the file. Bytes that are being fetched for it are not written
    /// any more.
    package func willEmpty(inode: UInt64) {
        guard let file = registry.withLock({ $0.files.removeValue(forKey: inode) }) else { return }
        file.void()
    }

    /// Keeps a file from being evicted until `allowEviction`. Returns false if it is being evicted
    /// already; ask again.
    package func preventEviction(_ inode: UInt64) -> Bool {
        registry.withLock { registry in
            guard !registry.evicting.contains(inode) else { return false }
            registry.kept[inode, default: 0] += 1
            return true
        }
    }

    package func allowEviction(_ inode: UInt64) {
        registry.withLock { registry in
            let count = registry.kept[inode] ?? 0
            registry.kept[inode] = count > 1 ? count - 1 : nil
        }
    }

    /// Runs `body`, which evicts the file's bytes, and makes new users wait meanwhile. Returns
    /// false without running it if the file is in use.
    func evicting(_ inode: UInt64, _ body: () throws(VolumeError) -> Void) throws(VolumeError)
        -> Bool
    {
        let isFree = registry.withLock { registry -> Bool in
            registry.whole.remove(inode)
            return registry.files[inode] == nil && registry.kept[inode] == nil
                && registry.evicting.insert(inode).inserted
        }
        guard isFree else { return false }
        defer { registry.withLock { _ = $0.evicting.remove(inode) } }
        try body()
        return true
    }

    /// Placeholders that a caller waits for.
    var waitedFor: [PlaceholderFile] {
        registry.withLock { Array($0.files.values) }.filter(\.isWaitedFor)
    }

    // MARK: Requests

    /// Has bytes fetched. Returns nil if they are present already. Otherwise `done` is called once,
    /// unless it is cancelled first, on a thread that must not be blocked.
    package func want(
        _ need: PlaceholderFile.Need, of file: PlaceholderFile,
        _ done: @escaping @Sendable (VolumeError?) -> Void
    ) -> UInt64? {
        let isFirst = !file.isWaitedFor
        let number = file.wait(need, done)
        schedule(file)
        if isFirst { moved.current?([]) }
        return number
    }

    /// Plans to read ahead of a read of these bytes.
    package func willRead(_ range: Range<Int64>, of file: PlaceholderFile) {
        file.willRead(range)
        schedule(file)
    }

    private func schedule(_ file: PlaceholderFile) {
        guard file.enqueue() else { return }
        (file.isComplete ? disk : pool).run { self.work(on: file) }
    }

    /// Ends the worker pools; nothing new is started.
    func close() {
        pool.close()
        disk.close()
    }

    private func work(on file: PlaceholderFile) {
        switch file.next() {
        case .nothing: break
        case .list: list(file)
        case .finish: finish(file)
        case .fill(let batch):
            // Another thread may fetch the next chunks while this one waits for the hub.
            schedule(file)
            fill(file, batch)
        }
        schedule(file)
        registry.withLock { forget(file, &$0) }
    }

    // MARK: Fetching

    private func list(_ file: PlaceholderFile) {
        do throws(VolumeError) {
            let version = try version(of: file)
            let manifest = try manifest(of: version)
            guard let entry = try entry(of: file, in: manifest, of: version) else {
                throw VolumeError(
                    .damaged,
                    "The list of chunks of version \(version) does not match the size of its "
                        + "document.")
            }
            file.listed(entry.chunks)
        } catch {
            file.notListed(lost(error, file))
        }
    }

    private func version(of file: PlaceholderFile) throws(VolumeError) -> Identifier {
        try journal.read { try file.mark.version(inode: file.inode, $0) }
    }

    /// What a version has for the file. A package that was rebuilt consists of placeholders, one
    /// for each of its files. Nil if the file is none of the version's, or has no name by now.
    private func entry(
        of file: PlaceholderFile, in manifest: Manifest, of version: Identifier
    ) throws(VolumeError) -> Manifest.Entry? {
        guard manifest.isPackage else {
            return Int64(clamping: manifest.size) == file.size ? manifest.entries.first : nil
        }
        let names = try journal.read { reader in
            let key =
                try reader.item(ofVersion: version) ?? reader.item(id: file.mark.item)?.key
            return try key.flatMap { try reader.path(of: $0) }
        }
        guard let names, let path = file.path, let top = pathOfDescriptor(tree) else { return nil }
        let slash = UInt8(ascii: "/")
        let package = names.reduce(top + [slash]) { $0 + $1.bytes + [slash] }
        guard path.starts(with: package) else { return nil }
        return manifest.entries.first {
            $0.kind == .file && $0.path.elementsEqual(path.dropFirst(package.count))
                && Int64(clamping: $0.size) == file.size
        }
    }

    /// A version's list of chunks from the journal, or else from the hub; the journal then keeps it
    /// too.
    func manifest(of version: Identifier) throws(VolumeError) -> Manifest {
        let known = try journal.read { reader in
            (try reader.version(id: version)?.version, try reader.manifest(of: version))
        }
        if let bytes = known.1, !bytes.isEmpty {
            guard let manifest = Manifest(encoded: bytes) else {
                throw VolumeError(.damaged, "The list of chunks of version \(version) is damaged.")
            }
            return manifest
        }
        let manifest = try reached().manifest(of: version)
        let isRight = known.0.map {
            manifest.size <= $0.size
                && ($0.content.algorithm == .keyed || $0.content == manifest.digest)
        }
        guard isRight ?? true else {
            throw VolumeError(
                .damaged, "The hub sent a list of chunks that is not version \(version)'s.")
        }
        if known.0 != nil {
            let encoded = manifest.encoded
            try journal.write {
                try $0.setManifest(encoded, content: manifest.digest, of: version)
                if manifest.hasPartsOfOthers { try $0.setProtection(of: version, .unknown) }
            }
        }
        return manifest
    }

    private func fill(_ file: PlaceholderFile, _ batch: [Int]) {
        var missing: Set<Int> = []
        do throws(VolumeError) {
            for index in batch where !(try isHere(index, in: file)) { missing.insert(index) }
            for index in batch where !missing.contains(index) { arrived(index, in: file) }
            guard !missing.isEmpty else { return }
            try fetch(&missing, of: file)
        } catch {
            file.failed(batch.filter { file.stage($0) == .underway }, lost(error, file))
        }
    }

    /// Whether the file holds a chunk already, from before a restart, or gets it from the chunk
    /// store.
    private func isHere(_ index: Int, in file: PlaceholderFile) throws(VolumeError) -> Bool {
        let reference = file.chunk(index).reference
        if let held = file.held(index) {
            if Digest.sha256(held) == reference.id { return true }
        } else if reference.id == zeroDigest(reference.length) {
            // The chunk is all zeros, as a hole reads.
            return true
        }
        guard let place = try journal.read({ try $0.place(of: reference.id) }),
            let bytes = try? packs.read(reference.id, at: place)
        else { return false }
        try file.write(bytes, index)
        return true
    }

    /// The document exists even if the hub has lost the version, so programs must not be told
    /// ENOENT.
    private func lost(_ error: VolumeError, _ file: PlaceholderFile) -> VolumeError {
        guard error.code == .notFound else { return error }
        log.error("The hub does not have version \(file.mark.version): \(error)")
        return VolumeError(.damaged, error.message)
    }

    private func zeroDigest(_ length: UInt32) -> Digest {
        if let known = zeros.withLock({ $0[length] }) { return known }
        let digest = Digest.sha256([UInt8](repeating: 0, count: Int(length)))
        zeros.withLock { zeros in
            if zeros.count >= 64 { zeros.removeAll() }
            zeros[length] = digest
        }
        return digest
    }

    /// Fetches chunks. Damaged or missing ones are requested a second time.
    private func fetch(_ missing: inout Set<Int>, of file: PlaceholderFile) throws(VolumeError) {
        let remote = try reached()
        let version = try version(of: file)
        for _ in 0..<2 where !missing.isEmpty {
            let indexes = missing.sorted()
            let references = indexes.map { file.chunk($0).reference }
            var left = missing
            defer { missing = left }
            try remote.chunks(references, of: version) {
                (number, bytes) throws(VolumeError) in
                guard indexes.indices.contains(number), left.contains(indexes[number]),
                    bytes.count == Int(references[number].length),
                    Digest.sha256(bytes) == references[number].id
                else { return }
                try file.write(bytes, indexes[number])
                left.remove(indexes[number])
                arrived(indexes[number], in: file)
            }
        }
        guard !missing.isEmpty else { return }
        throw VolumeError(
            .damaged,
            "The hub sends bytes that are not those of version \(version); run `concord hub check` "
                + "on the hub.")
    }

    private func arrived(_ index: Int, in file: PlaceholderFile) {
        if file.arrived(index) { schedule(file) }
    }

    // MARK: Completion

    private func finish(_ file: PlaceholderFile) {
        do throws(Errno) {
            guard let snapshot = try file.finish(isSynced: false) else { return }
            note(whole: file, snapshot)
            registry.withLock { registry in
                if registry.files[file.inode] === file { registry.files[file.inode] = nil }
                registry.partial.remove(file.mark.item)
                registry.tell(
                    file.inode, ChangeTime(actual: snapshot.changed, told: file.times.changed))
            }
            file.finished()
        } catch {
            // Its mark stays, so it is verified again when a program opens it next.
            log.error("A downloaded document cannot be synced to the disk: \(error).")
            let code: VolumeError.Code = error == .noSpace ? .full : .system
            file.finished(
                VolumeError(code, "Downloaded contents cannot be synced to the disk: \(error)."))
        }
    }

    /// Updates the journal, so that a scan does not take the document for changed. If this update
    /// is lost, the document is cut once more and found to be unchanged.
    private func note(whole file: PlaceholderFile, _ snapshot: FileSnapshot) {
        do {
            let paths = try journal.write { t in
                var paths: [[Name]] = []
                let version = try file.mark.version(inode: file.inode, t)
                for var item in try t.items(inode: file.inode) where item.kind == .file {
                    try t.removeAbsent(item.key)
                    if let path = try t.path(of: item.key) { paths.append(path) }
                    guard item.current == version, item.changed != 0 else { continue }
                    (item.changed, item.modified) = (snapshot.changed, snapshot.modified)
                    try t.update(item)
                }
                return paths
            }
            journalChanged.current?()
            moved.current?(paths)
        } catch {
            log.error("A finished download could not be noted in the journal: \(error)")
        }
    }
}
