import Model

/// A record as it was read, whole; its payload is not checked yet.
struct Record {
    let header: RecordHeader
    /// Header and payload.
    let bytes: [UInt8]

    func withPayload<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        bytes.withUnsafeBytes {
            body(UnsafeRawBufferPointer(rebasing: $0[RecordHeader.byteCount...]))
        }
    }
}
