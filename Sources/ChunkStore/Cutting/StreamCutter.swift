import Model

/// Cuts a content that arrives piece by piece, of which only the size is known before, or the most
/// that it can be. The chunks are those of `cutContent`.
package struct StreamCutter {
    private var size: Int64
    private var cuts: CutMethod?
    private var buffer: [UInt8] = []
    /// The first byte in the buffer that no chunk has.
    private var start = 0
    /// The bytes of all chunks so far.
    private var done: Int64 = 0

    /// - Throws: `.invalid` if the content is too long to be stored.
    package init(size: UInt64) throws(VolumeError) {
        guard let size = Int64(exactly: size), size <= PackStore.Limits.contentBytes else {
            throw VolumeError(
                .invalid,
                "Content of \(size) bytes is too long to be stored: at most "
                    + "\(PackStore.Limits.contentBytes) bytes are.")
        }
        self.size = size
    }

    /// The bytes in memory.
    package var heldBytes: Int { buffer.count }

    /// All bytes so far.
    package var count: Int64 { done + Int64(buffer.count - start) }

    /// There must not be more bytes than the size in all.
    package mutating func append(_ bytes: some Collection<UInt8>) {
        if start > buffer.count / 2 {
            buffer.removeSubrange(..<start)
            start = 0
        }
        buffer.append(contentsOf: bytes)
    }

    /// Returns the next chunk; nil if it needs more bytes, or there is none.
    package mutating func next() throws(VolumeError) -> [UInt8]? {
        let held = buffer.count - start
        guard done < size, let cuts = try method() else { return nil }
        guard held >= Int(min(Int64(cuts.longest), size - done)) else { return nil }
        let length = buffer.withUnsafeBytes {
            cuts.length(in: UnsafeRawBufferPointer(rebasing: $0[start...]))
        }
        defer {
            start += length
            done += Int64(length)
        }
        return Array(buffer[start..<start + length])
    }

    /// Ends a content whose bytes are all there. `next` then returns the rest of the chunks.
    ///
    /// - Returns: Whether the chunks are right. They are not if the content is shorter than its
    ///   size was said to be, and is cut in another way for that. Then all must be cut again.
    package mutating func end() -> Bool {
        size = count
        guard done > 0, let cuts else {
            cuts = nil
            return true
        }
        return cuts.isRight(forContentOf: size)
    }

    /// Nil until the first bytes are there, which decide it.
    private mutating func method() throws(VolumeError) -> CutMethod? {
        if let cuts { return cuts }
        guard buffer.count >= Int(min(Int64(InPlaceFormat.headLength), size)) else { return nil }
        var head = HeldContent(bytes: buffer)
        cuts = try CutMethod(of: &head, size: size)
        return cuts
    }
}

/// A content that is in memory.
private struct HeldContent: ContentSource {
    let bytes: [UInt8]

    func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) -> Int {
        let part = bytes[min(Int(offset), bytes.count)...].prefix(buffer.count)
        buffer.copyBytes(from: part)
        return part.count
    }
}
