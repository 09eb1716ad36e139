import Model

/// The chunks of content that was cut before. They are reused when similar content is cut: chunks
/// outside the ranges that differ are not read again.
///
/// The end of a chunk depends on the chunk's own bytes alone. So once the cuts of both contents
/// coincide, they coincide up to the next difference.
package struct SimilarContent {
    private let references: [ChunkReference]
    private let size: UInt64
    private let differs: (Range<Int64>) -> Bool
    private var index = 0
    private var start: Int64 = 0

    /// - Parameter differs: Whether the two contents may differ in a range. It is called with
    ///   ascending ranges of the content that was cut before.
    package init(_ references: [ChunkReference], differs: @escaping (Range<Int64>) -> Bool) {
        self.references = references
        self.differs = differs
        size = references.reduce(0) { $0 + UInt64($1.length) }
    }

    /// Whether content of that size is cut by the same rule. Its first bytes decide about that,
    /// too.
    func isCutLike(contentOf other: UInt64) -> Bool {
        let head = Int64(InPlaceFormat.headLength)
        guard let sizes = CutSizes.sizes(forFileOf: size), size <= Int64.max else { return false }
        return CutSizes.sizes(forFileOf: other) == sizes
            && InPlaceFormat.blockLength(forFileOf: Int64(size))
                == InPlaceFormat.blockLength(forFileOf: Int64(other))
            && !differs(0..<head)
    }

    /// The chunk that begins at an offset of content of that size, or nil when it has to be read.
    mutating func chunk(at offset: Int64, of other: Int64) -> ChunkReference? {
        while index < references.count, start < offset {
            start += Int64(references[index].length)
            index += 1
        }
        guard start == offset, index < references.count else { return nil }
        let reference = references[index]
        let end = offset + Int64(reference.length)
        // The last chunk ends because its content ended there, so it can be reused only at the end.
        guard end == other || end < other && index < references.count - 1 else { return nil }
        return differs(offset..<end) ? nil : reference
    }
}
