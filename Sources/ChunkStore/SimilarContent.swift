import Model

/// Content that has been cut, for cutting content that is the same but for some stretches: chunks
/// that lie outside of them are not read again.
///
/// Where a chunk ends depends on its own bytes alone, so cuts that coincide once coincide until the
/// next difference.
package struct SimilarContent {
    private let references: [ChunkReference]
    private let size: UInt64
    private let differs: (Range<Int64>) -> Bool
    private var index = 0
    private var start: Int64 = 0

    /// `differs` answers whether the two may differ in a stretch; it is asked about stretches of
    /// what has been cut only, in ascending order.
    package init(_ references: [ChunkReference], differs: @escaping (Range<Int64>) -> Bool) {
        self.references = references
        self.differs = differs
        size = references.reduce(0) { $0 + UInt64($1.length) }
    }

    /// Whether content of that size is cut by the same rule, which its first bytes decide, too.
    func isCutLike(contentOf other: UInt64) -> Bool {
        let head = Int64(WrittenInPlace.headLength)
        guard let sizes = CutSizes.sizes(forFileOf: size), size <= Int64.max else { return false }
        return CutSizes.sizes(forFileOf: other) == sizes
            && WrittenInPlace.blockLength(forFileOf: Int64(size))
                == WrittenInPlace.blockLength(forFileOf: Int64(other))
            && !differs(0..<head)
    }

    /// The chunk that begins at an offset of content of that size, if it is known without reading.
    mutating func chunk(at offset: Int64, of other: Int64) -> ChunkReference? {
        while index < references.count, start < offset {
            start += Int64(references[index].length)
            index += 1
        }
        guard start == offset, index < references.count else { return nil }
        let reference = references[index]
        let end = offset + Int64(reference.length)
        // The last one ends where it does because the content does.
        guard end == other || end < other && index < references.count - 1 else { return nil }
        return differs(offset..<end) ? nil : reference
    }
}
