import CZstd
import Model
import Synchronization

/// Decompresses and checks records. Any number of threads may use it at once: each takes a zstd
/// context of its own, and a few contexts are kept for reuse.
final class RecordDecoder: Sendable {
    private let idle = Mutex<[Context]>([])

    private static let idleMax = 4

    // Unchecked, because only the thread that took a context out of the list uses it.
    private struct Context: @unchecked Sendable {
        let pointer: OpaquePointer
    }

    deinit {
        idle.withLock { contexts in
            for context in contexts { ZSTD_freeDCtx(context.pointer) }
        }
    }

    /// Returns the uncompressed bytes of a record after it has checked their digest.
    func plain(of record: Record) throws(RecordFault) -> [UInt8] {
        let bytes =
            switch record.header.codec {
            case .plain: Array(record.bytes[RecordHeader.byteCount...])
            case .zstd: try decompressed(record)
            }
        guard bytes.count == Int(record.header.length), .sha256(bytes) == record.header.id else {
            throw .content
        }
        return bytes
    }

    private func decompressed(_ record: Record) throws(RecordFault) -> [UInt8] {
        let context = take()
        defer { giveBack(context) }
        var isWhole = false
        let capacity = Int(record.header.length)
        let bytes = [UInt8](unsafeUninitializedCapacity: capacity) { plain, count in
            let result = record.withPayload { stored in
                ZSTD_decompressDCtx(
                    context.pointer, plain.baseAddress, capacity, stored.baseAddress, stored.count)
            }
            isWhole = ZSTD_isError(result) == 0 && result == capacity
            count = isWhole ? capacity : 0
        }
        guard isWhole else { throw .content }
        return bytes
    }

    private func take() -> Context {
        if let context = idle.withLock({ $0.popLast() }) { return context }
        guard let pointer = ZSTD_createDCtx() else { fatalError("No memory is left for zstd.") }
        return Context(pointer: pointer)
    }

    private func giveBack(_ context: Context) {
        let isKept = idle.withLock { contexts in
            guard contexts.count < RecordDecoder.idleMax else { return false }
            contexts.append(context)
            return true
        }
        if !isKept { ZSTD_freeDCtx(context.pointer) }
    }
}
