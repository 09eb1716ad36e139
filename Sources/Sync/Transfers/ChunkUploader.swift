import ChunkStore
import HubProtocol
import Journal
import Model
import Volume

/// Uploads the chunks of versions. Any thread may use it.
struct ChunkUploader: EnginePart, Sendable {
    let parts: EngineParts
    let throttle: Throttle

    private typealias Owner = (chunk: ChunkReference, revision: Identifier, item: Int64)

    /// Uploads the chunks of these revisions that the hub does not have, in pieces; pieces that
    /// arrived stay there if the connection breaks.
    ///
    /// - Parameters:
    /// - job: The transfer whose progress is shown; nil if it is not shown.
    /// - hear: Called with the collection that an answer of the hub is valid in.
    /// - Returns: The revisions whose contents cannot be read here now.
    func upload(
        _ revisions: [Identifier], of job: TransferQueue.Upload? = nil,
        hear: (UInt64) -> Void = { _ in }
    ) throws -> Set<Identifier> {
        var owners: [Digest: Owner] = [:]
        var order: [Digest] = []
        let found = try volume.journal.read { reader in
            try revisions.map { id in
                (id, try reader.manifest(of: id), try reader.item(ofVersion: id))
            }
        }
        let ancestors = try ancestors(of: revisions)
        var failed: Set<Identifier> = []
        for (id, bytes, item) in found {
            // A version that was never here has no list of chunks before the hub is asked for it.
            // The journal keeps the list, because the operation names the chunks.
            let known = bytes.map {
                $0.isEmpty ? try? volume.versions.content(of: id).manifest : Manifest(encoded: $0)
            }
            guard let item, let manifest = known ?? nil else {
                failed.insert(id)
                continue
            }
            for chunk in manifest.entries.lazy.flatMap(\.chunks) {
                let name = account.keys.keyed(chunk.id)
                if owners.updateValue((chunk, id, item), forKey: name) == nil {
                    order.append(name)
                }
            }
        }
        let progress = job.map { job in
            Progress(
                state, events, job.item, job.path, .up,
                total: owners.values.reduce(0) { $0 + UInt64($1.chunk.length) })
        }
        var start = 0
        while start < order.count {
            let ids = Array(order[start..<min(start + HubLimits.ids, order.count)])
            start += ids.count
            let known = ids.lazy.compactMap { owners[$0] }.compactMap { ancestors[$0.revision] }
            let answer = try client.have(account.volume, ids, of: ChunkUploader.named(known))
            hear(answer.collection)
            var missing: [(id: Digest, owner: Owner)] = []
            for (index, id) in ids.enumerated() {
                guard let owner = owners[id] else { continue }
                if answer.present[index] {
                    progress?.add(Int(owner.chunk.length))
                } else {
                    missing.append((id, owner))
                }
            }
            let sources = try volume.versions.sources(
                of: missing.map { ($0.owner.chunk, $0.owner.item) })
            var frames = Frames()
            for ((id, owner), source) in zip(missing, sources) {
                let bytes =
                    volume.versions.bytes(of: owner.chunk, from: source)
                    ?? (try? volume.versions.bytes(of: owner.chunk, item: owner.item))
                guard let bytes else {
                    failed.insert(owner.revision)
                    continue
                }
                frames.append(id, bytes)
                if frames.isFull { try flush(&frames, progress) }
            }
            if !frames.isEmpty { try flush(&frames, progress) }
        }
        return failed
    }

    private func ancestors(of revisions: [Identifier]) throws -> [Identifier: [Identifier]] {
        try volume.journal.read { reader in
            try revisions.reduce(into: [:]) { $0[$1] = try reader.ancestors(of: $1) }
        }
    }

    /// As many versions as a request may name.
    private static func named(_ versions: some Sequence<[Identifier]>) -> [Identifier] {
        var named: Set<Identifier> = []
        for more in versions {
            guard named.count <= HubLimits.versionsNamed - Reader.namedAncestors else { break }
            named.formUnion(more)
        }
        return Array(named)
    }

    private func flush(_ frames: inout Frames, _ progress: Progress?) throws {
        guard !threads.isEnding else {
            throw VolumeError(.cancelled, "The sync engine is stopping.")
        }
        throttle.pass(frames.bytes.count)
        let answer = try client.upload(account.volume, frames.bytes)
        if let bad = answer.bad.first {
            throw HubFault.invalidAnswer("The hub refused a chunk: \(bad.message)")
        }
        progress?.add(frames.plain)
        events.unsafe?(true)
        frames = Frames()
    }
}

/// Chunks that are uploaded by one request.
private struct Frames {
    var bytes: [UInt8] = []
    var plain = 0
    var count = 0

    var isEmpty: Bool { count == 0 }
    /// Whether the next chunk may not fit, because it may have the maximum length.
    var isFull: Bool {
        count == HubLimits.chunksPerUpload || bytes.count > HubLimits.uploadBytes - (4 << 20)
    }

    mutating func append(_ id: Digest, _ chunk: [UInt8]) {
        let packed = chunk.count > 4096 ? Compression.compress(chunk) : nil
        ChunkFrame(id: id, codec: packed == nil ? .plain : .zstd, bytes: packed ?? chunk)
            .append(to: &bytes)
        plain += chunk.count
        count += 1
    }
}

extension Reader {
    fileprivate static let namedAncestors = 8

    /// The versions that a version was made from, the nearest ones first. It shares most chunks
    /// with them.
    fileprivate func ancestors(of id: Identifier) throws(VolumeError) -> [Identifier] {
        var (open, found) = (try version(id: id)?.version.parents ?? [], [Identifier]())
        while let next = open.first, found.count < Reader.namedAncestors {
            open.removeFirst()
            guard !found.contains(next) else { continue }
            found.append(next)
            open += try version(id: next)?.version.parents ?? []
        }
        return found
    }
}
