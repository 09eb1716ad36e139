// The stored form of a manifest: a format byte, then the entries; numbers are LEB128, times zigzag.
//   1 | count | { path length, path, kind, mode, modified, size, target length, target,
//                 chunk count, { 33-byte id, length } }
// A 10 GB photo library at 64 KiB a chunk costs 36 bytes a chunk: 0.06 %.

extension Manifest {
    private static let format: UInt8 = 1

    package var encoded: [UInt8] { encoded(withTimes: true) }

    /// What equality of contents looks at: everything but times and permissions, which alone never
    /// make a version.
    package var contentForm: [UInt8] { encoded(withTimes: false) }

    private func encoded(withTimes: Bool) -> [UInt8] {
        var out: [UInt8] = [Manifest.format]
        out.append(number: UInt64(entries.count))
        for entry in entries {
            out.append(number: UInt64(entry.path.count))
            out += entry.path
            out.append(entry.kind.rawValue)
            out.append(number: withTimes ? UInt64(entry.mode) : 0)
            out.append(number: withTimes ? zigzag(entry.modified) : 0)
            out.append(number: entry.size)
            out.append(number: UInt64(entry.target.count))
            out += entry.target
            out.append(number: UInt64(entry.chunks.count))
            for chunk in entry.chunks {
                out += chunk.id.bytes
                out.append(number: UInt64(chunk.length))
            }
        }
        return out
    }

    /// Nil when the bytes are not a whole manifest.
    package init?(encoded bytes: [UInt8]) {
        var reader = Reader(bytes: bytes)
        guard reader.byte() == Manifest.format, let count = reader.number(),
            count <= UInt64(bytes.count)
        else { return nil }
        var entries: [Entry] = []
        entries.reserveCapacity(Int(count))
        for _ in 0..<count {
            guard let entry = reader.entry() else { return nil }
            entries.append(entry)
        }
        guard reader.isAtEnd else { return nil }
        self.init(entries: entries)
    }
}

private func zigzag(_ value: Int64) -> UInt64 { UInt64(bitPattern: value << 1 ^ value >> 63) }
private func unzigzag(_ value: UInt64) -> Int64 {
    Int64(bitPattern: value >> 1) ^ -Int64(bitPattern: value & 1)
}

extension [UInt8] {
    fileprivate mutating func append(number: UInt64) {
        var rest = number
        while rest >= 0x80 {
            append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        append(UInt8(rest))
    }
}

private struct Reader {
    let bytes: [UInt8]
    var position = 0

    init(bytes: [UInt8]) { self.bytes = bytes }

    var isAtEnd: Bool { position == bytes.count }

    mutating func byte() -> UInt8? {
        guard position < bytes.count else { return nil }
        position += 1
        return bytes[position - 1]
    }

    mutating func number() -> UInt64? {
        var value: UInt64 = 0
        for shift in stride(from: UInt64(0), to: 64, by: 7) {
            guard let next = byte() else { return nil }
            value |= UInt64(next & 0x7F) << shift
            if next < 0x80 { return value }
        }
        return nil
    }

    mutating func run() -> [UInt8]? {
        guard let length = number(), length <= UInt64(bytes.count - position) else { return nil }
        position += Int(length)
        return Array(bytes[(position - Int(length))..<position])
    }

    mutating func entry() -> Manifest.Entry? {
        guard let path = run(), let kind = byte().flatMap(Manifest.Kind.init(rawValue:)),
            let mode = number(), let modified = number(), let size = number(), let target = run(),
            let count = number(), count <= UInt64(bytes.count - position)
        else { return nil }
        var chunks: [ChunkReference] = []
        chunks.reserveCapacity(Int(count))
        for _ in 0..<count {
            guard position + Digest.byteCount <= bytes.count,
                let id = Digest(bytes: bytes[position..<position + Digest.byteCount])
            else { return nil }
            position += Digest.byteCount
            guard let length = number(), length <= UInt64(UInt32.max) else { return nil }
            chunks.append(ChunkReference(id: id, length: UInt32(length)))
        }
        return Manifest.Entry(
            path: path, kind: kind, mode: UInt16(truncatingIfNeeded: mode),
            modified: unzigzag(modified), size: size, target: target, chunks: chunks)
    }
}
