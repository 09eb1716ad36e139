import CLinux
import Glibc
import Model
import SystemCalls

/// The file name of a pack: eight hexadecimal digits and `.pack`.
package func packName(_ pack: UInt32) -> String {
    let digits = String(pack, radix: 16)
    return String(repeating: "0", count: 8 - digits.utf8.count) + digits + ".pack"
}

/// An open pack. The file is closed when the last reader releases the object.
final class PackFile: Sendable {
    let pack: UInt32
    private let descriptor: Descriptor

    init(_ pack: UInt32, in directory: borrowing Descriptor, flags: Int32) throws(Errno) {
        self.pack = pack
        descriptor = try Descriptor(
            opening: packName(pack), in: directory.raw, flags: flags | O_NOFOLLOW, mode: 0o600)
    }

    /// The size in bytes.
    func size() throws(Errno) -> UInt64 { UInt64(try descriptor.status().st_size) }

    func read(into buffer: UnsafeMutableRawBufferPointer, at offset: UInt64) throws(Errno) -> Int {
        guard let offset = Int64(exactly: offset) else { throw .invalid }
        return try descriptor.read(into: buffer, at: offset)
    }

    func write(_ bytes: UnsafeRawBufferPointer, at offset: UInt64) throws(Errno) {
        try descriptor.write(bytes, at: Int64(offset))
    }

    func truncate(to size: UInt64) throws(Errno) {
        try check(cl_ftruncate(descriptor.raw, Int64(size)))
    }

    func sync() throws(Errno) { try descriptor.sync() }

    func header(at offset: UInt64) throws(RecordFault) -> RecordHeader {
        try header(in: try bytes(at: offset, count: RecordHeader.byteCount))
    }

    /// Reads the record at an offset. Throws unless its payload has the length that the caller
    /// expects.
    func record(at offset: UInt64, storedLength: UInt32) throws(RecordFault) -> Record {
        guard storedLength <= PackStore.Limits.chunkBytes else { throw .otherRecord }
        let length = RecordHeader.byteCount + Int(storedLength)
        let bytes = try bytes(at: offset, count: length)
        let header = try header(in: bytes)
        guard header.storedLength == storedLength else { throw .otherRecord }
        guard bytes.count == length else { throw .ended }
        return Record(header: header, bytes: bytes)
    }

    private func header(in bytes: [UInt8]) throws(RecordFault) -> RecordHeader {
        // Closures that are passed to Array's methods lose the type of the error that they throw.
        let result = bytes.withUnsafeBytes { bytes in
            Result { () throws(RecordFault) in try RecordHeader(bytes) }
        }
        return try result.get()
    }

    /// Returns fewer bytes only at the end of the pack.
    private func bytes(at offset: UInt64, count: Int) throws(RecordFault) -> [UInt8] {
        var failure: Errno?
        let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, count in
            do throws(Errno) {
                count = try read(into: UnsafeMutableRawBufferPointer(buffer), at: offset)
            } catch {
                failure = error
                count = 0
            }
        }
        if let failure { throw .system(failure) }
        return bytes
    }
}
