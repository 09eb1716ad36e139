// The stored form of a manifest is a format byte followed by the entries. Numbers are LEB128; times
// are zigzag-encoded first.
//   1 | count | { path length, path, kind, mode, modified, size, target length, target,
//                 chunk count, { 33-byte id, length } }
// Bit 16 of the mode is `Entry.isOfAnother`, which older readers ignore.
// Format 2 is used when adjacent chunks are equal, as those of a hole are: each element of the
// chunk list is then { 33-byte id, length, number of repetitions }.
// A 10 GB photo library with chunks of 64 KiB costs 36 bytes for each chunk: 0.06 %.

extension Manifest {
    fileprivate static let format: UInt8 = 1
    fileprivate static let formatOfRuns: UInt8 = 2
    /// The most chunks that a decoded manifest may have after its runs are expanded, because a
    /// small hostile manifest could otherwise fill the memory.
    static let chunksMax = 1 << 24

    package var encoded: [UInt8] {
        let repeats = entries.contains { entry in
            zip(entry.chunks, entry.chunks.dropFirst()).contains { $0 == $1 }
        }
        return encoded(withTimes: true, asRuns: repeats)
    }

    /// The form by which contents are compared. It leaves out times and permissions, because a
    /// change of these alone never makes a version.
    package var contentForm: [UInt8] { encoded(withTimes: false, asRuns: false) }

    private func encoded(withTimes: Bool, asRuns: Bool) -> [UInt8] {
        var out: [UInt8] = [asRuns ? Manifest.formatOfRuns : Manifest.format]
        out.append(number: UInt64(entries.count))
        for entry in entries {
            out.append(number: UInt64(entry.path.count))
            out += entry.path
            out.append(entry.kind.rawValue)
            out.append(number: withTimes ? entry.codedMode : 0)
            out.append(number: withTimes ? zigzag(entry.modified) : 0)
            out.append(number: entry.size)
            out.append(number: UInt64(entry.target.count))
            out += entry.target
            if asRuns {
                out.append(runs: entry.chunks)
                continue
            }
            out.append(number: UInt64(entry.chunks.count))
            for chunk in entry.chunks { out.append(chunk) }
        }
        return out
    }

    /// Returns the ids of the chunks that an encoded manifest names; nil when the bytes are not a
    /// complete manifest. Runs are not expanded.
    package static func chunkIDs(encoded bytes: [UInt8]) -> Set<Digest>? {
        var ids: Set<Digest> = []
        let lists = Reader.entries(
            of: bytes, (), where: { _, _ in true },
            add: { _, chunk, times in if times > 0 { ids.insert(chunk.id) } })
        return lists == nil ? nil : ids
    }

    /// Returns nil when the bytes are not a complete manifest.
    package init?(encoded bytes: [UInt8]) { self.init(encoded: bytes, where: { _, _ in true }) }

    /// - Parameter isWanted: Gets the number of each entry, from 0, and the entry without its list
    ///   of chunks. The others are left out.
    package init?(encoded bytes: [UInt8], where isWanted: (Int, Entry) -> Bool) {
        let lists = Reader.entries(of: bytes, [ChunkReference](), where: isWanted) {
            chunks, chunk, times in
            chunks += repeatElement(chunk, count: times)
        }
        guard let lists else { return nil }
        self.init(
            entries: lists.map { entry, chunks in
                var entry = entry
                entry.chunks = chunks
                return entry
            })
    }
}

/// What an encoded manifest describes, without the lists of chunks themselves. A few bytes can
/// stand for millions of chunks, so a manifest that others have sent is judged by its outline
/// before it is decoded.
package struct ManifestOutline: Sendable {
    /// The list of chunks of one entry.
    package struct Chunks: Hashable, Sendable {
        /// How many chunks the list has after its runs are expanded.
        package var count = 0
        /// The sum of their lengths; at most `UInt64.max`.
        package var bytes: UInt64 = 0
        package var shortest = UInt32.max
        package var longest: UInt32 = 0

        package init() {}

        package mutating func add(_ chunk: ChunkReference, times: Int = 1) {
            guard times > 0 else { return }
            count += times
            let (run, isTooLong) = UInt64(chunk.length).multipliedReportingOverflow(
                by: UInt64(times))
            let (sum, overflows) = bytes.addingReportingOverflow(run)
            bytes = isTooLong || overflows ? .max : sum
            shortest = min(shortest, chunk.length)
            longest = max(longest, chunk.length)
        }
    }

    /// The entries, whose own lists of chunks are empty.
    package private(set) var entries: [(entry: Manifest.Entry, chunks: Chunks)] = []

    package init(_ manifest: Manifest) {
        entries = manifest.entries.map { entry in
            var (alone, chunks) = (entry, Chunks())
            for chunk in entry.chunks { chunks.add(chunk) }
            alone.chunks = []
            return (alone, chunks)
        }
    }

    /// Returns nil when the bytes are not a complete manifest.
    package init?(encoded bytes: [UInt8]) { self.init(encoded: bytes, where: { _, _ in true }) }

    /// - Parameter isWanted: As for a manifest. What it throws ends the reading, so that a manifest
    ///   of very many entries takes no more memory than there is for it.
    package init?<Refusal: Error>(
        encoded bytes: [UInt8], where isWanted: (Int, Manifest.Entry) throws(Refusal) -> Bool
    ) throws(Refusal) {
        let lists = try Reader.entries(of: bytes, Chunks(), where: isWanted) {
            chunks, chunk, times in
            chunks.add(chunk, times: times)
        }
        guard let lists else { return nil }
        entries = lists
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

    fileprivate mutating func append(_ chunk: ChunkReference) {
        self += chunk.id.bytes
        append(number: UInt64(chunk.length))
    }

    fileprivate mutating func append(runs chunks: [ChunkReference]) {
        var runs: [(chunk: ChunkReference, count: UInt64)] = []
        for chunk in chunks {
            if let last = runs.last, last.chunk == chunk {
                runs[runs.count - 1].count += 1
            } else {
                runs.append((chunk, 1))
            }
        }
        append(number: UInt64(runs.count))
        for run in runs {
            append(run.chunk)
            append(number: run.count)
        }
    }
}

private struct Reader {
    let bytes: [UInt8]
    var position = 0
    /// How many more chunks the lists of this manifest may have.
    private var chunksLeft = Manifest.chunksMax

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

    /// Returns the entries of an encoded manifest that are wanted, and for each what `add` has made
    /// of its list of chunks, beginning with `empty`. `add` gets each chunk and how often it is
    /// repeated. Returns nil when the bytes are not a complete manifest.
    static func entries<Chunks, Refusal: Error>(
        of bytes: [UInt8], _ empty: Chunks,
        where isWanted: (Int, Manifest.Entry) throws(Refusal) -> Bool,
        add: (inout Chunks, ChunkReference, Int) -> Void
    ) throws(Refusal) -> [(entry: Manifest.Entry, chunks: Chunks)]? {
        var reader = Reader(bytes: bytes)
        guard let format = reader.byte(),
            format == Manifest.format || format == Manifest.formatOfRuns,
            let count = reader.number(),
            count <= UInt64(bytes.count)
        else { return nil }
        let hasRuns = format == Manifest.formatOfRuns
        var entries: [(entry: Manifest.Entry, chunks: Chunks)] = []
        for number in 0..<Int(count) {
            guard let entry = reader.entry() else { return nil }
            guard try isWanted(number, entry) else {
                guard reader.chunks(hasRuns: hasRuns, { _, _ in }) else { return nil }
                continue
            }
            var chunks = empty
            guard reader.chunks(hasRuns: hasRuns, { add(&chunks, $0, $1) }) else { return nil }
            entries.append((entry, chunks))
        }
        return reader.isAtEnd ? entries : nil
    }

    /// Reads an entry up to its list of chunks.
    private mutating func entry() -> Manifest.Entry? {
        guard let path = run(), let kind = byte().flatMap(Manifest.Kind.init(rawValue:)),
            let mode = number(), let modified = number(), let size = number(), let target = run()
        else { return nil }
        return Manifest.Entry(
            path: path, kind: kind, mode: UInt16(truncatingIfNeeded: mode),
            isOfAnother: mode & Manifest.Entry.ofAnother != 0, modified: unzigzag(modified),
            size: size, target: target)
    }

    /// Calls `body` with each chunk of an entry's list, and how often it is repeated. Returns
    /// false when the list is not valid.
    private mutating func chunks(hasRuns: Bool, _ body: (ChunkReference, Int) -> Void) -> Bool {
        guard let count = number(), count <= UInt64(bytes.count - position) else { return false }
        for _ in 0..<count {
            guard position + Digest.byteCount <= bytes.count,
                let id = Digest(bytes: bytes[position..<position + Digest.byteCount])
            else { return false }
            position += Digest.byteCount
            guard let length = number(), length <= UInt64(UInt32.max) else { return false }
            let chunk = ChunkReference(id: id, length: UInt32(length))
            guard hasRuns else {
                body(chunk, 1)
                continue
            }
            guard let times = number(), times <= UInt64(chunksLeft) else { return false }
            chunksLeft -= Int(times)
            body(chunk, Int(times))
        }
        return true
    }
}

extension Manifest.Entry {
    fileprivate static let ofAnother: UInt64 = 1 << 16
    fileprivate var codedMode: UInt64 { UInt64(mode) | (isOfAnother ? Self.ofAnother : 0) }
}
