import Glibc
import Model
import SystemCalls

/// Walks through a pack from record to record, and behind damage searches for the next one.
struct PackScanner {
    let file: PackFile
    /// Where the pack ends.
    let end: UInt64
    let decoder: RecordDecoder
    /// Every payload is hashed, not only those whose end is in doubt.
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

    /// A record whose successor was written right behind it by the same run is whole. Any other may
    /// be torn, with the records of a later run where its payload should be: its payload has to
    /// tell.
    private func find(at offset: UInt64) -> Find {
        let header: RecordHeader
        do throws(RecordFault) {
            header = try self.header(at: offset)
        } catch {
            return .damage(nil, error, next: nextRecord(from: offset + 1))
        }
        let behind = offset + header.recordLength
        let isVouchedFor =
            (try? self.header(at: behind))
            .map { UInt64($0.back) == header.recordLength } ?? false
        if isVouchedFor && !checksPayloads { return .record(header) }
        do throws(RecordFault) {
            _ = try decoder.plain(
                of: file.record(at: offset, storedLength: header.storedLength))
            return .record(header)
        } catch {
            return .damage(
                header.id, error, next: isVouchedFor ? behind : nextRecord(from: offset + 1))
        }
    }

    /// The header of a record that ends within the pack.
    private func header(at offset: UInt64) throws(RecordFault) -> RecordHeader {
        guard offset < end else { throw .ended }
        let header = try file.header(at: offset)
        guard offset + header.recordLength <= end else { throw .ended }
        return header
    }

    /// Where the next header lies that checks, or the end. Bytes that cannot be read are passed
    /// over.
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
            // A magic number may lie across the border.
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
