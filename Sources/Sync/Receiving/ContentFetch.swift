import ChunkStore
import HubProtocol
import Model
import Reconcile
import Volume

/// Decides which contents are put into the tree together with a change, and fetches them from the
/// hub.
struct ContentFetch: EnginePart {
    let parts: EngineParts
    let hub: HubContents
    let transfers: TransferQueue

    /// Fetches the manifests and chunks of the documents that are put into the tree with their
    /// contents. What the hub cannot deliver is noted in the result, so that it delays only the
    /// documents that need it.
    func fetch(_ tasks: [AdjustmentTask]) throws -> Contents {
        let contents = Contents()
        let wanted = tasks.filter { $0.needsContents }
        guard !wanted.isEmpty else { return contents }
        let isFresh = try journal.session().isFresh
        let needed = wanted.filter { task in
            task.adjustment.remote.kind == .package || isWholeWanted(task, isFresh: isFresh)
        }
        let sizes = needed.compactMap { $0.adjustment.remote.current.map { ($0.id, $0.size) } }
        guard !sizes.isEmpty else { return contents }
        do throws(VolumeError) {
            contents.manifests = try hub.manifests(of: Dictionary(sizes) { max($0, $1) })
        } catch {
            guard error.concernsOnlyContents else { throw error }
            for (id, _) in sizes { contents.missingVersions[id] = error }
        }
        var missing: [(chunk: ChunkReference, version: Identifier)] = []
        var asked: Set<Digest> = []
        for task in needed {
            guard let current = task.adjustment.remote.current,
                let manifest = contents.manifests[current.id],
                isWholeWanted(task, isFresh: isFresh), !transfers.hasPrepared(current.id)
            else { continue }
            let source = LocalChunks(volume, item: task.item?.key)
            contents.local.append(source)
            var here: [ChunkReference] = []
            for chunk in manifest.entries.lazy.flatMap(\.chunks)
            where contents.chunks[chunk.id] == nil && !asked.contains(chunk.id) {
                if task.item != nil, let bytes = source.bytes(of: chunk) {
                    contents.chunks[chunk.id] = bytes
                } else {
                    here.append(chunk)
                    asked.insert(chunk.id)
                }
            }
            missing += here.map { ($0, current.id) }
            contents.whole.insert(current.id)
        }
        try read(missing, into: contents)
        return contents
    }

    private func read(
        _ missing: [(chunk: ChunkReference, version: Identifier)], into contents: Contents
    ) throws {
        var rest = missing[...]
        while !rest.isEmpty {
            var (versions, count) = ([Identifier](), 0)
            while count < min(rest.count, HubLimits.ids) {
                let next = rest[rest.startIndex + count].version
                if versions.last != next {
                    guard versions.count < HubLimits.versionsNamed else { break }
                    versions.append(next)
                }
                count += 1
            }
            let piece = rest.prefix(count).map(\.chunk)
            do throws(VolumeError) {
                let found = try hub.readable(piece, of: versions)
                for reference in piece {
                    contents.chunks[reference.id] = found[reference.id]
                    guard found[reference.id] == nil else { continue }
                    contents.missingChunks[reference.id] = HubContents.lost(reference)
                }
            } catch {
                guard error.concernsOnlyContents else { throw error }
                for reference in piece { contents.missingChunks[reference.id] = error }
            }
            rest = rest.dropFirst(count)
        }
    }

    /// Whether the contents must be put into the tree together with the change. Contents that were
    /// local stay local, and new contents are fetched if they are small. A device that joins
    /// fetches none. Packages are always fetched, because the files in a package cannot be
    /// placeholders.
    private func isWholeWanted(_ task: AdjustmentTask, isFresh: Bool) -> Bool {
        guard let current = task.adjustment.remote.current else { return false }
        if task.adjustment.remote.kind == .package { return true }
        if current.size == 0 || task.isPinned { return true }
        if task.item != nil { return !task.isAbsent }
        return !isFresh && current.size <= settings.eagerBytes
    }

    /// Separates the tasks that can be done now from those that must wait for a large download,
    /// which the transfer queue does.
    func deferLargeDownloads(_ tasks: [AdjustmentTask]) throws -> (
        now: [AdjustmentTask], later: [AdjustmentTask]
    ) {
        var now: [AdjustmentTask] = []
        var later: [AdjustmentTask] = []
        var bytes: UInt64 = 0
        let isFresh = try journal.session().isFresh
        for task in tasks {
            guard task.needsContents, let current = task.adjustment.remote.current,
                isWholeWanted(task, isFresh: isFresh), !transfers.hasPrepared(current.id)
            else {
                now.append(task)
                continue
            }
            if current.size > UInt64(settings.largeBytes) {
                if task.item?.kind == .package {
                    // A package is fetched in one piece, because large packages are rare.
                    now.append(task)
                } else {
                    transfers.download(task)
                    later.append(task)
                }
            } else if bytes > UInt64(4 * settings.largeBytes), task.weakPackage == nil {
                later.append(task)
            } else {
                bytes += current.size
                now.append(task)
            }
        }
        return (now, later)
    }
}
