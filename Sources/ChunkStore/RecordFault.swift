import SystemCalls

/// Why a record cannot be believed.
enum RecordFault: Error, Hashable {
    case noMagic
    case checksum
    case newer(UInt8)
    case malformed
    case ended
    case otherRecord
    case content
    case missing
    case system(Errno)
}

extension RecordFault: CustomStringConvertible {
    /// The end of a sentence that begins with the record.
    var description: String {
        switch self {
        case .noMagic: "is no record"
        case .checksum: "has a header that fails its checksum"
        case .newer(let format): "has format \(format), which only a newer build can read"
        case .malformed: "has a header that makes no sense"
        case .ended: "goes on behind the end of the pack"
        case .otherRecord: "is the record of another chunk"
        case .content: "has bytes that do not give its digest"
        case .missing: "is lost with its pack, which is not there"
        case .system(let error): "cannot be read: \(error)"
        }
    }
}
