import Model
import Synchronization

/// A cache of the chunks that were read last, for reads smaller than a chunk. All versions of a
/// volume share it, so its size does not grow with the number of open versions.
final class RecentChunks: Sendable {
    private struct State {
        /// Least recently used first.
        var chunks: [(id: Digest, bytes: [UInt8])] = []
        var size = 0
    }

    /// In bytes: four of the largest chunks.
    private static let sizeMax = 16 << 20
    private let state = Mutex(State())

    func bytes(of id: Digest) -> [UInt8]? {
        state.withLock { state in
            guard let index = state.chunks.lastIndex(where: { $0.id == id }) else { return nil }
            let found = state.chunks.remove(at: index)
            state.chunks.append(found)
            return found.bytes
        }
    }

    func keep(_ bytes: [UInt8], of id: Digest) {
        state.withLock { state in
            guard !state.chunks.contains(where: { $0.id == id }) else { return }
            state.chunks.append((id, bytes))
            state.size += bytes.count
            while state.size > RecentChunks.sizeMax || state.chunks.count > RecentChunks.countMax {
                state.size -= state.chunks.removeFirst().bytes.count
            }
        }
    }

    private static let countMax = 64
}
