import Model

extension PackStore {
    /// Finds every record, pack by pack, and returns the damaged ranges between them. It checks
    /// headers. It checks a payload only when the next record does not prove that the record is
    /// complete. A caller that rebuilds an index must also call `verify` and leave out the chunks
    /// that it reports: otherwise a damaged chunk would count as stored when the same bytes arrive
    /// again.
    package func scan<Failure: Error>(
        _ body: (Digest, ChunkLocation) throws(Failure) -> Void
    ) throws(Failure) -> [PackDamage] {
        var damages: [PackDamage] = []
        for (pack, bytes) in packs() {
            damages += try scan(pack, bytes: bytes, checksPayloads: false, body)
        }
        return damages
    }

    /// Reads and hashes every record. After each pack, `progress` gets the number of bytes done,
    /// and the number of all bytes. A pack whose file is missing is not reported: only an index
    /// knows about it.
    package func verify(progress: (_ done: UInt64, _ total: UInt64) -> Void = { _, _ in })
        -> [PackDamage]
    {
        let packs = packs()
        let total = packs.reduce(0) { $0 + $1.bytes }
        var damages: [PackDamage] = []
        var done: UInt64 = 0
        for (pack, bytes) in packs {
            damages += scan(pack, bytes: bytes, checksPayloads: true) { _, _ in }
            done += bytes
            progress(done, total)
        }
        return damages
    }

    /// Scans the first `bytes` bytes of a pack: a writer may be appending more.
    func scan<Failure: Error>(
        _ pack: UInt32, bytes: UInt64, checksPayloads: Bool,
        _ body: (Digest, ChunkLocation) throws(Failure) -> Void
    ) throws(Failure) -> [PackDamage] {
        let file: PackFile
        do throws(RecordFault) {
            file = try directory.file(pack)
        } catch {
            return [PackDamage(pack: pack, offset: 0, length: 0, id: nil, reason: "\(error)")]
        }
        let scanner = PackScanner(
            file: file, end: bytes, decoder: decoder, checksPayloads: checksPayloads)
        return try scanner.scan(body)
    }
}
