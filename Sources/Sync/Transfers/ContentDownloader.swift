import HubProtocol
import Model
import Reconcile
import Volume

/// Downloads large documents. Any thread may use it.
struct ContentDownloader: EnginePart, Sendable {
    let parts: EngineParts
    let hub: HubContents

    /// Downloads a large document next to the tree, to be swapped in when it is complete. Chunks
    /// that another local version has are copied from there. Returns the name of the prepared file.
    func download(_ task: AdjustmentTask, isEnding: () -> Bool) throws -> String {
        let remote = task.adjustment.remote
        guard let current = remote.current,
            let manifest = try hub.manifests(of: [current.id: current.size])[current.id]
        else { throw VolumeError(.notFound, "The hub has no contents of that version.") }
        // Zeros take no room. They are one chunk, however many they are.
        let chunks = Set(manifest.entries.lazy.flatMap(\.chunks))
        guard volume.room.has(chunks.reduce(0) { $0 + Int64($1.length) }) else {
            throw VolumeError(
                .full,
                "There is no room for the new contents (\(current.size >> 20) MiB) on this "
                    + "device's disk. They are downloaded when there is.")
        }
        let contents = Contents()
        contents.manifests[current.id] = manifest
        contents.whole = [current.id]
        let local = LocalChunks(volume, item: task.item?.key)
        let path = task.targetPath.shown
        let progress = Progress(state, events, remote.id, path, .down, total: current.size)
        return try volume.arrivals.prepare(Arrival(remote, contents)) {
            (references, file) throws(VolumeError) in
            var offset: Int64 = 0
            var missing: [(offset: Int64, chunk: ChunkReference)] = []
            for chunk in references {
                if let bytes = local.bytes(of: chunk) {
                    try write(bytes, toNew: file, at: offset)
                    progress.add(bytes.count)
                } else {
                    missing.append((offset, chunk))
                }
                offset += Int64(chunk.length)
            }
            try hub.chunks(missing.map(\.chunk), of: current.id) {
                (index, bytes) throws(VolumeError) in
                guard !isEnding() else {
                    throw VolumeError(.cancelled, "Sync is stopping.")
                }
                try write(bytes, toNew: file, at: missing[index].offset)
                progress.add(bytes.count)
            }
        }
    }
}
