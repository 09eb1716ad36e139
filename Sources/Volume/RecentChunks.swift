import Model
import Synchronization

/// The chunks that were read last, for reads that come in pieces smaller than a chunk. One for all
/// versions of a volume, so that it costs the same however many of them programs have looked at.
final class RecentChunks: Sendable {
    private struct State {
        /// The oldest first.
        var chunks: [(id: Digest, bytes: [UInt8])] = []
        var size = 0
    }

    /// Bytes; four of the largest chunks.
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
