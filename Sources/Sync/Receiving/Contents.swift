import CLinux
import ChunkStore
import Glibc
import HubProtocol
import Journal
import Model
import Reconcile
import SystemCalls
import Volume

/// The contents that a batch of adjustments needs from the hub, which are fetched together.
final class Contents {
    /// The manifests, by revision.
    var manifests: [Identifier: Manifest] = [:]
    /// The revisions that are put into the tree with their contents.
    var whole: Set<Identifier> = []
    /// The chunks' uncompressed bytes, by digest.
    var chunks: [Digest: [UInt8]] = [:]
    /// Chunks that this device already has.
    var local: [LocalChunks] = []
    /// Why the hub could not deliver these.
    var missingChunks: [Digest: VolumeError] = [:]
    var missingVersions: [Identifier: VolumeError] = [:]

    /// Writes the chunks one after another from the beginning of the file.
    func write(_ references: [ChunkReference], to file: Int32) throws(VolumeError) {
        var offset: Int64 = 0
        for reference in references {
            let bytes = try bytes(of: reference)
            try Sync.write(bytes, toNew: file, at: offset)
            offset += Int64(bytes.count)
        }
    }

    private func bytes(of reference: ChunkReference) throws(VolumeError) -> [UInt8] {
        if let bytes = chunks[reference.id] {
            guard bytes.count == Int(reference.length) else {
                throw VolumeError(.damaged, "Two documents say two lengths of one chunk.")
            }
            return bytes
        }
        for source in local {
            if let bytes = source.bytes(of: reference) { return bytes }
        }
        if let error = missingChunks[reference.id] { throw error }
        throw VolumeError(.busy, "A local chunk was removed while the change was prepared.")
    }
}

/// Writes to a new file and leaves holes for zeros. The caller sets the file's length afterwards.
func write(_ bytes: [UInt8], toNew file: Int32, at offset: Int64) throws(VolumeError) {
    do throws(Errno) { try writeSparsely(file, bytes, at: offset) } catch {
        throw VolumeError(
            error == .noSpace ? .full : .system, "Contents cannot be written: \(error).")
    }
}
