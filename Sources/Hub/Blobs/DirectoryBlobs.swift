import CLinux
import ChunkStore
import Dispatch
import Glibc
import HubProtocol
import Model
import SystemCalls

/// Blobs in a directory of packs. One process at a time writes to it, which the hub's lock ensures;
/// other processes may read.
package final class DirectoryBlobs: BlobStore {
    package let directory: String
    private let store: PackStore
    /// Disk access blocks, and the pool of Swift's tasks has only as many threads as the machine
    /// has processors.
    private let queue = DispatchQueue(label: "hub.blobs", attributes: .concurrent)

    package init(directory: String, packBytesMax: UInt64 = PackStore.Limits.packBytes)
        throws(VolumeError)
    {
        self.directory = directory
        store = try PackStore(directory: directory, packBytesMax: packBytesMax)
    }

    private func offload<Result: Sendable>(
        _ body: @escaping @Sendable () throws(VolumeError) -> Result
    ) async throws(VolumeError) -> Result {
        let result = await withCheckedContinuation { continuation in
            queue.async {
                continuation.resume(
                    returning: Swift.Result<Result, VolumeError> { () throws(VolumeError) in
                        try body()
                    })
            }
        }
        return try result.get()
    }

    package func keep(_ chunks: [PlainChunk]) async throws(VolumeError) -> [ChunkLocation] {
        let store = self.store
        return try await offload { () throws(VolumeError) in
            var places: [ChunkLocation] = []
            for chunk in chunks {
                let place = chunk.bytes.withUnsafeBytes { bytes in
                    Result { () throws(VolumeError) in try store.append(chunk.plain, bytes) }
                }
                places.append(try place.get())
            }
            try store.sync()
            return places
        }
    }

    package func read(_ plain: Digest, at place: ChunkLocation) async throws(VolumeError)
        -> StoredChunk
    {
        let store = self.store
        return try await offload { () throws(VolumeError) in
            let payload = try store.payload(plain, at: place)
            return StoredChunk(
                codec: payload.isCompressed ? .zstd : .plain, bytes: payload.bytes)
        }
    }

    package func packs() async throws(VolumeError) -> [UInt32: UInt64] {
        let (directory, store) = (self.directory, self.store)
        return try await offload { () throws(VolumeError) in
            var found: [UInt32: UInt64] = [:]
            for (pack, _) in store.packs() {
                // The file's present size is read, because the size that the store remembers may be
                // outdated.
                var status = stat()
                let path = "\(directory)/\(packName(pack))"
                guard cl_fstatat(AT_FDCWD, path, &status, AT_SYMLINK_NOFOLLOW) == 0 else {
                    continue
                }
                found[pack] = UInt64(status.st_size)
            }
            return found
        }
    }

    package func endPack() async throws(VolumeError) {
        let store = self.store
        try await offload { () throws(VolumeError) in try store.endPack() }
    }

    package func move(_ places: [PlacedChunk], from pack: UInt32) async throws(VolumeError)
        -> [UInt64: ChunkLocation]
    {
        let store = self.store
        return try await offload { () throws(VolumeError) in
            var moved: [UInt64: ChunkLocation] = [:]
            for chunk in places {
                do throws(VolumeError) {
                    let bytes = try store.read(chunk.plain, at: chunk.place)
                    let place = bytes.withUnsafeBytes { bytes in
                        Result { () throws(VolumeError) in try store.append(chunk.plain, bytes) }
                    }
                    moved[chunk.place.offset] = try place.get()
                } catch {
                    guard error.code == .damaged else { throw error }
                }
            }
            try store.sync()
            return moved
        }
    }

    package func remove(pack: UInt32) async throws(VolumeError) {
        let store = self.store
        try await offload { () throws(VolumeError) in try store.remove(pack: pack) }
    }

    package func contents(ofPack pack: UInt32) async throws(VolumeError) -> [UInt8]? {
        let store = self.store
        return try await offload { () throws(VolumeError) in try store.contents(of: pack) }
    }

    package func add(pack: UInt32, _ contents: [UInt8]) async throws(VolumeError) {
        let store = self.store
        try await offload { () throws(VolumeError) in try store.add(pack, contents) }
    }

    package func quarantine(pack: UInt32) async throws(VolumeError) {
        let store = self.store
        try await offload { () throws(VolumeError) in try store.quarantine(pack: pack) }
    }

    package func restore(pack: UInt32) async throws(VolumeError) {
        let store = self.store
        try await offload { () throws(VolumeError) in try store.restore(pack: pack) }
    }

    package func quarantinedPacks() async throws(VolumeError) -> [UInt32: UInt64] {
        let store = self.store
        return try await offload { () throws(VolumeError) in try store.quarantinedPacks() }
    }

    package func mark() async throws(VolumeError) -> StoreStamp? {
        let store = self.store
        return try await offload { store.mark }
    }

    package func setMark(_ mark: StoreStamp) async throws(VolumeError) {
        let store = self.store
        try await offload { () throws(VolumeError) in try store.setMark(mark) }
    }
}
