import CLinux
import ChunkStore
import Glibc
import Journal
import Model
import SystemCalls

// Cutting a package: all its files at one quiet moment are one version.
extension Recorder {
    func recordPackage(
        _ item: Item, _ work: PendingDocument, syncs: Bool, _ places: inout [Digest: ChunkPlace]
    ) throws(VolumeError) -> Recording? {
        guard fits(work, item.key) else {
            postpone(item.key)
            return nil
        }
        let prior = try look { reader in
            let bytes = try item.current.flatMap { try reader.manifest(of: $0) }
            return bytes.flatMap(Manifest.init(encoded:))
        }
        var live: LivePackage?
        if item.deleted == nil {
            guard let cut = try cutPackage(item, prior, syncs: syncs) else {
                postpone(item.key)
                if work.attempts > 8, !moved.contains(item.key) { startScan() }
                return nil
            }
            live = cut
        }
        endFetching(of: item.key)
        var recording = Recording(item: item, work: work)
        let current = try keepRecovered(
            &recording, live?.manifest, after: try version(item.current, of: item), &places)
        if let live, let destroyed = live.destroyed {
            recording.item.changed = max(1, live.snapshot.changed)
            recording.problem =
                "\(item.name) has no new version: \(destroyed) in it was saved shortly before the "
                + "machine stopped, and not all of the save reached the disk. Save or remove it to "
                + "end this."
            try keepShown(recording, live.manifest, prior, &places)
        } else if let live {
            let cut = CutContent(live.manifest)
            if cut.digest != current?.content, !live.manifest.entries.isEmpty {
                let save =
                    work.save
                    ?? PendingDocument.Save(
                        actor: Actor(process: 0, uid: 0, program: ""), time: live.snapshot.modified)
                let version = append(
                    cut, to: &recording, snapshot: live.snapshot, live.protection, save: save,
                    kind: .current, after: current)
                recording.item.current = version.id
            } else if cut.digest == current?.content {
                recording.protect(current, as: live.protection)
            }
            recording.item.size = live.manifest.size
            recording.item.modified = live.snapshot.modified
            recording.item.changed = max(1, live.snapshot.changed)
        }
        try keepReplaced(recording, live?.manifest, &places)
        try keepPackage(&recording, prior, live?.manifest, &places)
        return recording
    }

    /// Stores chunks that older versions need. A package from the hub has replaced this one,
    /// perhaps more than once, so the stash holds files of versions older than the current one.
    private func keepReplaced(
        _ recording: Recording, _ live: Manifest?, _ places: inout [Digest: ChunkPlace]
    ) throws(VolumeError) {
        var stashed = recording
        stashed.work.priorContents.removeAll { $0.entry == nil }
        guard !stashed.work.priorContents.isEmpty else { return }
        let key = recording.item.key
        let needed = try look { reader in
            try reader.versions(of: key).reduce(into: Set<Digest>()) { needed, version in
                let manifest = try reader.manifest(of: version.id).flatMap(Manifest.init(encoded:))
                needed.formUnion(manifest?.chunkIDs ?? [])
            }
        }
        let missing = try missing(needed.subtracting(live?.chunkIDs ?? []), places)
        guard !missing.isEmpty else { return }
        for old in try openPriorContents(&stashed, nil) ?? [] {
            try store(missing, from: old.source, old.size, &places)
        }
    }

    /// Records a directory that was a package until now: keeps the bytes of its current version.
    func recordPriorPackage(
        _ item: Item, _ work: PendingDocument, _ places: inout [Digest: ChunkPlace]
    ) throws(VolumeError) -> Recording? {
        let bytes = try look { reader in
            try item.current.flatMap { try reader.manifest(of: $0) }
        }
        var recording = Recording(item: item, work: work)
        try keepPackage(&recording, bytes.flatMap(Manifest.init(encoded:)), nil, &places)
        return recording
    }

    /// Stores the bytes of the previous version that the package no longer has. They are in the
    /// stash, file by file, or where the package or a part of it was moved.
    private func keepPackage(
        _ recording: inout Recording, _ prior: Manifest?, _ live: Manifest?,
        _ places: inout [Digest: ChunkPlace]
    ) throws(VolumeError) {
        guard let prior else { return }
        var lost = try missing(prior.chunkIDs.subtracting(live?.chunkIDs ?? []), places)
        guard !lost.isEmpty else { return }
        var stashed = recording
        stashed.work.priorContents.removeAll { $0.entry == nil }
        for old in try openPriorContents(&stashed, nil) ?? [] {
            try store(lost, from: old.source, old.size, &places)
        }
        lost = try missing(lost, places)
        for part in movedParts(of: recording.item) where !lost.isEmpty {
            guard let path = try path(of: part.place) else { continue }
            try store(lost, ofFilesIn: prior, below: part.path, at: path, &places)
            lost = try missing(lost, places)
        }
        for inode in recording.work.priorContents.filter({ $0.entry == nil }).map(\.inode)
        where !lost.isEmpty {
            guard let file = try openInode(inode) else { continue }
            let content = FileContent(descriptor: file.raw)
            try store(lost, from: content, status(file.raw).size, &places)
            lost = try missing(lost, places)
        }
        try settleLost(&recording, lost, &places)
    }

    /// Stores the chunks that versions share with the present files, because these files are no
    /// version and so do not count as the place of any chunk.
    private func keepShown(
        _ recording: Recording, _ live: Manifest, _ prior: Manifest?,
        _ places: inout [Digest: ChunkPlace]
    ) throws(VolumeError) {
        var needed = prior?.chunkIDs ?? []
        for (_, manifest) in recording.versions {
            needed.formUnion(Manifest(encoded: manifest)?.chunkIDs ?? [])
        }
        let missing = try missing(needed.intersection(live.chunkIDs), places)
        guard !missing.isEmpty, let path = try look({ try $0.path(of: recording.item.key) })
        else { return }
        try store(missing, ofFilesIn: live, below: [], at: path, &places)
    }

    /// Stores chunks of files that a package has, or had, in the tree. Of the manifest's files,
    /// those below `part` are looked for below `path`.
    private func store(
        _ ids: Set<Digest>, ofFilesIn manifest: Manifest, below part: [Name], at path: [Name],
        _ places: inout [Digest: ChunkPlace]
    ) throws(VolumeError) {
        for entry in manifest.entries where !ids.isDisjoint(with: entry.chunks.map(\.id)) {
            let names = entry.names
            guard names.starts(with: part),
                let file = try? openBeneath(
                    path + names.dropFirst(part.count), from: tree,
                    flags: O_RDONLY | O_NOATIME | O_NONBLOCK)
            else { continue }
            let snapshot = status(file.raw)
            // Something else may have the name now.
            guard snapshot.isFile else { continue }
            try store(ids, from: FileContent(descriptor: file.raw), snapshot.size, &places)
        }
    }

    /// Where to look for the files of a package's previous version.
    private func movedParts(of item: Item) -> [MovedPart] {
        let moved = state.movedParts[item.key] ?? []
        let isWhole = moved.contains { $0.path.isEmpty && $0.place != .unknown }
        guard !isWhole, item.deleted == nil else { return moved }
        return moved + [MovedPart(path: [], place: .package(item.key, []))]
    }

    /// Adds all files of the package to its prior contents, because they are about to belong to
    /// something else. They are read at `place`, or in the stash when they are moved there.
    func needPackage(_ item: Item, at place: Location) {
        state.movedParts[item.key] = [MovedPart(path: [], place: place)]
        needFiles(of: item.key)
    }

    /// Adds the files of a part of the package to its prior contents, because this part was moved
    /// out of the package to `place`.
    func need(part: [Name], of package: Int64, _ snapshot: FileSnapshot, at place: Location) {
        state.movedParts[package, default: []].append(MovedPart(path: part, place: place))
        if snapshot.isDirectory {
            // It is not known which of the package's files are in it, so all of them are added.
            needFiles(of: package)
        } else if snapshot.isFile {
            touch(package) { $0.priorContents.append(.present(in: snapshot.inode)) }
        }
    }

    private func needFiles(of package: Int64) {
        var priorContents: [PriorContent] = []
        for (inode, owner) in state.packaged.values where owner == package {
            guard state.pending.dependents[inode]?.contains(package) != true else { continue }
            priorContents.append(.present(in: inode))
        }
        guard !priorContents.isEmpty else { return }
        touch(package) { $0.priorContents += priorContents }
    }

    /// Updates the places of moved parts after a directory, which may contain some, was renamed.
    func updateMovedParts(below old: Location, to new: Location) {
        for (key, parts) in state.movedParts.values
        where parts.contains(where: { $0.place.path(from: old) != nil }) {
            state.movedParts[key] = parts.map { part in
                guard let path = part.place.path(from: old) else { return part }
                return MovedPart(path: part.path, place: path.reduce(new) { inside($0, $1) })
            }
        }
    }

    /// The present contents of a package in the tree.
    struct LivePackage {
        var manifest: Manifest
        var snapshot: FileSnapshot
        var protection: Protection
        /// A file of which a loss of power destroyed the contents or the end.
        var destroyed: Name?
    }

    /// Returns nil while a program changes the package, and if the last version of files that a
    /// loss of power has damaged is shown soon.
    private func cutPackage(_ item: Item, _ prior: Manifest?, syncs: Bool) throws(VolumeError)
        -> LivePackage?
    {
        guard let path = try look({ try $0.path(of: item.key) }) else { return nil }
        if syncs { try syncTree() }
        do throws(Errno) {
            let root = try openBeneath(path, from: tree, flags: O_PATH | O_DIRECTORY)
            guard status(root.raw).inode == item.inode else { return nil }
            var builder = PackageBuilder(
                known: packageCuts[item.key] ?? [:], prior, unchangedSince: item.changed,
                powerLoss.map { LostPackageFiles($0, prior) }, mayGoOn: checkTime)
            builder.newest = status(root.raw).changed
            try builder.add(directory: root.raw, path: [])
            guard !builder.isBusy else { return nil }
            if builder.hasExcess {
                notShown.current?(item.key)
                return nil
            }
            for inner in builder.absent {
                let file = try openBeneath(inner, from: root.raw, flags: O_PATH)
                fetch(file.raw, of: item)
            }
            guard builder.absent.isEmpty else { return nil }
            packageCuts[item.key] = builder.files
            for file in builder.files.values { state.packaged[file.snapshot.inode] = item.key }
            for (inode, directory) in builder.directories {
                state.locations[inode] = .package(item.key, directory)
            }
            return LivePackage(
                manifest: builder.manifest, snapshot: builder.snapshot(of: status(root.raw)),
                protection: Protection(of: root.raw),
                destroyed: builder.destroyed.map { Name(bytes: $0) })
        } catch {
            if error.isMissing { return nil }
            throw VolumeError(.system, "The package \(path.shown) cannot be read: \(error).")
        }
    }
}

extension Volume {
    /// Cuts a file or a package that is no item.
    ///
    /// - Throws: `.notFound`; `.busy` while a program writes to it.
    static func cutAside(_ path: [Name], in tree: Int32) throws(VolumeError)
        -> (manifest: Manifest, snapshot: FileSnapshot, protection: Protection)
    {
        do throws(Errno) {
            let file = try openBeneath(path, from: tree, flags: O_RDONLY | O_NOATIME | O_NONBLOCK)
            let snapshot = FileSnapshot(try file.status())
            let protection = Protection(of: file.raw)
            var builder = PackageBuilder(known: [:], nil, unchangedSince: 0)
            if snapshot.isDirectory {
                try builder.add(directory: file.raw, path: [])
                if !builder.isBusy, builder.absent.isEmpty {
                    return (builder.manifest, builder.snapshot(of: snapshot), protection)
                }
            } else if snapshot.isFile {
                let chunks = try? cutFile(file.raw, size: snapshot.size)
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

/// Walks a package and collects its manifest.
private struct PackageBuilder {
    let known: [[UInt8]: PackageFile]
    /// The files of the previous version by path; empty if they cannot be used.
    private var prior: [[UInt8]: Manifest.Entry] = [:]
    private let since: Int64
    /// Called for each chunk; an error that it throws ends the cutting.
    private let mayGoOn: () throws(VolumeError) -> Void
    /// The newest change time of anything in the package. Programs cannot set change times back.
    var newest: Int64 = 0
    var entries: [Manifest.Entry] = []
    var files: [[UInt8]: PackageFile] = [:]
    var directories: [UInt64: [Name]] = [:]
    var isBusy = false
    /// Placeholders, which must be downloaded before the package can become a version.
    var absent: [[Name]] = []
    private let lostFiles: LostPackageFiles?
    /// A file of which a loss of power destroyed the contents or the end.
    var destroyed: [UInt8]?
    /// Whether a file is the last version's, followed by an end that a loss of power destroyed.
    var hasExcess = false

    init(
        known: [[UInt8]: PackageFile], _ manifest: Manifest?, unchangedSince: Int64,
        _ lostFiles: LostPackageFiles? = nil, mayGoOn: @escaping () throws(VolumeError) -> Void = {}
    ) {
        self.known = known
        self.lostFiles = lostFiles
        self.mayGoOn = mayGoOn
        since = unchangedSince
        guard since > 0, known.isEmpty, let manifest else { return }
        for entry in manifest.entries where entry.kind == .file { prior[entry.path] = entry }
    }

    var manifest: Manifest {
        Manifest(entries: entries.sorted { $0.path.lexicographicallyPrecedes($1.path) })
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
            let snapshot = FileSnapshot(try entryStatus(name, in: directory))
            try add(name, snapshot, in: directory, path: path + [name])
        }
    }

    private mutating func add(
        _ name: Name, _ snapshot: FileSnapshot, in directory: Int32, path: [Name]
    )
        throws(Errno)
    {
        var entry = Manifest.Entry(
            path: Array(path.map(\.bytes).joined(separator: [UInt8(ascii: "/")])),
            mode: snapshot.permissions, modified: snapshot.modified)
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
                if !isBusy, destroyed != entry.path { absent.append(path) }
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
        if cl_probe_writers(file.raw) == -EAGAIN {
            isBusy = true
            return nil
        }
        if PlaceholderMark(of: file.raw, size: snapshot.size) != nil { return nil }
        if lostFiles?.powerLoss.destroyed(file.raw, snapshot) == true {
            destroyed = key
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
        switch lostFiles?.loss(in: file.raw, snapshot, at: key) {
        case nil: break
        case .excess: (hasExcess, destroyed) = (true, key)
        case .contents: destroyed = key
        }
        guard destroyed != key else { return nil }
        guard snapshot.size <= PackStore.Limits.contentBytes else { throw Errno(EFBIG) }
        let cut = try? cutFile(file.raw, size: snapshot.size) { (_, _) throws(VolumeError) in
            try mayGoOn()
        }
        guard let chunks = cut,
            !FileSnapshot(try file.status()).differs(from: snapshot)
        else {
            isBusy = true
            return nil
        }
        files[key] = PackageFile(snapshot: snapshot, chunks: chunks)
        return chunks
    }
}
