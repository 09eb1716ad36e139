import Foundation
import HTTPTypes
import HubProtocol
import Hummingbird
import Model
import NIOCore
import ServiceLifecycle

extension Call {
    func have(_ volume: Identifier, _ caller: Caller) async throws -> Response {
        let (ids, versions) = (try await packedIDs(), try namedVersions())
        let (present, collection) = try await hub.have(
            ids, of: versions, in: volume, for: caller)
        var response = Call.response(present.bytes, type: ContentType.binary)
        response.headers[.collection] = String(collection)
        return response
    }

    private func namedVersions() throws -> [Identifier] {
        try (request.headers[.versions] ?? "").split(separator: ",").map { word in
            guard word.utf8.count == 32, let id = Identifier(String(word)) else {
                throw Failure(
                    .malformed,
                    "\(HubHeader.versions) must be ids of 32 hexadecimal digits, separated by "
                        + "commas.")
            }
            return id
        }
    }

    private func packedIDs() async throws -> [Digest] {
        try checkType(ContentType.binary)
        let bytes = try await body(limit: HubLimits.ids * PackedIDs.idBytes)
        guard let packed = PackedIDs(bytes: bytes) else {
            throw Failure(.malformed, "The body must consist of ids of 32 bytes.")
        }
        return packed.ids
    }

    /// Stores chunks while the body arrives: chunks that arrived completely are kept if the
    /// connection breaks.
    func chunks(_ view: VolumeView, _ caller: Caller) async throws -> Response {
        try checkType(ContentType.binary)
        let limit =
            max(HubLimits.uploadBytes, HubLimits.chunkBytes)
            + HubLimits.chunksPerUpload * ChunkFrame.headerBytes
        try checkLength(limit)
        var upload = hub.upload(to: view.volume, folder: view.folder, for: caller, held)
        var (reader, count) = (FrameReader(), 0)
        do {
            try await request.forEachBodyPart { part in
                count += part.readableBytes
                guard count <= limit else { throw Call.tooLarge(limit) }
                reader.append(part.readableBytesView)
                while let frame = try reader.nextChunk() {
                    try await upload.add(frame, beside: reader.heldBytes)
                }
                guard !held.isHeld(reader.heldBytes + upload.heldBytes) else { return }
                try await upload.flush()
                try held.hold(reader.heldBytes)
            }
        } catch {
            hub.metrics.bytesIn.add(count)
            try await upload.flush()
            throw error
        }
        hub.metrics.bytesIn.add(count)
        try await upload.flush()
        guard reader.isEmpty else {
            throw Failure(.malformed, "The last chunk is incomplete; the others were stored.")
        }
        return Call.json(upload.answer)
    }

    func read(_ view: VolumeView, _ caller: Caller) async throws -> Response {
        let (ids, hub) = (try await packedIDs(), self.hub)
        try hub.checkList(ids)
        let (id, volume) = (view.id, view.volume.id)
        let granted = try await FolderChunks(hub).readable(
            ids, of: try namedVersions(), in: id, for: caller)
        // The first chunk is read before the answer begins, because a failure of the hub can be
        // answered with an error status only until then.
        let rows = try await hub.rows(
            of: ids.prefix(Call.together), in: id, for: caller, granted: granted)
        let first = try await ids.first.asyncMap {
            try await hub.frame(of: $0, rows[0], in: volume)
        }
        return Response(
            status: .ok, headers: [.contentType: ContentType.binary],
            body: ResponseBody { writer in
                var held = first?.encoded ?? []
                var rows = rows
                for (index, chunk) in ids.enumerated().dropFirst() {
                    if index % Call.together == 0 {
                        let group = ids[index..<min(index + Call.together, ids.count)]
                        rows = try await hub.rows(of: group, in: id, for: caller, granted: granted)
                    }
                    held += try await hub.frame(of: chunk, rows[index % Call.together], in: volume)
                        .encoded
                    if let piece = taken(&held, above: Call.piece) { try await writer.write(piece) }
                }
                if let rest = taken(&held, above: 0) { try await writer.write(rest) }
                try await writer.finish(nil)
            })
    }

    /// The number of rows, or of manifests, that one transaction reads.
    private static let together = 16
    /// The bytes of manifests that are read in one step; the last manifest may exceed them.
    private static let manifestsHeld = 1 << 20
    /// The number of bytes that are sent together.
    private static let piece = 1 << 16

    /// Takes all held bytes if there are enough of them to be sent; nil otherwise.
    private func taken(_ held: inout [UInt8], above limit: Int) -> ByteBuffer? {
        guard held.count > limit else { return nil }
        defer { held = [] }
        hub.metrics.bytesOut.add(held.count)
        return ByteBuffer(bytes: held)
    }

    func manifests(_ volume: Identifier, _ caller: Caller) async throws -> Response {
        let (list, hub): (RevisionList, Hub) = (try await decoded(), self.hub)
        try hub.checkList(list.revisions)
        return Response(
            status: .ok, headers: [.contentType: ContentType.binary],
            body: ResponseBody { writer in
                var held: [UInt8] = []
                for start in stride(from: 0, to: list.revisions.count, by: Call.together) {
                    var rest = list.revisions[start...].prefix(Call.together)
                    while !rest.isEmpty {
                        let frames = try await hub.manifests(
                            of: &rest, in: volume, for: caller, upTo: Call.manifestsHeld)
                        for frame in frames { frame.append(to: &held) }
                        if let piece = taken(&held, above: Call.piece) {
                            try await writer.write(piece)
                        }
                    }
                    if let piece = taken(&held, above: Call.piece) { try await writer.write(piece) }
                }
                if let rest = taken(&held, above: 0) { try await writer.write(rest) }
                try await writer.finish(nil)
            })
    }

    func changes(_ volume: Identifier, _ caller: Caller) async throws -> Response {
        let query = try Query(request.head.path ?? "")
        let answer = try await hub.changes(
            in: volume, for: caller, after: try query.count("after") ?? 0,
            run: try id(.run),
            limit: try query.count("limit").map { Int(clamping: $0) } ?? HubLimits.changes,
            epoch: try id(.epoch), withoutTrashUpTo: try query.count("trashedAfter"))
        let isPacked = request.headers[.accept]?.contains(ContentType.binary) ?? false
        var response =
            isPacked
            ? Call.response(answer.packed, type: ContentType.binary) : Call.json(answer)
        response.headers[.epoch] = answer.volumeEpoch.description
        let standing = try await hub.members.standing(of: caller, in: volume)
        response.headers[.role] = standing.role.rawValue
        response.headers[.members] = String(standing.members)
        return response
    }

    func id(_ header: HTTPField.Name) throws -> Identifier? {
        guard let text = request.headers[header] else { return nil }
        guard text.utf8.count == 32, let id = Identifier(text) else {
            throw Failure(.malformed, "\(header) must be an id of 32 hexadecimal digits.")
        }
        return id
    }

    // MARK: Feed

    /// The minimum time between two hints of a feed: hints that arrive in between are merged. The
    /// first one is sent at once.
    private static let pause = Duration.milliseconds(10)

    func feed(_ view: VolumeView, _ caller: Caller, token: String) async throws -> Response {
        let volume = view.volume
        let (hub, epoch) = (self.hub, try id(.epoch))
        let process = try self.id(.process)
        if let epoch, epoch != volume.epoch { throw Failure.volumeEpoch(volume.epoch) }
        let hash = Secret.hash(token: token)
        return Response(
            status: .ok,
            headers: [
                .contentType: ContentType.lines, .cacheControl: "no-store",
                .epoch: volume.epoch.description,
            ],
            body: ResponseBody { writer in
                // The feed is opened before the head is read again, so that no commit in between is
                // missed.
                let line = try await hub.members.openFeed(
                    of: volume, as: view.id, for: caller, .feed, token: hash, process: process)
                hub.listeners.announce(line)
                defer { hub.listeners.close(line) }
                for await _ in line.wakes.cancelOnGracefulShutdown() {
                    guard let next = line.next(at: hub.clock()) else { continue }
                    let hint = await hub.members.completed(next, in: view, for: caller)
                    try await writer.write(ByteBuffer(bytes: try Call.line(hint)))
                    if let delay = line.takeDelay() { hub.metrics.told(after: delay) }
                    if hint.ended != nil { break }
                    try await Task.sleep(for: Call.pause)
                }
                try await writer.finish(nil)
            })
    }

    private static func line(_ hint: Hint) throws -> [UInt8] {
        [UInt8](try JSONEncoder().encode(hint)) + [UInt8(ascii: "\n")]
    }
}

extension Optional where Wrapped: Sendable {
    fileprivate func asyncMap<Result>(_ body: (Wrapped) async throws -> Result) async rethrows
        -> Result?
    {
        if let self { try await body(self) } else { nil }
    }
}

extension HTTPField.Name {
    static let process = HTTPField.Name(HubHeader.process)!
    static let otherProcess = HTTPField.Name(HubHeader.otherProcess)!
    fileprivate static let epoch = HTTPField.Name(HubHeader.epoch)!
    fileprivate static let role = HTTPField.Name(HubHeader.role)!
    fileprivate static let members = HTTPField.Name(HubHeader.members)!
    fileprivate static let run = HTTPField.Name(HubHeader.run)!
    fileprivate static let versions = HTTPField.Name(HubHeader.versions)!
    fileprivate static let collection = HTTPField.Name(HubHeader.collection)!
}

/// The query parameters of a path.
private struct Query {
    private let values: [Substring: Substring]

    init(_ path: String) throws {
        let query = path.split(separator: "?", maxSplits: 1).dropFirst().first ?? ""
        var values: [Substring: Substring] = [:]
        for pair in query.split(separator: "&") {
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard values.updateValue(parts.count == 2 ? parts[1] : "", forKey: parts[0]) == nil
            else { throw Failure(.malformed, "\(parts[0]) occurs twice.") }
        }
        self.values = values
    }

    /// Returns a number from 0 to 2^63 - 1; nil if the parameter is missing.
    func count(_ name: Substring) throws -> UInt64? {
        guard let text = values[name] else { return nil }
        guard text.utf8.allSatisfy({ (48...57).contains($0) }), let value = Int64(text) else {
            throw Failure(.malformed, "\(name) must be a number from 0 to 2^63 - 1.")
        }
        return UInt64(value)
    }
}
