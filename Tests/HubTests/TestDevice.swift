import AsyncHTTPClient
import ChunkStore
import Foundation
import HubProtocol
import Model
import NIOCore
import Reconcile
import Support

/// A device's side of the protocol without a device.
struct TestDevice: Sendable {
    let url: String
    var token: String
    var id: Identifier
    var epoch: UInt32
    var volume: VolumeAnswer
    /// The number of the next operation.
    var number: UInt64 = 1

    init(url: String, code: String, volume name: String) async throws {
        self.url = url
        let request = EnrolRequest(code: code, deviceName: "device", device: .random())
        let answer: EnrolAnswer = try await Wire.post(url + Routes.enrol, request, token: nil)
        token = answer.token
        id = answer.device
        epoch = answer.epoch
        volume = try await Wire.post(
            url + Routes.volumes, VolumeRequest(name: name), token: answer.token)
    }

    func path(_ call: VolumeCall) -> String { url + Routes.volume(volume.id, call) }

    // MARK: Chunks

    func id(of bytes: [UInt8]) -> Digest {
        .keyed(by: volume.chunkKey.bytes, Digest.sha256(bytes).bytes)
    }

    func frame(_ bytes: [UInt8]) -> ChunkFrame {
        ChunkFrame(id: id(of: bytes), codec: .plain, bytes: bytes)
    }

    @discardableResult
    func upload(_ chunks: [[UInt8]]) async throws -> ChunksAnswer {
        try await upload(chunks.map { frame($0) })
    }

    func upload(_ frames: [ChunkFrame]) async throws -> ChunksAnswer {
        let body = frames.flatMap(\.encoded)
        let reply = try await Wire.send(path(.chunks), body, token: token)
        return try reply.decoded()
    }

    func have(
        _ ids: [Digest], of versions: [Identifier] = []
    ) async throws -> (present: [Bool], collection: UInt64) {
        let reply = try await Wire.send(
            path(.have), PackedIDs(ids).bytes, token: token, headers: naming(versions))
        guard let presence = Presence(bytes: try reply.checked(), count: ids.count),
            let collection = reply.values(of: HubHeader.collection).first.flatMap({ UInt64($0) })
        else { throw SupportError("no bitmap") }
        return (ids.indices.map { presence[$0] }, collection)
    }

    private func naming(_ versions: [Identifier]) -> [String: String] {
        versions.isEmpty
            ? [:] : [HubHeader.versions: versions.map(\.description).joined(separator: ",")]
    }

    func read(_ ids: [Digest], of versions: [Identifier] = []) async throws -> [ChunkFrame] {
        let reply = try await Wire.send(
            path(.read), PackedIDs(ids).bytes, token: token, headers: naming(versions))
        var (reader, frames) = (FrameReader(), [ChunkFrame]())
        reader.append(try reply.checked())
        while let frame = try reader.nextChunk() { frames.append(frame) }
        return frames
    }

    // MARK: Operations

    func placement(_ name: String, in parent: Identifier = .root) -> Placement {
        Placement(
            parent: parent, name: name, key: NameKey(Array(name.utf8)), spare: name + " (spare)",
            spareKey: NameKey(Array((name + " (spare)").utf8)))
    }

    func revision(
        of bytes: [UInt8], id: Identifier = .random(), parents: [Identifier] = []
    ) -> Revision {
        Revision(
            id: id, parents: parents, content: self.id(of: bytes), size: UInt64(bytes.count),
            moment: Moment(time: 1, device: self.id))
    }

    func content(of bytes: [UInt8]) -> RevisionContent {
        RevisionContent(manifest: TestDevice.manifest(of: bytes), chunks: [id(of: bytes)])
    }

    /// The manifest of a file that consists of one chunk.
    static func manifest(of bytes: [UInt8]) -> [UInt8] {
        Manifest(chunks: [ChunkReference(id: .sha256(bytes), length: UInt32(bytes.count))]).encoded
    }

    mutating func entry(
        _ item: Identifier, _ change: Change, bytes: [UInt8]? = nil, group: UInt64? = nil
    ) -> OperationEntry {
        defer { number += 1 }
        let operation = Operation(
            id: OperationID(device: id, epoch: epoch, number: number), item: item,
            moment: Moment(time: 1, device: id), base: 0, change: change)
        return OperationEntry(
            operation, content: bytes.map { content(of: $0) }, group: group)
    }

    mutating func creation(
        _ name: String, _ bytes: [UInt8], id: Identifier = .random(), group: UInt64? = nil,
        in parent: Identifier = .root
    ) -> OperationEntry {
        let creation = Creation(
            kind: .file, placement: placement(name, in: parent), revision: revision(of: bytes))
        return entry(id, .create(creation), bytes: bytes, group: group)
    }

    mutating func directory(
        _ name: String, id: Identifier = .random(), in parent: Identifier = .root
    ) -> OperationEntry {
        entry(id, .create(Creation(kind: .directory, placement: placement(name, in: parent))))
    }

    func request(
        _ entries: [OperationEntry], cursor: UInt64? = nil, run: Identifier? = nil,
        collection: UInt64? = nil
    ) -> CommitRequest {
        CommitRequest(
            device: id, epoch: epoch, volumeEpoch: volume.epoch, cursor: cursor, run: run,
            collection: collection, operations: entries, sent: 0)
    }

    @discardableResult
    func commit(
        _ entries: [OperationEntry], cursor: UInt64? = nil, run: Identifier? = nil,
        collection: UInt64? = nil
    ) async throws -> CommitAnswer {
        let request = request(entries, cursor: cursor, run: run, collection: collection)
        return try await Wire.post(path(.commit), request, token: token)
    }

    /// Uploads the bytes and creates a file with them.
    @discardableResult
    mutating func save(_ name: String, _ bytes: [UInt8]) async throws -> OperationResult {
        try await upload([bytes])
        let entry = creation(name, bytes)
        return try await commit([entry]).results[0]
    }

    func changes(
        after: UInt64 = 0, run: Identifier? = nil, limit: Int? = nil, epoch: Identifier? = nil,
        query: String = ""
    ) async throws -> ChangesAnswer {
        let limit = limit.map { "&limit=\($0)" } ?? ""
        var headers = [HubHeader.epoch: (epoch ?? volume.epoch).description]
        headers[HubHeader.run] = run?.description
        let reply = try await Wire.send(
            "\(path(.changes))?after=\(after)\(limit)\(query)", method: "GET", nil, token: token,
            headers: headers)
        return try reply.decoded()
    }
}

/// HTTP requests with the hub's bodies.
enum Wire {
    struct Reply {
        let status: Int
        let headers: [String: [String]]
        let body: [UInt8]

        /// - Throws: The `Failure` in the body, if the request failed.
        func checked() throws -> [UInt8] {
            guard status == 200 else {
                throw try JSONDecoder().decode(Failure.self, from: Data(body))
            }
            return body
        }

        func decoded<Body: Decodable>() throws -> Body {
            try JSONDecoder().decode(Body.self, from: Data(try checked()))
        }

        /// The names of headers are case-insensitive.
        func values(of header: String) -> [String] {
            headers.first { $0.key.lowercased() == header.lowercased() }?.value ?? []
        }

        var failure: Failure? { try? JSONDecoder().decode(Failure.self, from: Data(body)) }
    }

    static func post<Answer: Decodable>(
        _ url: String, _ body: some Encodable, token: String?
    ) async throws -> Answer {
        let bytes = [UInt8](try JSONEncoder().encode(body))
        return try await send(url, bytes, token: token, type: ContentType.json).decoded()
    }

    static func get<Answer: Decodable>(_ url: String, token: String?) async throws -> Answer {
        try await send(url, method: "GET", nil, token: token).decoded()
    }

    /// Sends a GET request whose answer may not end, and returns its status and its first piece.
    static func open(_ url: String, token: String?) async throws -> (status: Int, first: [UInt8]) {
        var request = HTTPClientRequest(url: url)
        if let token { request.headers.add(name: "Authorization", value: "Bearer \(token)") }
        let response = try await HTTPClient.shared.execute(request, timeout: .seconds(60))
        for try await piece in response.body {
            return (Int(response.status.code), Array(piece.readableBytesView))
        }
        return (Int(response.status.code), [])
    }

    static func send(
        _ url: String, method: String = "POST", _ body: [UInt8]?, token: String?,
        type: String = ContentType.binary, headers: [String: String] = [:]
    ) async throws -> Reply {
        var request = HTTPClientRequest(url: url)
        request.method = .init(rawValue: method)
        if let token { request.headers.add(name: "Authorization", value: "Bearer \(token)") }
        for (name, value) in headers { request.headers.add(name: name, value: value) }
        if let body {
            request.headers.add(name: "Content-Type", value: type)
            request.body = .bytes(ByteBuffer(bytes: body))
        }
        let response = try await HTTPClient.shared.execute(request, timeout: .seconds(60))
        let bytes = try await response.body.collect(upTo: 1 << 30)
        var found: [String: [String]] = [:]
        for (name, value) in response.headers { found[name, default: []].append(value) }
        return Reply(
            status: Int(response.status.code), headers: found, body: Array(bytes.readableBytesView))
    }
}

func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

/// Returns the failure that `body` throws.
func failure<Value>(
    _ body: () async throws -> Value
) async throws -> Failure {
    do {
        _ = try await body()
    } catch let failure as Failure {
        return failure
    }
    throw SupportError("it was not refused")
}
