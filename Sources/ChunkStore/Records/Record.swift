import Model

/// A complete record as it was read. Its payload has not been checked.
struct Record {
    let header: RecordHeader
    /// The bytes of header and payload.
    let bytes: [UInt8]

    func withPayload<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        bytes.withUnsafeBytes {
            body(UnsafeRawBufferPointer(rebasing: $0[RecordHeader.byteCount...]))
        }
    }
}
