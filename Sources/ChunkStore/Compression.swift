import CZstd

/// zstd for chunks on the wire.
package enum Compression {
    /// Nil when the bytes are no zstd frame, do not say how long they become, or become longer than
    /// `limit`.
    package static func decompress(_ bytes: [UInt8], limit: Int) -> [UInt8]? {
        let size = ZSTD_getFrameContentSize(bytes, bytes.count)
        // Unknown and error are the two largest numbers.
        guard size <= UInt64(limit) else { return nil }
        let count = Int(size)
        var isWhole = false
        let plain = [UInt8](unsafeUninitializedCapacity: count) { plain, written in
            let result = ZSTD_decompress(plain.baseAddress, count, bytes, bytes.count)
            isWhole = ZSTD_isError(result) == 0 && result == count
            written = isWhole ? count : 0
        }
        return isWhole ? plain : nil
    }

    /// Nil where that saves less than a twentieth.
    package static func compress(_ bytes: [UInt8]) -> [UInt8]? {
        let bound = ZSTD_compressBound(bytes.count)
        let packed = [UInt8](unsafeUninitializedCapacity: bound) { packed, written in
            let result = ZSTD_compress(packed.baseAddress, bound, bytes, bytes.count, 3)
            written = ZSTD_isError(result) == 0 ? result : 0
        }
        guard !packed.isEmpty, packed.count <= bytes.count - bytes.count / 20 - 1 else {
            return nil
        }
        return packed
    }
}
