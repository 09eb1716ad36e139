import Model

/// Whether a stretch of content has to be read.
package enum ContentExtent: Hashable, Sendable {
    /// Bytes that have to be read, up to this offset.
    case data(until: Int64)
    /// Zeros that nobody has to read, up to this offset.
    case hole(until: Int64)

    var end: Int64 {
        switch self {
        case .data(let end), .hole(let end): end
        }
    }
}

/// Content that can be read, wherever it lies.
package protocol ContentSource: ~Copyable {
    /// Fills the buffer from the offset on; fewer bytes only where the content ends.
    mutating func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64)
        throws(VolumeError) -> Int

    /// What lies at an offset, and how far. A source that knows of no holes need not say.
    mutating func extent(at offset: Int64) -> ContentExtent
}

extension ContentSource where Self: ~Copyable {
    package mutating func extent(at offset: Int64) -> ContentExtent { .data(until: .max) }
}
