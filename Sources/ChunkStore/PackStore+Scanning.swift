import Model

extension PackStore {
    /// Every record that can be found, pack by pack, and what lies between that is none. Only
    /// headers are checked, and a payload where nothing behind it vouches for its end. Who rebuilds
    /// an index from this calls `verify` too, and leaves out the chunks that it names: else a
    /// damaged chunk would pass for stored when the same bytes come again.
    package func scan<Failure: Error>(
        _ body: (Digest, ChunkLocation) throws(Failure) -> Void
    ) throws(Failure) -> [PackDamage] {
        var damages: [PackDamage] = []
        for (pack, bytes) in packs() {
            damages += try scan(pack, bytes: bytes, checksPayloads: false, body)
        }
        return damages
    }

    /// Reads and hashes every record. `progress` hears after each pack how many bytes are done, of
    /// how many. What no record tells of (a pack that is gone) only an index can miss.
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

    /// `bytes`: what lies behind is being written just now.
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
