import CZstd

/// Compresses chunks with zstd for the network.
package enum Compression {
    /// Returns nil when the bytes are not a zstd frame, when the frame does not give its
    /// uncompressed size, or when that size is above `limit`.
    package static func decompress(_ bytes: [UInt8], limit: Int) -> [UInt8]? {
        let size = ZSTD_getFrameContentSize(bytes, bytes.count)
        // The size is hostile. "Unknown" and "error" are the two largest numbers, so they fail
        // here, too.
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

    /// Returns nil unless compression saves more than a twentieth.
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
