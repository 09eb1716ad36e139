import ChunkStore
import Hub
import HubProtocol
import Hummingbird
import Model
import Reconcile

/// The contents of a document that a client sends. They are cut and stored while they arrive.
struct ReceivedContents: Sendable {
    let manifest: Manifest
    let content: RevisionContent

    private static let referenceBytes = MemoryLayout<ChunkReference>.stride

    init(emptyAt modified: Int64) {
        manifest = Manifest(chunks: [], modified: modified)
        content = RevisionContent(manifest: manifest.encoded, chunks: [])
    }

    /// - Throws: A refusal with the status 411 if the client does not say how long the body is:
    ///   how a document is cut depends on its length. `.quota`, `.busy`, `.tooLarge`, `.malformed`.
    /// - Parameter old: The document that gets these contents.
    init(_ session: Session, to volume: VolumeRow, replacing old: ItemState?, modified: Int64)
        async throws
    {
        guard session.request.headers[.contentRange] == nil else {
            throw Failure(.malformed, "A part of a document cannot be sent (Content-Range).")
        }
        guard let size = session.length else {
            throw Refusal(411, "The header Content-Length must say how long the document is.")
        }
        try await ReceivedContents.checkQuota(
            session, of: volume, size, replacing: old?.current?.size ?? 0)
        var cutter: StreamCutter
        do { cutter = try StreamCutter(size: size) } catch {
            throw Failure(.tooLarge, error.message)
        }
        var upload = session.hub.upload(to: volume, for: session.caller, session.budget)
        var references: [ChunkReference] = []
        let hub = session.hub
        do {
            try await session.request.forEachBodyPart { part in
                hub.metrics.bytesIn.add(part.readableBytes)
                guard UInt64(cutter.count) + UInt64(part.readableBytes) <= size else {
                    throw ReceivedContents.wrongLength
                }
                cutter.append(part.readableBytesView)
                while let chunk = try cutter.next() {
                    let others =
                        cutter.heldBytes + references.count * ReceivedContents.referenceBytes
                    references.append(try await upload.add(cut: chunk, beside: others))
                }
            }
            try await upload.flush()
        } catch {
            // What was stored already serves when the client sends the document again.
            try? await upload.flush()
            throw error
        }
        guard UInt64(cutter.count) == size else { throw ReceivedContents.wrongLength }
        manifest = Manifest(
            chunks: references, mode: old?.mode ?? 0o644, modified: modified)
        let names = VolumeNames(volume: volume)
        content = RevisionContent(
            manifest: manifest.encoded, chunks: manifest.chunkIDs.map(names.keyed).sorted())
    }

    private static let wrongLength = Failure(
        .malformed, "The body has another length than its headers say. Nothing was changed.")

    /// A document that can never fit is refused before it arrives. Otherwise its chunks, which are
    /// kept for a while, would leave no space for others.
    private static func checkQuota(
        _ session: Session, of volume: VolumeRow, _ size: UInt64, replacing old: UInt64
    ) async throws {
        let account = try await session.hub.ledger.read { try $0.account(volume.account) }
        guard let account, let quota = account.quota else { return }
        let more = size > old ? size - old : 0
        guard more <= quota - min(quota, account.used) else {
            throw Failure(.quota, "The quota of the volume's owner would be exceeded.")
        }
    }
}
