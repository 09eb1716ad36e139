import CLinux
import ChunkStore
import Glibc
import Journal
import Model
import SystemCalls

/// Records packages: all its files at one quiet moment are one version.
/// Only the recorder's thread uses it.
struct PackageRecorder {
    let writer: JournalWriter
    let tree: Int32
    let roles: DirectoryRoles
    let contents: ContentReader
    let chunks: ChunkKeeper
    let placeholders: PlaceholderFetching
    let versions: VersionMaker
    let space: SpaceMaker
    let cuts: PackageCuts
    let powerLoss: PowerLoss?
    let closing: ClosingTime

    func recordPackage(
        _ item: Item, _ work: PendingDocument, _ places: inout [Digest: ChunkLocation]
    ) throws(VolumeError) -> Recording? {
        guard space.fits(work, item.key) else {
            writer.state.pending.postpone(item.key, because: .lacksSpace)
            return nil
        }
        let prior = try writer.look { reader in
            let bytes = try item.current.flatMap { try reader.manifest(of: $0) }
            return bytes.flatMap(Manifest.init(encoded:))
        }
        var live: LivePackage?
        var isShownAgain = false
        if item.deleted == nil {
            guard let cut = try cutPackage(item, prior) else {
                writer.state.pending.postpone(item.key, because: .isWritten)
                if work.attempts > 8, !placeholders.contains(item.key) { writer.startScan() }
                return nil
            }
            // What was replaced is recorded first; it may be the last version's bytes, or newer.
            isShownAgain = !cut.shownAgain.isEmpty && !work.priorContents.isEmpty
            if try canShowAgain(cut.shownAgain, item, work) {
                contents.lost.notShown.current?(item.key)
                writer.state.pending.postpone(item.key, because: .showsLastVersion)
                return nil
            }
            live = cut
        }
        placeholders.endFetching(of: item.key)
        var recording = Recording(item: item, work: work)
        let current = try keepRecovered(
            &recording, isShownAgain ? nil : live?.manifest,
            after: try writer.version(item.current, of: item), &places)
        if let live, let destroyed = live.destroyed {
            recording.item.changed = max(1, live.snapshot.changed)
            if !isShownAgain {
                recording.obstacle =
                    "has no new version: \(destroyed) in it was saved shortly before the machine "
                    + "stopped, and not all of the save reached the disk. Save or remove it to end "
                    + "this."
            }
            try keepShown(recording, live.manifest, prior, &places)
        } else if let live {
            let cut = CutContent(live.manifest)
            if cut.digest != current?.content, current != nil || !live.manifest.entries.isEmpty {
                let save =
                    work.save
                    ?? PendingDocument.Save(
                        actor: Actor(process: 0, uid: 0, program: ""), time: live.snapshot.modified)
                let version = versions.append(
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
        recording.isLiveDeferred = isShownAgain
        return recording
    }

    /// Stores chunks that older versions need. A package from the hub has replaced this one,
    /// perhaps more than once, so the stash holds files of versions older than the current one.
    private func keepReplaced(
        _ recording: Recording, _ live: Manifest?, _ places: inout [Digest: ChunkLocation]
    ) throws(VolumeError) {
        var stashed = recording
        stashed.work.priorContents.removeAll { $0.entry == nil }
        guard !stashed.work.priorContents.isEmpty else { return }
        let key = recording.item.key
        let needed = try writer.look { reader in
            try reader.versions(of: key).reduce(into: Set<Digest>()) { needed, version in
                let manifest = try reader.manifest(of: version.id).flatMap(Manifest.init(encoded:))
                needed.formUnion(manifest?.chunkIDs ?? [])
            }
        }
        let missing = try chunks.missing(needed.subtracting(live?.chunkIDs ?? []), places)
        guard !missing.isEmpty else { return }
        for old in try contents.openPriorContents(&stashed, nil) ?? [] {
            try chunks.store(missing, from: old.source, old.size, &places)
        }
    }

    /// Records a directory that was a package until now: keeps the bytes of its current version.
    func recordPriorPackage(
        _ item: Item, _ work: PendingDocument, _ places: inout [Digest: ChunkLocation]
    ) throws(VolumeError) -> Recording? {
        let bytes = try writer.look { reader in
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
        _ places: inout [Digest: ChunkLocation]
    ) throws(VolumeError) {
        guard let prior else { return }
        var lost = try chunks.missing(prior.chunkIDs.subtracting(live?.chunkIDs ?? []), places)
        guard !lost.isEmpty else { return }
        var stashed = recording
        stashed.work.priorContents.removeAll { $0.entry == nil }
        for old in try contents.openPriorContents(&stashed, nil) ?? [] {
            try chunks.store(lost, from: old.source, old.size, &places)
        }
        lost = try chunks.missing(lost, places)
        for part in movedParts(of: recording.item) where !lost.isEmpty {
            guard let path = try roles.path(of: part.place) else { continue }
            try store(lost, ofFilesIn: prior, below: part.path, at: path, &places)
            lost = try chunks.missing(lost, places)
        }
        for inode in recording.work.priorContents.filter({ $0.entry == nil }).map(\.inode)
        where !lost.isEmpty {
            guard let file = try contents.openInode(inode) else { continue }
            let content = FileContent(descriptor: file.raw)
            try chunks.store(lost, from: content, FileSnapshot(of: file.raw).size, &places)
            lost = try chunks.missing(lost, places)
        }
        try chunks.settleLost(&recording, lost, &places)
    }

    /// Stores the chunks that versions share with the present files, because these files are no
    /// version and so do not count as the place of any chunk.
    private func keepShown(
        _ recording: Recording, _ live: Manifest, _ prior: Manifest?,
        _ places: inout [Digest: ChunkLocation]
    ) throws(VolumeError) {
        var needed = prior?.chunkIDs ?? []
        for (_, manifest) in recording.versions {
            needed.formUnion(Manifest(encoded: manifest)?.chunkIDs ?? [])
        }
        let missing = try chunks.missing(needed.intersection(live.chunkIDs), places)
        guard !missing.isEmpty, let path = try writer.look({ try $0.path(of: recording.item.key) })
        else { return }
        try store(missing, ofFilesIn: live, below: [], at: path, &places)
    }

    /// Stores chunks of files that a package has, or had, in the tree. Of the manifest's files,
    /// those below `part` are looked for below `path`.
    private func store(
        _ ids: Set<Digest>, ofFilesIn manifest: Manifest, below part: [Name], at path: [Name],
        _ places: inout [Digest: ChunkLocation]
    ) throws(VolumeError) {
        for entry in manifest.entries where !ids.isDisjoint(with: entry.chunks.map(\.id)) {
            let names = entry.names
            guard names.starts(with: part),
                let file = try openIfPresent(path + names.dropFirst(part.count), beneath: tree)
            else { continue }
            let snapshot = FileSnapshot(of: file.raw)
            // Something else may have the name now.
            guard snapshot.isFile else { continue }
            try chunks.store(ids, from: FileContent(descriptor: file.raw), snapshot.size, &places)
        }
    }

    /// Where to look for the files of a package's previous version.
    private func movedParts(of item: Item) -> [MovedPart] {
        let moved = writer.state.movedParts[item.key] ?? []
        let isWhole = moved.contains { $0.path.isEmpty && $0.place != .unknown }
        guard !isWhole, item.deleted == nil else { return moved }
        return moved + [MovedPart(path: [], place: .package(item.key, []))]
    }

    /// The present contents of a package in the tree.
    struct LivePackage {
        var manifest: Manifest
        var snapshot: FileSnapshot
        var protection: Protection
        /// A file of which a loss of power destroyed the contents or the end.
        var destroyed: Name?
        /// The damage of the files that can show the contents of the last version.
        var shownAgain: Set<LostPackageFiles.Loss> = []
    }

    private func canShowAgain(
        _ lost: Set<LostPackageFiles.Loss>, _ item: Item, _ work: PendingDocument
    ) throws(VolumeError) -> Bool {
        if lost.contains(.excess) { return true }
        guard !lost.isEmpty, work.priorContents.isEmpty else { return false }
        return try contents.lost.canShowLastVersion(item)
    }

    private func lostFiles(_ powerLoss: PowerLoss, _ prior: Manifest?, of item: Item)
        -> LostPackageFiles
    {
        LostPackageFiles(powerLoss, prior) { [contents] (file, snapshot) throws(VolumeError) in
            try contents.isShortened(file, snapshot, of: item)
        }
    }

    /// Returns nil while a program changes the package, and throws if a file in it cannot be read.
    private func cutPackage(_ item: Item, _ prior: Manifest?) throws(VolumeError)
        -> LivePackage?
    {
        guard let path = try writer.look({ try $0.path(of: item.key) }) else { return nil }
        var changing: UInt64?
        var failure: VolumeError?
        cutting: do throws(Errno) {
            let root = try openBeneath(path, from: tree, flags: O_PATH | O_DIRECTORY)
            guard FileSnapshot(of: root.raw).inode == item.inode else { return nil }
            var builder = PackageBuilder(
                known: cuts[item.key] ?? [:], prior, unchangedSince: item.changed,
                of: Protection(of: root.raw), powerLoss.map { lostFiles($0, prior, of: item) },
                write: contents.write, isOpen: writer.state.unfinished.isOpen,
                mayGoOn: closing.check)
            builder.newest = FileSnapshot(of: root.raw).changed
            try builder.add(directory: root.raw, path: [])
            (changing, failure) = (builder.changing, builder.failure)
            guard !builder.isBusy else { break cutting }
            for inner in builder.absent {
                let file = try openBeneath(inner, from: root.raw, flags: O_PATH)
                placeholders.fetch(file.raw, of: item)
            }
            guard builder.absent.isEmpty else { return nil }
            cuts[item.key] = builder.files
            for file in builder.files.values {
                writer.state.packaged[file.snapshot.inode] = item.key
            }
            for (inode, directory) in builder.directories {
                writer.state.locations[inode] = .package(item.key, directory)
            }
            return LivePackage(
                manifest: builder.manifest,
                snapshot: builder.snapshot(of: FileSnapshot(of: root.raw)),
                protection: builder.protection,
                destroyed: builder.destroyed.keys.min { $0.lexicographicallyPrecedes($1) }
                    .map { Name(bytes: $0) },
                shownAgain: Set(builder.files(toShowAgain: prior).values))
        } catch {
            if error.isMissing { return nil }
            throw VolumeError(.system, "The package \(path.shown) cannot be read: \(error).")
        }
        if let failure {
            throw VolumeError(
                failure.code, "The package \(path.shown) cannot be read: \(failure.message)")
        }
        if let changing { try contents.noteUnfinished(changing, of: item.key) }
        return nil
    }
}
