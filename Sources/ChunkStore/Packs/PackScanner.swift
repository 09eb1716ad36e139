import Glibc
import Model
import SystemCalls

/// Reads a pack record by record. After damage it searches for the next valid record.
struct PackScanner {
    let file: PackFile
    /// The offset at which the scan ends.
    let end: UInt64
    let decoder: RecordDecoder
    /// Whether every payload is hashed, or only those that may be incomplete.
    let checksPayloads: Bool

    func scan<Failure: Error>(
        _ body: (Digest, ChunkLocation) throws(Failure) -> Void
    ) throws(Failure) -> [PackDamage] {
        var damages: [PackDamage] = []
        var offset: UInt64 = 0
        while offset < end {
            switch find(at: offset) {
            case .record(let header):
                try body(header.id, location(of: header, at: offset))
                offset += header.recordLength
            case .damage(let id, let fault, let next):
                damages.append(
                    PackDamage(
                        pack: file.pack, offset: offset, length: next - offset, id: id,
                        reason: "\(fault)"))
                offset = next
            }
        }
        return damages
    }

    private enum Find {
        case record(RecordHeader)
        case damage(Digest?, RecordFault, next: UInt64)
    }

    /// A record is complete if the same run wrote another one directly after it. Any other record
    /// may be torn, and records of a later run may lie where its payload should be, so its payload
    /// is checked.
    private func find(at offset: UInt64) -> Find {
        let header: RecordHeader
        do throws(RecordFault) {
            header = try self.header(at: offset)
        } catch {
            return .damage(nil, error, next: nextRecord(from: offset + 1))
        }
        let behind = offset + header.recordLength
        let isProvenComplete =
            (try? self.header(at: behind))
            .map { UInt64($0.back) == header.recordLength } ?? false
        if isProvenComplete && !checksPayloads { return .record(header) }
        do throws(RecordFault) {
            _ = try decoder.plain(
                of: file.record(at: offset, storedLength: header.storedLength))
            return .record(header)
        } catch {
            return .damage(
                header.id, error, next: isProvenComplete ? behind : nextRecord(from: offset + 1))
        }
    }

    /// Reads the header of a record that ends within the pack.
    private func header(at offset: UInt64) throws(RecordFault) -> RecordHeader {
        guard offset < end else { throw .ended }
        let header = try file.header(at: offset)
        guard offset + header.recordLength <= end else { throw .ended }
        return header
    }

    /// The offset of the next valid header, or the end. Bytes that cannot be read are skipped.
    private func nextRecord(from start: UInt64) -> UInt64 {
        let block = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 << 10, alignment: 16)
        defer { block.deallocate() }
        var offset = start
        while offset < end {
            let count = (try? file.read(into: block, at: offset)) ?? 0
            if let found = firstRecord(
                in: UnsafeRawBufferPointer(rebasing: block[..<count]), at: offset)
            {
                return found
            }
            // The next block overlaps this one, because a magic number may begin in one and end in
            // the other.
            offset += UInt64(block.count - (RecordHeader.magic.count - 1))
        }
        return end
    }

    private func firstRecord(in bytes: UnsafeRawBufferPointer, at offset: UInt64) -> UInt64? {
        guard let start = bytes.baseAddress else { return nil }
        var index = 0
        while let hit = memchr(start + index, Int32(RecordHeader.magic[0]), bytes.count - index) {
            index = UnsafeRawPointer(hit) - start
            let candidate = offset + UInt64(index)
            if bytes[index...].starts(with: RecordHeader.magic), (try? header(at: candidate)) != nil
            {
                return candidate
            }
            index += 1
        }
        return nil
    }

    private func location(of header: RecordHeader, at offset: UInt64) -> ChunkLocation {
        ChunkLocation(
            pack: file.pack, offset: offset, storedLength: header.storedLength,
            length: header.length)
    }
}
