import Model

/// Whether a range of content has to be read.
package enum ContentExtent: Hashable, Sendable {
    /// Bytes that must be read, up to this offset.
    case data(until: Int64)
    /// Zeros that need not be read, up to this offset.
    case hole(until: Int64)

    var end: Int64 {
        switch self {
        case .data(let end), .hole(let end): end
        }
    }
}

/// Content that can be read at any offset, wherever it is stored.
package protocol ContentSource: ~Copyable {
    /// Fills the buffer, beginning at the offset, and returns the number of bytes. It is less than
    /// the buffer's length only at the end of the content.
    mutating func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64)
        throws(VolumeError) -> Int

    /// What is at an offset, and up to where. A source that does not know about holes need not
    /// implement this.
    mutating func extent(at offset: Int64) -> ContentExtent
}

extension ContentSource where Self: ~Copyable {
    package mutating func extent(at offset: Int64) -> ContentExtent { .data(until: .max) }
}
