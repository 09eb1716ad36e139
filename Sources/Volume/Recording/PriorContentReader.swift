import CLinux
import ChunkStore
import Glibc
import Journal
import Model
import SystemCalls

/// The contents that an inode held after the prior content that is being read.
private struct LaterContent {
    var source: AnySource
    /// Nil if it was not cut.
    var chunks: [ChunkReference]?
}

/// The result of opening a prior content.
private enum Opening {
    case found(CutPriorContent)
    /// It was recorded before, is destroyed, or never was a content of its own.
    case nothing
    /// An empty file, or destroyed pre-images: nothing older can be read through it.
    case empty
    /// A program has it open for writing.
    case busy
    case notYet
}

// Reading prior contents, from the stash or from another name in the tree.
extension ContentReader {
    /// Cuts the prior contents, oldest first. Those that a program is still writing are kept for
    /// later, in `recording.rest`. Returns nil if it must be tried again later.
    func openPriorContents(_ recording: inout Recording, _ live: LiveFile?) throws(VolumeError)
        -> [CutPriorContent]?
    {
        var found: [CutPriorContent] = []
        // The loop goes from the newest to the oldest; each inode's entry is what it held next.
        var bases: [UInt64: LaterContent] = [:]
        if let live {
            bases[live.snapshot.inode] = LaterContent(
                source: .file(live.content), chunks: live.cut.manifest.fileChunks)
        }
        for prior in recording.work.priorContents.reversed() {
            switch try open(prior, recording, live, &bases) {
            case .found(let cut):
                let chunks = cut.prior.isBase ? nil : cut.cut.manifest.fileChunks
                bases[prior.inode] = LaterContent(source: cut.source, chunks: chunks)
                if let logged = try StashedDatabase(contents: self).content(cut, recording.item) {
                    found.append(logged)
                }
                found.append(cut)
            case .empty: bases[prior.inode] = LaterContent(source: .nothing)
            case .nothing: break
            case .busy:
                if isJustDisplaced(prior) { return nil }
                recording.rest.insert(prior, at: 0)
            case .notYet: return nil
            }
        }
        return found.reversed()
    }

    /// Whether the file was replaced or removed a moment ago. A program that still has it open for
    /// writing may have closed it before: a release is served some time after close(2). If what
    /// replaced it were recorded first, that save would be a conflict.
    private func isJustDisplaced(_ prior: PriorContent) -> Bool {
        guard let time = prior.entry?.saved else { return false }
        let age = cl_clock_realtime_ns() - time
        return age >= 0 && age < Timestamp.span(seconds: settings.releaseSeconds)
    }

    private func open(
        _ prior: PriorContent, _ recording: Recording, _ live: LiveFile?,
        _ bases: inout [UInt64: LaterContent]
    ) throws(VolumeError) -> Opening {
        guard case .stash(let entry) = prior.place else {
            return try openElsewhere(prior, recording)
        }
        guard let descriptor = try stash.openIfPresent(entry.file) else { return .nothing }
        var snapshot = FileSnapshot(of: descriptor.raw)
        if prior.isUnsaved { return .notYet }
        if entry.kind == .displaced, cl_probe_writers(descriptor.raw) == -EAGAIN {
            return prior.isBase ? .notYet : .busy
        }
        guard snapshot.size > 0 else { return .empty }
        // Contents that large never become a version.
        guard snapshot.size <= PackStore.Limits.contentBytes else { return .nothing }
        // A placeholder holds zeros here; its version is at the hub.
        if PlaceholderMark(of: descriptor.raw) != nil { return .nothing }
        if let powerLoss, powerLoss.destroyed(entry, descriptor.raw, snapshot) {
            return entry.kind == .preImages ? .empty : .nothing
        }
        if entry.kind == .displaced {
            let file = AnySource.file(FileContent(descriptor: descriptor.raw))
            var prior = prior
            // It had been another document's, and was changed there, or its times were set.
            if prior.isBase { try judge(&prior, descriptor.raw, snapshot, of: recording.item) }
            let isUnfinished = powerLoss?.mayBeUnfinished(entry, snapshot) == true
            try exclude(
                &prior, ifPart: descriptor.raw, snapshot, isUnfinished: isUnfinished,
                of: recording.item)
            return .found(
                try CutPriorContent(prior, descriptor, snapshot, file, mayGoOn: closing.check))
        }
        snapshot.modified = entry.modified
        if entry.kind == .copied {
            let file = AnySource.file(FileContent(descriptor: descriptor.raw))
            return .found(
                try CutPriorContent(prior, descriptor, snapshot, file, mayGoOn: closing.check))
        }
        return try openPreImages(prior, entry, descriptor, snapshot, recording, live, bases)
    }

    /// Opens a pre-image log. Bytes that it does not have are those that the file held next.
    private func openPreImages(
        _ prior: PriorContent, _ entry: Stash.Entry, _ descriptor: consuming Descriptor,
        _ snapshot: FileSnapshot,
        _ recording: Recording, _ live: LiveFile?, _ bases: [UInt64: LaterContent]
    ) throws(VolumeError) -> Opening {
        var base = bases[entry.inode]
        var isGuess = false
        var lender: CutPriorContent?
        if base == nil {
            if recording.isLiveDeferred
                || recording.rest.contains(where: { $0.inode == entry.inode })
            {
                return .notYet
            }
            if let file = try openInode(entry.inode) {
                if cl_probe_writers(file.raw) == -EAGAIN { return .notYet }
                let elsewhere = FileSnapshot(of: file.raw)
                let source = AnySource.file(FileContent(descriptor: file.raw))
                let found = try CutPriorContent(
                    PriorContent(place: .elsewhere(elsewhere)), file, elsewhere, source,
                    mayGoOn: closing.check)
                base = LaterContent(source: source, chunks: found.cut.manifest.fileChunks)
                lender = found
            } else if let live {
                // The store was copied, so the file has another inode.
                base = LaterContent(
                    source: .file(live.content), chunks: live.cut.manifest.fileChunks)
                isGuess = true
            }
        }
        let overlay = OverlayContent(
            preImages: descriptor.raw, name: entry.file, base: base?.source ?? .nothing)
        // Without saved blocks the file has only grown. Many such contents are read directly from
        // one file, instead of each through the next.
        let source =
            holdsBlocks(descriptor.raw) ? AnySource.overlay(overlay) : overlay.base
        let cut: CutPriorContent
        do throws(VolumeError) {
            cut = try CutPriorContent(
                prior, descriptor, snapshot, source, over: lender,
                like: base?.chunks.map(overlay.like), mayGoOn: closing.check)
        } catch {
            // The bytes between the blocks no longer exist, so the content cannot be restored.
            if error.code == .busy, prior.isRecovered || base == nil { return .nothing }
            throw error
        }
        guard isGuess else { return .found(cut) }
        let key = recording.item.key
        let digest = cut.cut.digest
        let isKnown = try writer.look { try $0.hasVersion(of: key, content: digest) }
        return isKnown ? .found(cut) : .nothing
    }

    /// Makes a prior content no content of the document if its file, which was in the tree when the
    /// power was lost, probably holds only a part of what was saved, and was not recorded.
    ///
    /// - Parameter isUnfinished: Whether a program was saving it then.
    private func exclude(
        _ prior: inout PriorContent, ifPart file: Int32, _ snapshot: FileSnapshot,
        isUnfinished: Bool, of item: Item
    ) throws(VolumeError) {
        guard !prior.isBase else { return }
        var isPart = isUnfinished
        if !isPart, prior.save == nil {
            isPart = powerLoss?.mayHaveLostEnd(file, snapshot) == true
        }
        if !isPart { isPart = try isShortened(file, snapshot, of: item) }
        if isPart { prior.isBase = try !isRecorded(file, snapshot, of: item) }
    }

    func isShortened(_ file: Int32, _ snapshot: FileSnapshot, of item: Item)
        throws(VolumeError) -> Bool
    {
        try shortened.contains(snapshot, of: item) { () throws(VolumeError) in
            try cutLinked(file, snapshot)
        }
    }

    func holdsBlocks(_ preImages: Int32) -> Bool { cl_lseek(preImages, 0, SEEK_DATA) >= 0 }

    /// Whether a program has overwritten a part of it in place.
    func hasOverwritten(_ prior: PriorContent) -> Bool {
        guard let entry = prior.entry, entry.kind == .preImages,
            let preImages = try? stash.open(entry.file)
        else { return false }
        return holdsBlocks(preImages.raw)
    }

    private func openElsewhere(_ prior: PriorContent, _ recording: Recording) throws(VolumeError)
        -> Opening
    {
        let work = recording.work
        guard case .elsewhere(let snapshot) = prior.place else { return .nothing }
        guard let file = try openInode(snapshot.inode) else {
            return work.attempts < 4 ? .notYet : .nothing
        }
        if PlaceholderMark(of: file.raw, size: FileSnapshot(of: file.raw).size) != nil {
            return .nothing
        }
        if cl_probe_writers(file.raw) == -EAGAIN {
            let isNeeded = work.priorContents.contains {
                $0.inode == snapshot.inode && $0.entry?.kind == .preImages
            }
            return isNeeded || work.attempts < 4 ? .notYet : .nothing
        }
        let now = FileSnapshot(of: file.raw)
        guard now.size > 0 else { return .empty }
        guard now.size <= PackStore.Limits.contentBytes else { return .nothing }
        if powerLoss?.destroyed(file.raw, now) == true { return .nothing }
        var prior = prior
        // Otherwise the file was changed as another document, or only its times were set. What it
        // held before a change is in the stash or was recorded.
        let isSame =
            snapshot.size < 0 || now.size == snapshot.size && now.modified == snapshot.modified
        if !isSame { try judge(&prior, file.raw, now, of: recording.item) }
        let isUnfinished = powerLoss?.mayBeUnfinished(now) == true
        try exclude(
            &prior, ifPart: file.raw, now, isUnfinished: isUnfinished, of: recording.item)
        if !prior.isBase {
            do throws(Errno) { try write(file.raw) } catch {
                throw VolumeError(
                    .system, "A prior content cannot be synced to the disk: \(error).")
            }
        }
        let source = AnySource.file(FileContent(descriptor: file.raw))
        let chunks = prior.isBase ? [] : try cutLinked(file.raw, now)
        let cut = try CutPriorContent(
            prior, file, now, source, chunks: chunks, mayGoOn: closing.check)
        guard !FileSnapshot(of: cut.descriptor.raw).differs(from: now) else { return .notYet }
        return .found(cut)
    }

    /// Decides whether a file that has changed since it ceased to be the document's holds one of
    /// the document's versions, whose bytes may be nowhere else, or contents of another document.
    private func judge(
        _ prior: inout PriorContent, _ file: Int32, _ now: FileSnapshot, of item: Item
    ) throws(VolumeError) {
        prior.isBase = try !isRecorded(file, now, of: item)
        if !prior.isBase { prior.isRecovered = true }
    }

    /// Opens a file of the tree by its inode, if a path to it is known and still leads to it.
    func openInode(_ inode: UInt64) throws(VolumeError) -> Descriptor? {
        var key: Int64 = 0
        while case let links = try writer.look({
            try $0.items(inode: inode, after: key, limit: 8)
        }),
            let last = links.last
        {
            for item in links {
                if let path = try writer.look({ try $0.path(of: item.key) }),
                    let file = try open(inode, at: path)
                {
                    return file
                }
            }
            key = last.key
        }
        if let stray = writer.state.untrackedFiles[inode], let path = try path(of: stray),
            let file = try open(inode, at: path)
        {
            return file
        }
        guard let package = writer.state.packaged[inode],
            let inner = cuts.path(of: inode, in: package),
            let path = try writer.look({ try $0.path(of: package) })
        else { return nil }
        return try open(inode, at: path + Manifest.Entry(path: inner).names)
    }

    private func open(_ inode: UInt64, at path: [Name]) throws(VolumeError) -> Descriptor? {
        guard let file = try openIfPresent(path, beneath: tree),
            case let found = FileSnapshot(of: file.raw), found.isFile, found.inode == inode
        else { return nil }
        return file
    }

    private func path(of spot: DirectoryEntry) throws(VolumeError) -> [Name]? {
        try roles.path(of: writer.look { try roles.location(of: spot.directory, $0) }).map {
            $0 + [spot.name]
        }
    }
}
