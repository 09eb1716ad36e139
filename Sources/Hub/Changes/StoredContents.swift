import ChunkStore
import HubProtocol
import Model
import Reconcile

/// The contents of a document whose chunks are stored, as a new version has them.
package struct StoredContents: Sendable {
    package let manifest: Manifest
    package let content: RevisionContent
    /// Nanoseconds since 1970.
    package let modified: Int64

    /// - Parameter mode: The permission bits of the document, if it has some.
    package init(
        _ chunks: [ChunkReference], mode: UInt16? = nil, modified: Int64, _ names: VolumeNames
    ) {
        self.modified = modified
        manifest = Manifest(chunks: chunks, mode: mode ?? 0o644, modified: modified)
        content = RevisionContent(
            manifest: manifest.encoded, chunks: manifest.chunkIDs.map(names.keyed).sorted())
    }

    /// The bytes in memory.
    package var heldBytes: Int {
        manifest.references * ContentReceiver.referenceBytes + content.manifest.bytes.count
            + content.chunks.bytes.count
    }
}

/// Receives the contents of one document piece by piece: they are cut as devices cut them, and
/// stored. What is in memory counts in the budget of the request.
package struct ContentReceiver {
    private let hub: Hub
    private let volume: VolumeRow
    private let caller: Caller
    private let budget: BodyBudget
    private let size: UInt64
    private var cutter: StreamCutter
    private var upload: Upload
    private var references: [ChunkReference] = []

    package static let referenceBytes = MemoryLayout<ChunkReference>.stride

    /// - Parameters:
    ///   - size: The bytes of the contents, or the most that they can have. If they are fewer, they
    ///     may have to be cut a second time.
    ///   - old: The bytes of what these contents replace.
    /// - Throws: `.quota`, `.tooLarge`. A document that can never fit is refused before it arrives.
    ///   Otherwise its chunks, which are kept for a while, would leave no space for others.
    package init(
        to volume: VolumeRow, of hub: Hub, for caller: Caller, upTo size: UInt64,
        replacing old: UInt64, _ budget: BodyBudget
    ) async throws {
        (self.hub, self.volume, self.caller) = (hub, volume, caller)
        (self.budget, self.size) = (budget, size)
        let account = try await hub.ledger.read { try $0.account(volume.account) }
        if let account, let quota = account.quota {
            let more = size > old ? size - old : 0
            guard more <= quota - min(quota, account.used) else {
                throw Failure(.quota, "The quota of the volume's owner would be exceeded.")
            }
        }
        cutter = try ContentReceiver.cutter(size)
        upload = hub.upload(to: volume, for: caller, budget)
    }

    private static func cutter(_ size: UInt64) throws(Failure) -> StreamCutter {
        do { return try StreamCutter(size: size) } catch {
            throw Failure(.tooLarge, error.message)
        }
    }

    /// The bytes in memory.
    package var heldBytes: Int {
        cutter.heldBytes + references.count * ContentReceiver.referenceBytes + upload.heldBytes
    }

    /// The bytes that have arrived.
    package var count: UInt64 { UInt64(cutter.count) }

    /// - Parameter others: What else the request holds in memory.
    /// - Throws: `.malformed` if there are more bytes than announced; `.busy`, `.quota`.
    package mutating func append(_ bytes: some Collection<UInt8>, beside others: Int = 0)
        async throws
    {
        hub.metrics.bytesIn.add(bytes.count)
        guard count + UInt64(bytes.count) <= size else { throw ContentReceiver.wrongLength }
        cutter.append(bytes)
        if !budget.isHeld(others + heldBytes) {
            try await upload.flush()
            try budget.hold(others + heldBytes)
        }
        try await cut(beside: others)
    }

    package static let wrongLength = Failure(
        .malformed, "The body has another length than its headers say. Nothing was changed.")

    private mutating func cut(beside others: Int) async throws {
        while let chunk = try cutter.next() {
            let held =
                others + cutter.heldBytes + references.count * ContentReceiver.referenceBytes
            references.append(try await upload.add(cut: chunk, beside: held))
        }
    }

    /// Stores the rest, and returns the chunks of the whole.
    package mutating func finish(beside others: Int = 0) async throws -> [ChunkReference] {
        let isCutRight = cutter.end()
        try await cut(beside: others)
        try await upload.flush()
        if !isCutRight { try await cutAgain(beside: others) }
        return references
    }

    /// Stores what has arrived, although the rest does not: it serves when the client sends the
    /// document again.
    package mutating func abandon() async { try? await upload.flush() }

    /// How contents are cut depends on their length. These were cut as longer ones, so they are
    /// read again from where they are stored.
    private mutating func cutAgain(beside others: Int) async throws {
        let entry = Manifest.Entry(size: count, chunks: references)
        try budget.hold(others)
        let stored = try Content(entry, in: volume, of: hub, for: caller, budget)
        cutter = try ContentReceiver.cutter(entry.size)
        references = []
        var reader = stored.reader(of: 0..<entry.size)
        while let bytes = try await reader.next() {
            cutter.append(bytes)
            try await cut(beside: others)
        }
        try await upload.flush()
    }
}
