import SystemCalls

/// Why a record is not valid.
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
    /// The end of a sentence whose subject is the record.
    var description: String {
        switch self {
        case .noMagic: "is not a record"
        case .checksum: "has a header that fails its checksum"
        case .newer(let format): "has format \(format), which only a newer build can read"
        case .malformed: "has a header with invalid fields"
        case .ended: "continues beyond the end of the pack"
        case .otherRecord: "is the record of another chunk"
        case .content: "has bytes that do not match its digest"
        case .missing: "is lost, because the file of its pack does not exist"
        case .system(let error): "cannot be read: \(error)"
        }
    }
}
