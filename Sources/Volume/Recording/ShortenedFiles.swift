import ChunkStore
import Journal
import Model
import SystemCalls

/// Recognizes files that hold the beginning of an earlier content and have the size of a later one.
///
/// Btrfs leaves such files after a loss of power. fsync(2) puts the contents of a file into a log.
/// If a program then empties the file and writes it again, and the file gets another name, the log
/// gets the new name and the new size, and keeps the old contents. The next fsync(2) of any file
/// makes that durable. A program that has cut off the end of a document looks the same.
///
/// Only the recorder's thread uses it.
struct ShortenedFiles {
    let writer: JournalWriter
    let stash: Stash
    let packs: PackStore
    let powerLoss: PowerLoss?

    /// The earlier content is that of the last fsync(2), so it is among the newest versions.
    private static let versionsMax = 64

    /// Whether a file that is in the tree, or was, is such a file.
    ///
    /// - Parameter cut: Returns the chunks that the file has; not called if this is not possible.
    func contains(
        _ snapshot: FileSnapshot, of item: Item,
        chunks cut: () throws(VolumeError) -> [ChunkReference]
    ) throws(VolumeError) -> Bool {
        guard writer.barrier.mixesContents, powerLoss?.mayHaveShortened(snapshot) == true
        else { return false }
        let chunks = try cut()
        let content = CutContent(Manifest(chunks: chunks)).digest
        let key = item.key
        let isKnown = try writer.look { try $0.hasVersion(of: key, content: content) }
        if isKnown { return false }
        if try wasCopied(snapshot, content) { return true }
        return try isPartOfVersion(snapshot, chunks, item)
    }

    /// Whether a longer content of the file that begins with this one was copied into the stash,
    /// as is done before a program empties a file, and this one was not.
    private func wasCopied(_ snapshot: FileSnapshot, _ content: Digest) throws(VolumeError) -> Bool
    {
        var isLonger = false
        for entry in try stash.entriesToRead()
        where entry.kind == .copied && entry.inode == snapshot.inode {
            guard let copy = try stash.openIfPresent(entry.file) else { continue }
            let size = FileSnapshot(of: copy.raw).size
            guard size >= snapshot.size,
                try LostContents.content(of: copy.raw, size: snapshot.size) == content
            else { continue }
            if size == snapshot.size { return false }
            isLonger = true
        }
        return isLonger
    }

    /// Whether a longer version begins with this content: one of the document, or of another one
    /// that has had the file.
    private func isPartOfVersion(
        _ snapshot: FileSnapshot, _ chunks: [ChunkReference], _ item: Item
    ) throws(VolumeError) -> Bool {
        let pending = writer.state.pending
        let keys = Set([item.key])
            .union(pending.dependents[snapshot.inode] ?? [])
            .union(pending.displaced[snapshot.inode] ?? [])
        for key in keys {
            let versions = try writer.look { try $0.versions(of: key) }
            let longer = versions.sorted { $0.number > $1.number }
                .prefix(ShortenedFiles.versionsMax)
                .filter { $0.size > UInt64(snapshot.size) }
            for version in longer {
                let bytes = try writer.look { try $0.manifest(of: version.id) }
                let manifest = bytes.flatMap(Manifest.init(encoded:))
                for entry in manifest?.entries ?? [] where entry.size > UInt64(snapshot.size) {
                    if try begins(entry.chunks, with: chunks) { return true }
                }
            }
        }
        return false
    }

    /// Whether a content begins with these chunks. Where a content ends, its last chunk ends early.
    private func begins(_ whole: [ChunkReference], with chunks: [ChunkReference])
        throws(VolumeError) -> Bool
    {
        guard let last = chunks.last, whole.count >= chunks.count else { return false }
        let index = chunks.count - 1
        let chunk = whole[index]
        guard whole[..<index] == chunks[..<index], chunk.length >= last.length else { return false }
        if chunk == last { return true }
        guard let place = try writer.look({ try $0.place(of: chunk.id) }),
            let bytes = try? packs.read(chunk.id, at: place)
        else { return false }
        return bytes.withUnsafeBytes {
            Digest.sha256(UnsafeRawBufferPointer(rebasing: $0.prefix(Int(last.length)))) == last.id
        }
    }
}
