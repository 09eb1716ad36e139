import AsyncHTTPClient
import Foundation
import HubProtocol
import Model
import NIOCore
import NIOHTTP1
import NIOSSL
import Reconcile
import Synchronization

/// A client of a hub's HTTP interface. Calls block the calling thread, which must not belong to
/// Swift's pool.
package final class HubClient: Sendable {
    package let address: HubAddress
    /// The id of this process, which is sent with each request.
    private static let process = Identifier.random()
    private let client: HTTPClient
    private let token: Mutex<String?>
    private let timeouts: HubTimeouts
    /// The bytes that were sent and received since the client was created.
    package let traffic = Traffic()

    package init(
        _ address: HubAddress, token: String? = nil, timeouts: HubTimeouts = HubTimeouts()
    ) throws(VolumeError) {
        self.address = address
        self.token = Mutex(token)
        self.timeouts = timeouts
        var configuration = HTTPClient.Configuration(
            redirectConfiguration: .disallow,
            timeout: .init(connect: .seconds(5), read: .seconds(60)))
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = 8
        // A failed connection is reported at once: a program that reads gets an error instead of
        // waiting, and the sync engine has its own retries.
        configuration.connectionPool.retryConnectionEstablishment = false
        var trust = TLSConfiguration.makeClientConfiguration()
        trust.minimumTLSVersion = .tlsv12
        if let certificate = address.certificate {
            trust.trustRoots = .file(certificate)
        } else if let known = address.known,
            let certificate = try? NIOSSLCertificate(bytes: known, format: .der)
        {
            // The hub's own certificate is trusted whatever host name it has.
            trust.trustRoots = .certificates([certificate])
            trust.certificateVerification = .noHostnameVerification
        }
        configuration.tlsConfiguration = trust
        client = HTTPClient(
            eventLoopGroupProvider: .singleton, configuration: configuration)
    }

    /// Closes the client. Call it once, after all other calls have returned.
    package func close() { try? client.syncShutdown() }

    package func setToken(_ new: String?) { token.withLock { $0 = new } }

    // MARK: Accounts and volumes

    package func enrol(_ request: EnrolRequest) throws(HubFault) -> EnrolAnswer {
        let answer: EnrolAnswer = try planner(
            .POST, Routes.enrol, request, limit: HubLimits.bodyBytes)
        try refuse(answer.objection(to: request.device))
        return answer
    }

    package func volumes() throws(HubFault) -> VolumeList {
        let answer: VolumeList = try ask(.GET, Routes.volumes, limit: HubLimits.bodyBytes)
        try refuse(answer.objection)
        return answer
    }

    package func volume(_ request: VolumeRequest) throws(HubFault) -> VolumeAnswer {
        let answer: VolumeAnswer = try planner(.POST, Routes.volumes, request)
        try refuse(answer.objection)
        return answer
    }

    package func devices() throws(HubFault) -> DeviceList {
        let answer: DeviceList = try ask(.GET, Routes.devices, limit: HubLimits.bodyBytes)
        try refuse(answer.objection)
        return answer
    }

    package func revoke(_ device: Identifier) throws(HubFault) {
        let _: Done = try ask(.DELETE, Routes.device(device))
    }

    package func newEpoch() throws(HubFault) -> UInt32 {
        let answer: EpochAnswer = try planner(.POST, Routes.selfEpoch, Done())
        return answer.epoch
    }

    /// Returns a token that holds for at least `nanoseconds` after `time`, which is a time by the
    /// hub's clock. The clock may have been set since the last answer, and a token that a hub with
    /// an old time gives ends when the time is right again.
    package func renewToken(
        at time: Int64, toHold nanoseconds: Int64
    ) throws(HubFault) -> String {
        let answer: TokenAnswer = try planner(.POST, Routes.selfToken, Done())
        try refuse(answer.objection)
        if let expires = answer.expires, Int128(expires) - Int128(time) < nanoseconds {
            try refuse("The new token ends too soon, because the hub's clock was set.")
        }
        return answer.token
    }

    package func split(_ request: SplitRequest) throws(HubFault) -> EnrolAnswer {
        let answer: EnrolAnswer = try planner(
            .POST, Routes.selfSplit, request, limit: HubLimits.bodyBytes)
        try refuse(answer.objection(to: request.device))
        return answer
    }

    /// Tells the hub that this process is alive and is the device, because another process claims
    /// to be it.
    package func confirm(beside other: Identifier) throws(HubFault) {
        _ = try send(
            .GET, Routes.volumes, nil, nil, [(HubHeader.otherProcess, other.description)],
            limit: HubLimits.bodyBytes)
    }

    /// Tells the hub that the device is signed out. A person waits for it, and it may be done at
    /// the hub later, so a hub that is silent is not waited for long.
    package func signOut() throws(HubFault) {
        let answer = try send(
            .POST, Routes.signOut, ContentType.json, json(Done()), [], seconds: 10)
        let _: Done = try decoded(answer.body)
    }

    // MARK: Requests about one volume

    /// Also returns what the account is in the volume; an older hub does not say it.
    package func changes(
        _ volume: Identifier, after: UInt64, run: Identifier? = nil, limit: Int,
        epoch: Identifier, withTrash: Bool
    ) throws(HubFault) -> (page: ChangesAnswer, standing: Standing) {
        let query = "?after=\(after)&limit=\(limit)\(withTrash ? "&trashedAfter=0" : "")"
        let answer = try send(
            .GET, Routes.volume(volume, .changes) + query, nil, nil,
            [(HubHeader.epoch, epoch.description), ("Accept", ContentType.binary)]
                + (run.map { [(HubHeader.run, $0.description)] } ?? []),
            limit: HubClient.pageBytes)
        guard let page = ChangesAnswer(packed: answer.body) else {
            throw .invalidAnswer("\(address) sent a page of changes that cannot be decoded.")
        }
        try refuse(page.objection(after: after))
        let (role, members) = (HubHeader.role, HubHeader.members)
        guard
            let standing = Standing(
                role: answer.headers.first(name: role),
                members: answer.headers.first(name: members))
        else { throw invalid("It names a role that does not exist, or no members.") }
        return (page, standing)
    }

    package func commit(_ volume: Identifier, _ request: CommitRequest) throws(HubFault)
        -> CommitAnswer
    {
        let answer: CommitAnswer = try planner(
            .POST, Routes.volume(volume, .commit), request, limit: HubLimits.bodyBytes)
        try refuse(answer.objection(to: request.operations))
        return answer
    }

    /// Asks which chunks the hub has, at most `HubLimits.ids`. Returns the collection for which the
    /// answer is valid.
    ///
    /// - Parameter versions: Those from which the versions that have the chunks were made. To a
    ///   member of a folder the hub tells only of what they have.
    package func have(
        _ volume: Identifier, _ ids: [Digest], of versions: [Identifier] = []
    ) throws(HubFault) -> (present: Presence, collection: UInt64) {
        let answer = try send(
            .POST, Routes.volume(volume, .have), ContentType.binary, PackedIDs(ids).bytes,
            HubClient.naming(versions))
        let text = answer.headers.first(name: HubHeader.collection) ?? ""
        guard let present = Presence(bytes: answer.body, count: ids.count),
            let collection = UInt64(text)
        else { throw .invalidAnswer("The hub \(address) sent an invalid answer to \"have\".") }
        return (present, collection)
    }

    /// - Parameter frames: Encoded frames of chunks, at most `HubLimits.uploadBytes`.
    package func upload(_ volume: Identifier, _ frames: [UInt8]) throws(HubFault) -> ChunksAnswer {
        let answer = try send(
            .POST, Routes.volume(volume, .chunks), ContentType.binary, frames, [])
        return try decoded(answer.body)
    }

    /// Returns the manifests that the hub has of these revisions, and how many of the revisions it
    /// has answered: fewer than all if the manifests have more than `HubLimits.manifestsTogether`
    /// bytes.
    package func manifests(_ volume: Identifier, _ revisions: [Identifier]) throws(HubFault)
        -> (found: [ManifestFrame], answered: Int)
    {
        let body = try json(RevisionList(revisions: revisions))
        let request = request(
            .POST, Routes.volume(volume, .manifests), ContentType.json, body, [])
        return try result { [self] timer in
            let response = try await client.execute(request, timeout: .seconds(timeouts.head))
            try await check(response, timer)
            var (reader, found, bytes, next) = (FrameReader(), [ManifestFrame](), 0, 0)
            for try await piece in response.body {
                received(piece, timer)
                reader.append(piece.readableBytesView)
                while let frame = try reader.nextManifest() {
                    // The frames come in the order of the request, and unknown revisions have none.
                    guard let index = revisions[next...].firstIndex(of: frame.revision) else {
                        throw invalid("A manifest was not asked for, or comes twice.")
                    }
                    next = index + 1
                    bytes += frame.bytes.count
                    found.append(frame)
                    if bytes > HubLimits.manifestsTogether { return (found, next) }
                }
            }
            guard reader.isEmpty else {
                throw HubFault.silent("The answer ended within a manifest.")
            }
            return (found, revisions.count)
        }
    }

    /// Calls `each` with each frame in the requested order as it arrives, until `each` returns
    /// false.
    ///
    /// - Parameters:
    ///   - chunks: The chunks' ids, and their lengths when they are uncompressed.
    ///   - versions: The versions that have them, at most `HubLimits.versionsNamed`.
    package func read(
        _ volume: Identifier, _ chunks: [(id: Digest, length: Int)], of versions: [Identifier] = [],
        each: @escaping @Sendable (ChunkFrame) -> Bool
    ) throws(HubFault) {
        let request = request(
            .POST, Routes.volume(volume, .read), ContentType.binary,
            PackedIDs(chunks.map(\.id)).bytes, HubClient.naming(versions))
        try result { [self] timer in
            let response = try await client.execute(request, timeout: .seconds(timeouts.head))
            try await check(response, timer)
            var (reader, count) = (FrameReader(), 0)
            for try await piece in response.body {
                received(piece, timer)
                reader.append(piece.readableBytesView)
                while let frame = try reader.nextChunk() {
                    guard count < chunks.count, frame.id == chunks[count].id else {
                        throw invalid("A chunk was not asked for, or comes too often.")
                    }
                    // Bytes that cannot be compressed become slightly longer.
                    guard frame.bytes.count <= chunks[count].length * 65 / 64 + 1024 else {
                        throw invalid("A chunk is longer than its document says.")
                    }
                    count += 1
                    if !each(frame) { return }
                }
            }
            guard reader.isEmpty else { throw HubFault.silent("The answer ended within a chunk.") }
        }
    }

    private static func naming(_ versions: [Identifier]) -> [(String, String)] {
        versions.isEmpty
            ? []
            : [(HubHeader.versions, versions.map(\.description).joined(separator: ","))]
    }

    /// Calls `each` with each hint until the stream ends or `each` returns false.
    package func feed(
        _ volume: Identifier, epoch: Identifier, each: @escaping @Sendable (Hint) -> Bool
    ) throws(HubFault) {
        let request = request(
            .GET, Routes.volume(volume, .feed), nil, nil,
            [(HubHeader.epoch, epoch.description)])
        try result { [self] timer in
            let response = try await client.execute(request, timeout: .seconds(timeouts.head))
            try await check(response, timer)
            timer.restart()
            var line: [UInt8] = []
            for try await piece in response.body {
                for byte in piece.readableBytesView {
                    guard byte == UInt8(ascii: "\n") else {
                        line.append(byte)
                        continue
                    }
                    let hint = try JSONDecoder().decode(Hint.self, from: Data(line))
                    line = []
                    if let objection = hint.objection { throw invalid(objection) }
                    timer.restart()
                    if !each(hint) { return }
                }
                guard line.count < 1 << 16 else {
                    throw HubFault.invalidAnswer("A hint is too long.")
                }
            }
        }
    }

    // MARK: Requests and answers

    private struct Answer: Sendable {
        var headers: HTTPHeaders
        var body: [UInt8]
    }

    func ask<Body: Decodable>(
        _ method: HTTPMethod, _ path: String, limit: Int = HubLimits.answerBytes
    ) throws(HubFault) -> Body {
        try decoded(try send(method, path, nil, nil, [], limit: limit).body)
    }

    func planner<Body: Decodable>(
        _ method: HTTPMethod, _ path: String, _ body: some Encodable, seconds: Int64? = nil,
        limit: Int = HubLimits.answerBytes
    ) throws(HubFault) -> Body {
        try decoded(
            try send(
                method, path, ContentType.json, json(body), [], seconds: seconds, limit: limit
            ).body)
    }

    /// Rejects an invalid answer before any of its values is used.
    func refuse(_ objection: String?) throws(HubFault) {
        if let objection { throw invalid(objection) }
    }

    private func invalid(_ objection: String) -> HubFault {
        .invalidAnswer("An answer of the hub \(address) is invalid. \(objection)")
    }

    /// The bytes of a page of changes. All changes of one operation are in one page, so a page can
    /// be larger than those that a hub makes usually.
    private static let pageBytes = HubLimits.operationBytes + HubLimits.pageBytes

    private func json(_ body: some Encodable) throws(HubFault) -> [UInt8] {
        do {
            return Array(try JSONEncoder().encode(body))
        } catch {
            throw .invalidAnswer("A request cannot be encoded: \(error)")
        }
    }

    private func decoded<Body: Decodable>(_ bytes: [UInt8]) throws(HubFault) -> Body {
        guard bytes.jsonValues <= HubLimits.bodyValues else {
            throw invalid("It has more than \(HubLimits.bodyValues) values.")
        }
        do {
            return try JSONDecoder().decode(Body.self, from: Data(bytes))
        } catch {
            throw .invalidAnswer("\(address) sent an answer that cannot be decoded: \(error)")
        }
    }

    private func request(
        _ method: HTTPMethod, _ path: String, _ type: String?, _ body: [UInt8]?,
        _ headers: [(String, String)]
    ) -> HTTPClientRequest {
        var request = HTTPClientRequest(url: address.text + path)
        request.method = method
        if let token = token.withLock({ $0 }) {
            request.headers.add(name: "Authorization", value: "Bearer \(token)")
        }
        request.headers.add(name: HubHeader.process, value: HubClient.process.description)
        if let type { request.headers.add(name: "Content-Type", value: type) }
        for (name, value) in headers { request.headers.add(name: name, value: value) }
        if let body { request.body = .bytes(ByteBuffer(bytes: body)) }
        return request
    }

    private func send(
        _ method: HTTPMethod, _ path: String, _ type: String?, _ body: [UInt8]?,
        _ headers: [(String, String)], seconds: Int64? = nil, limit: Int = HubLimits.answerBytes
    ) throws(HubFault) -> Answer {
        let request = request(method, path, type, body, headers)
        traffic.up(body?.count ?? 0)
        var timeouts = timeouts
        if let seconds { (timeouts.head, timeouts.body) = (seconds, seconds) }
        return try result(timeouts) { [self, timeouts] timer in
            let response = try await client.execute(request, timeout: .seconds(timeouts.head))
            try await check(response, timer)
            return Answer(
                headers: response.headers,
                body: try await self.body(of: response, limit: limit, timer))
        }
    }

    private func body(
        of response: HTTPClientResponse, limit: Int, _ timer: AnswerTimer
    ) async throws -> [UInt8] {
        var body: [UInt8] = []
        for try await piece in response.body {
            received(piece, timer)
            guard body.count + piece.readableBytes <= limit else {
                throw invalid("It has more than \(limit) bytes.")
            }
            body += piece.readableBytesView
        }
        return body
    }

    private func received(_ piece: ByteBuffer, _ timer: AnswerTimer) {
        traffic.down(piece.readableBytes)
        timer.received(piece.readableBytes)
    }

    private func check(_ response: HTTPClientResponse, _ timer: AnswerTimer) async throws {
        guard response.status.code < 300 else {
            let body = try await body(of: response, limit: HubLimits.answerBytes, timer)
            guard body.jsonValues <= HubLimits.bodyValues,
                let failure = try? JSONDecoder().decode(Failure.self, from: Data(body))
            else {
                throw HubFault.invalidAnswer(
                    "\(address) is not a hub: it answered with status \(response.status.code).")
            }
            throw HubFault.refused(failure)
        }
    }

    private func result<Value: Sendable>(
        _ timeouts: HubTimeouts? = nil,
        _ body: @escaping @Sendable (AnswerTimer) async throws -> Value
    ) throws(HubFault) -> Value {
        let timer = AnswerTimer(timeouts ?? self.timeouts)
        let loop = client.eventLoopGroup.any()
        let slow = HubFault.silent(
            "An answer of the hub \(address) arrived too slowly; it is asked for again.")
        let result = awaited { () -> Result<Value, HubFault> in
            do {
                return .success(
                    try await timer.run(on: loop, orThrow: slow) { try await body(timer) })
            } catch let fault as HubFault {
                return .failure(fault)
            } catch let error as FrameFault {
                return .failure(.invalidAnswer("\(error)"))
            } catch {
                return .failure(self.fault(error))
            }
        }
        return try result.get()
    }
}

/// The address of a hub, `http://host:port` or `https://…`, without a path.
package struct HubAddress: Hashable, Sendable, CustomStringConvertible {
    package let text: String
    /// The path of a file with trusted certificates, if the system's are not enough.
    package var certificate: String?
    /// The hub's certificate in DER form, if it is trusted because its fingerprint was compared.
    package var known: [UInt8]?
    package let isEncrypted: Bool
    let host: String
    let port: Int
    /// Whether the hub is on this machine.
    package let isLocal: Bool

    package var description: String { text }

    package init(_ given: String, certificate: String? = nil) throws(VolumeError) {
        let trimmed = given.hasSuffix("/") ? String(given.dropLast()) : given
        guard let parts = URLComponents(string: trimmed), let scheme = parts.scheme,
            ["http", "https"].contains(scheme), let host = parts.host, !host.isEmpty,
            parts.path.isEmpty, parts.query == nil, parts.user == nil
        else {
            throw VolumeError(
                .invalid,
                "\"\(given)\" is not a hub's address: it looks like https://hub.example:8420")
        }
        text = trimmed
        self.certificate = certificate
        isEncrypted = scheme == "https"
        self.host = host.filter { $0 != "[" && $0 != "]" }
        port = parts.port ?? (isEncrypted ? 443 : 80)
        isLocal = Loopback.contains(host)
    }

    /// Refuses an unencrypted connection to another machine, because tokens and documents could be
    /// read on the network.
    package func refuseUnencrypted() throws(VolumeError) {
        guard !isEncrypted, !isLocal else { return }
        throw VolumeError(
            .refused,
            "With \(text) everybody on the network could read all documents and sign in as "
                + "this device: give the hub a certificate and use https://, or use --insecure.")
    }
}
