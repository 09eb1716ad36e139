import Model

/// The 55 bytes before each payload. ChunkStore.docc/Format.md describes them.
struct RecordHeader: Hashable {
    enum Codec: UInt8 {
        case plain = 0
        case zstd = 1
    }

    static let byteCount = 55
    /// A byte that does not occur in UTF-8, and "CHK".
    static let magic: [UInt8] = [0xFF, 0x43, 0x48, 0x4B]
    static let format: UInt8 = 1

    var codec: Codec
    var id: Digest
    /// The number of uncompressed bytes.
    var length: UInt32
    /// The number of bytes of the payload.
    var storedLength: UInt32
    /// The length of the record before this one, if the writer knows that it is complete. It is 0
    /// at the start of a pack, and when the writer appended to a pack of an earlier run.
    var back: UInt32 = 0

    /// The number of bytes of header and payload together.
    var recordLength: UInt64 { UInt64(RecordHeader.byteCount) + UInt64(storedLength) }

    private enum Field {
        static let format = 4
        static let codec = 5
        static let id = 6
        static let length = 39
        static let storedLength = 43
        static let back = 47
        static let checksum = 51
    }

    func write(to bytes: UnsafeMutableRawBufferPointer) {
        bytes.copyBytes(from: RecordHeader.magic)
        bytes[Field.format] = RecordHeader.format
        bytes[Field.codec] = codec.rawValue
        UnsafeMutableRawBufferPointer(rebasing: bytes[Field.id..<Field.length])
            .copyBytes(from: id.bytes)
        bytes.store(number: length, at: Field.length)
        bytes.store(number: storedLength, at: Field.storedLength)
        bytes.store(number: back, at: Field.back)
        let covered = UnsafeRawBufferPointer(rebasing: bytes[..<Field.checksum])
        bytes.store(number: crc32(covered), at: Field.checksum)
    }

    /// Reads a header and validates every field.
    init(_ bytes: UnsafeRawBufferPointer) throws(RecordFault) {
        guard bytes.count >= RecordHeader.byteCount else { throw .ended }
        guard bytes[..<4].elementsEqual(RecordHeader.magic) else { throw .noMagic }
        let covered = UnsafeRawBufferPointer(rebasing: bytes[..<Field.checksum])
        guard crc32(covered) == bytes.number(at: Field.checksum) else { throw .checksum }
        guard bytes[Field.format] == RecordHeader.format else {
            throw .newer(bytes[Field.format])
        }
        guard let codec = Codec(rawValue: bytes[Field.codec]),
            let id = Digest(bytes: bytes[Field.id..<Field.length])
        else { throw .malformed }
        self.init(
            codec: codec, id: id, length: bytes.number(at: Field.length),
            storedLength: bytes.number(at: Field.storedLength),
            back: bytes.number(at: Field.back))
        let fits = codec == .plain ? storedLength == length : storedLength < length
        guard fits, length <= PackStore.Limits.chunkBytes else { throw .malformed }
    }

    init(codec: Codec, id: Digest, length: UInt32, storedLength: UInt32, back: UInt32 = 0) {
        self.codec = codec
        self.id = id
        self.length = length
        self.storedLength = storedLength
        self.back = back
    }
}

extension UnsafeMutableRawBufferPointer {
    fileprivate func store(number: UInt32, at offset: Int) {
        storeBytes(of: number.littleEndian, toByteOffset: offset, as: UInt32.self)
    }
}

extension UnsafeRawBufferPointer {
    fileprivate func number(at offset: Int) -> UInt32 {
        UInt32(littleEndian: loadUnaligned(fromByteOffset: offset, as: UInt32.self))
    }
}
