import Model

/// The bytes of a record, for packs that are not files. Its field `back` is 0, so a scan of such a
/// pack checks each payload.
package struct EncodedRecord: Hashable, Sendable {
    package let bytes: [UInt8]
    package let storedLength: UInt32
    package let length: UInt32

    /// Encodes chunks, compressed where that saves space. `id` is the digest of the bytes.
    package static func encode(_ chunks: [(id: Digest, plain: [UInt8])]) throws(VolumeError)
        -> [EncodedRecord]
    {
        let encoder = RecordEncoder()
        var records: [EncodedRecord] = []
        for (id, plain) in chunks {
            guard plain.count <= PackStore.Limits.chunkBytes else {
                throw VolumeError(
                    .invalid,
                    "A chunk of \(plain.count) bytes is too long to be stored: it may have "
                        + "\(PackStore.Limits.chunkBytes).")
            }
            let header = plain.withUnsafeBytes { encoder.encode(id, $0) }
            records.append(
                EncodedRecord(
                    bytes: Array(encoder.finish(header)), storedLength: header.storedLength,
                    length: header.length))
        }
        return records
    }

    /// Returns the payload as it is stored, after it was checked.
    ///
    /// - Parameters:
    ///   - bytes: The record that was read at `location`.
    ///   - place: The pack's name, for messages.
    /// - Throws: `.damaged` if this is not the whole record of that chunk; `.newer`.
    package static func payload(
        in bytes: [UInt8], of id: Digest, at location: ChunkLocation, from place: String
    ) throws(VolumeError) -> (isCompressed: Bool, bytes: [UInt8]) {
        do throws(RecordFault) {
            let parsed = bytes.withUnsafeBytes { bytes in
                Result { () throws(RecordFault) in try RecordHeader(bytes) }
            }
            let header = try parsed.get()
            guard header.id == id, header.length == location.length,
                header.storedLength == location.storedLength
            else { throw .otherRecord }
            guard bytes.count == RecordHeader.byteCount + Int(header.storedLength) else {
                throw .ended
            }
            let record = Record(header: header, bytes: bytes)
            let plain = try decoder.plain(of: record)
            guard header.codec == .zstd else { return (false, plain) }
            return (true, record.withPayload { Array($0) })
        } catch {
            let record = "The record at \(location.offset) of \(place), chunk \(id),"
            if case .newer = error {
                throw VolumeError(.newer, "\(record) \(error). Start the newer build.")
            }
            throw VolumeError(.damaged, "\(record) \(error).")
        }
    }

    private static let decoder = RecordDecoder()
}
