import ChunkStore
import HubProtocol
import Journal
import Model
import Synchronization
import Volume

/// Fetches contents from the hub for the volume.
package final class HubContents: RemoteContents {
    let client: HubClient
    let account: Account
    let throttle: Throttle
    private let isOffline: @Sendable () -> Bool
    private let manifests = Mutex<(known: [Identifier: Manifest], references: Int)>(([:], 0))

    init(
        client: HubClient, account: Account, throttle: Throttle,
        isOffline: @escaping @Sendable () -> Bool
    ) {
        self.client = client
        self.account = account
        self.throttle = throttle
        self.isOffline = isOffline
    }

    package func manifest(of version: Identifier) throws(VolumeError) -> Manifest {
        if let known = manifests.withLock({ $0.known[version] }) { return known }
        let found = try manifests(of: [version: HubLimits.documentBytes])
        guard let manifest = found[version] else {
            throw VolumeError(.notFound, "The hub has no contents of version \(version).")
        }
        manifests.withLock { kept in
            if kept.known.count >= 256 || kept.references > HubLimits.references {
                kept = ([:], 0)
            }
            kept.known[version] = manifest
            kept.references += manifest.references
        }
        return manifest
    }

    /// Returns manifests of versions whose sizes are given. An invalid manifest, or one of a larger
    /// document, is treated like a missing one.
    func manifests(of versions: [Identifier: UInt64]) throws(VolumeError)
        -> [Identifier: Manifest]
    {
        var found: [Identifier: Manifest] = [:]
        var references = 0
        try asked { () throws(HubFault) in
            var open = Array(versions.keys)
            while !open.isEmpty {
                let frames = try client.manifests(account.volume, open)
                for frame in frames.found {
                    guard references < HubLimits.referencesTogether,
                        let manifest = Manifest(
                            received: frame.bytes, size: versions[frame.revision] ?? 0)
                    else { continue }
                    references += manifest.references
                    found[frame.revision] = manifest
                }
                open.removeFirst(frames.answered)
            }
        }
        return found
    }

    package func chunks(
        _ references: [ChunkReference], of version: Identifier,
        each: (Int, [UInt8]) throws(VolumeError) -> Void
    ) throws(VolumeError) {
        // Chunks are fetched in pieces, and each piece is handed over on this thread before the
        // next one is requested, so that the memory stays bounded.
        var start = 0
        while start < references.count {
            var (end, bytes) = (start, 0)
            while end < references.count, end - start < HubLimits.ids, bytes < HubContents.piece {
                bytes += Int(references[end].length)
                end += 1
            }
            let piece = Array(references[start..<end])
            let got = try read(piece, of: [version])
            for (index, chunk) in got.enumerated() { try each(start + index, chunk) }
            start = end
        }
    }

    private static let piece = 4 << 20

    /// Returns the uncompressed and verified bytes of each chunk, in order.
    ///
    /// - Parameter versions: The versions that have the chunks, at most `HubLimits.versionsNamed`.
    func read(_ references: [ChunkReference], of versions: [Identifier]) throws(VolumeError)
        -> [[UInt8]]
    {
        try HubContents.verified(references) { (references) throws(VolumeError) in
            try frames(of: references, of: versions)
        }
    }

    /// Returns the same by chunk, without the chunks that the hub has lost or damaged.
    func readable(_ references: [ChunkReference], of versions: [Identifier]) throws(VolumeError)
        -> [Digest: [UInt8]]
    {
        try HubContents.readable(references) { (references) throws(VolumeError) in
            try frames(of: references, of: versions)
        }
    }

    private func frames(of references: [ChunkReference], of versions: [Identifier])
        throws(VolumeError) -> [ChunkFrame]
    {
        let chunks = references.map { (id: account.keys.keyed($0.id), length: Int($0.length)) }
        let frames = Mutex<[ChunkFrame]>([])
        try asked { () throws(HubFault) in
            try client.read(account.volume, chunks, of: versions) { frame in
                frames.withLock { $0.append(frame) }
                return true
            }
        }
        let came = frames.withLock { $0 }
        throttle.pass(came.reduce(0) { $0 + $1.bytes.count })
        return came
    }

    /// Returns the bytes of all chunks, in order.
    ///
    /// - Throws: `.damaged` if the hub has lost or damaged one of them.
    static func verified(
        _ references: [ChunkReference], tries: Int = 3,
        ask: ([ChunkReference]) throws(VolumeError) -> [ChunkFrame]
    ) throws(VolumeError) -> [[UInt8]] {
        let found = try readable(references, tries: tries, ask: ask)
        return try references.map { (reference) throws(VolumeError) in
            guard let bytes = found[reference.id] else { throw HubContents.lost(reference) }
            guard bytes.count == Int(reference.length) else {
                throw VolumeError(.damaged, "A document says two lengths of one chunk.")
            }
            return bytes
        }
    }

    /// Requests chunks again that were corrupted on the network or on the hub's disk, at most
    /// `tries` times. Those that the hub has lost or damaged are not in the result.
    static func readable(
        _ references: [ChunkReference], tries: Int = 3,
        ask: ([ChunkReference]) throws(VolumeError) -> [ChunkFrame]
    ) throws(VolumeError) -> [Digest: [UInt8]] {
        // A document can have the same chunk in many places. The hub sends it once.
        var found: [Digest: [UInt8]] = [:]
        var requested: Set<Digest> = []
        var open = references.filter { requested.insert($0.id).inserted }
        for _ in 0..<tries where !open.isEmpty {
            let came = try ask(open)
            guard came.count == open.count else {
                throw VolumeError(.timeout, "The hub sent \(came.count) of \(open.count) chunks.")
            }
            var damaged: [ChunkReference] = []
            for (frame, reference) in zip(came, open) {
                if let bytes = frame.plain(length: Int(reference.length)),
                    Digest.sha256(bytes) == reference.id
                {
                    found[reference.id] = bytes
                } else if frame.codec != .absent {
                    damaged.append(reference)
                }
                // If the hub reports that it does not have a chunk, another attempt is useless.
            }
            open = damaged
        }
        return found
    }

    static func lost(_ chunk: ChunkReference) -> VolumeError {
        VolumeError(
            .damaged,
            "The hub lost or damaged chunk \(chunk.id): `concord hub check` there shows what "
                + "else is damaged.")
    }

    private func asked(_ body: () throws(HubFault) -> Void) throws(VolumeError) {
        guard !isOffline() else {
            throw VolumeError(.offline, "This device is offline (fsctl online ends that).")
        }
        do throws(HubFault) {
            try body()
        } catch {
            throw VolumeError(error)
        }
    }
}

extension ChunkFrame {
    /// Returns the uncompressed bytes; nil if the chunk is absent or has another length.
    func plain(length: Int) -> [UInt8]? {
        switch codec {
        case .plain: return bytes.count == length ? bytes : nil
        case .zstd:
            // The length comes from a manifest, which may be hostile and claim gigabytes.
            guard length <= HubLimits.chunkBytes else { return nil }
            let plain = Compression.decompress(bytes, limit: length)
            return plain?.count == length ? plain : nil
        case .absent: return nil
        }
    }
}

extension VolumeError {
    /// Whether the same may succeed soon without a person or another device doing something.
    var isPassing: Bool { [.offline, .timeout, .busy, .cancelled].contains(code) }

    /// Whether the hub cannot deliver just the contents that were asked for, and other requests may
    /// succeed.
    var concernsOnlyContents: Bool { [.damaged, .notFound, .invalid].contains(code) }

    init(_ fault: HubFault) {
        switch fault {
        case .unreachable(let text), .invalidAnswer(let text): self.init(.offline, text)
        case .silent(let text): self.init(.timeout, text)
        case .refused(let failure):
            switch failure.code {
            case .unauthenticated, .code, .forbidden: self.init(.denied, failure.message)
            case .notFound: self.init(.notFound, failure.message)
            case .full: self.init(.full, failure.message)
            case .busy, .tooMany, .failed: self.init(.timeout, failure.message)
            default: self.init(.invalid, failure.message)
            }
        }
    }
}
