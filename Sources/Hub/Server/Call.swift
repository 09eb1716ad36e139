import Foundation
import HTTPTypes
import HubProtocol
import Hummingbird
import Model
import NIOCore

/// One request, and how it is answered.
struct Call {
    let hub: Hub
    let request: Request
    /// The client's IP address; behind a local proxy, the address that the proxy names.
    let address: String
    /// Whether the request came from this machine and was not forwarded by a proxy.
    let isLocal: Bool
    let held: BodyBudget
    /// Whether this hub has pages, to which links lead.
    let servesLinks: Bool

    func answer(_ route: Route) async throws -> Response {
        guard route.methods.contains(request.method) else {
            let allowed = route.methods.map(\.rawValue).joined(separator: ", ")
            throw Failure(.method, "\(request.method) is not allowed here, only: \(allowed).")
        }
        switch route {
        case .health: return try await health()
        case .metrics:
            if !isLocal { _ = try await hub.devices.caller(token: try token()) }
            return try await metrics()
        case .description:
            return Call.response(Array(Description.json.utf8), type: ContentType.json)
        case .enrol:
            let asked: EnrolRequest = try await decoded(limit: HubLimits.unauthenticatedBytes)
            return Call.json(try await hub.devices.enrol(asked, from: address))
        default:
            let token = try token()
            let caller = try await hub.devices.caller(token: token)
            held.belong(to: caller.account)
            let process = try id(.process)
            if let process, let other = try id(.otherProcess) {
                hub.listeners.confirm(process, beside: other, of: caller)
            }
            if case .volume(let volume, let call) = route {
                if let process { try hub.check(process, of: caller) }
                return try await answer(call, volume, caller, token: token)
            }
            if route == .selfToken {
                try await empty()
                return Call.json(try await hub.devices.renew(token, of: caller))
            }
            return try await answer(route, caller)
        }
    }

    private func answer(_ route: Route, _ caller: Caller) async throws -> Response {
        switch route {
        case .signOut:
            try await empty()
            try await hub.devices.signOut(caller)
            return Call.json(Done())
        case .devices: return Call.json(try await hub.devices.list(for: caller))
        case .selfEpoch:
            try await empty()
            return Call.json(try await hub.devices.newEpoch(for: caller))
        case .selfSplit: return Call.json(try await hub.devices.split(caller, try await decoded()))
        case .device(let device):
            try await empty()
            try await hub.devices.revoke(device, for: caller)
            return Call.json(Done())
        case .volumes where request.method == .post:
            let wanted: VolumeRequest = try await decoded()
            return Call.json(try await hub.openVolume(wanted, for: caller))
        default: return Call.json(try await hub.volumes(for: caller))
        }
    }

    private func answer(
        _ call: VolumeCall, _ volume: Identifier, _ caller: Caller, token: String
    ) async throws -> Response {
        // The caller's access is checked before a body is read, so that others cannot make the hub
        // read it.
        let view = try await hub.view(volume, for: caller, to: call.operation)
        switch call {
        case .have: return try await have(volume, caller)
        case .chunks: return try await chunks(view, caller)
        case .read: return try await read(view, caller)
        case .commit:
            return Call.json(try await hub.commit(try await decoded(), to: volume, for: caller))
        case .changes: return try await changes(volume, caller)
        case .manifests: return try await manifests(volume, caller)
        case .feed: return try await feed(view, caller, token: token)
        case .holding:
            let told: HoldingRequest = try await decoded()
            try await hub.hold(told.revisions, gone: told.gone ?? [], in: volume, for: caller)
            return Call.json(Done())
        case .durability:
            let list: RevisionList = try await decoded()
            return Call.json(try await hub.durability(of: list.revisions, in: volume, for: caller))
        case .wanted: return Call.json(try await hub.wanted(in: volume, for: caller))
        case .members where request.method == .post:
            let wanted: MemberRequest = try await decoded()
            return Call.json(try await hub.members.change(wanted, in: volume, for: caller))
        case .members: return Call.json(try await hub.members.list(of: volume, for: caller))
        case .leases where request.method == .post:
            let told: LeaseRequest = try await decoded()
            try await hub.leases.tell(told, in: volume, from: try id(.process), for: caller)
            return Call.json(Done())
        case .leases: return Call.json(try await hub.leases.list(in: volume, for: caller))
        case .grants:
            let asked: GrantRequest = try await decoded()
            return Call.json(
                try await hub.grants.answer(
                    asked, in: volume, from: try id(.process), for: caller))
        case .links where request.method == .post:
            let wanted: ShareLinkRequest = try await decoded()
            guard servesLinks || wanted.change == .revoke else {
                throw Failure(
                    .forbidden, "This hub serves no pages, so a link would lead nowhere.")
            }
            return Call.json(try await hub.links.change(wanted, in: volume, for: caller))
        case .links: return Call.json(try await hub.links.list(of: volume, for: caller))
        }
    }

    private func token() throws -> String {
        let words = request.headers[.authorization]?.split(separator: " ") ?? []
        guard words.count == 2, words[0].lowercased() == "bearer" else {
            throw Failure(
                .unauthenticated, "A token is missing: Authorization: Bearer TOKEN. Sign in first.")
        }
        return String(words[1])
    }

    // MARK: The hub itself

    private func health() async throws -> Response {
        // The hub is healthy only if its ledger answers and its blobs can be used.
        _ = try await hub.ledger.read { try $0.fact("health") }
        try await hub.blobs.maintain()
        return Call.json(["status": "ok"])
    }

    private func metrics() async throws -> Response {
        let (volumes, devices) = try await hub.ledger.read { transaction in
            (
                try transaction.row("SELECT count(*) FROM volumes", [])?.integer(0) ?? 0,
                try transaction.row(
                    """
                    SELECT count(*) FROM devices
                    WHERE revoked IS NULL AND id NOT IN (SELECT id FROM links)
                    """, [])?.integer(0) ?? 0
            )
        }
        let bytes = try await hub.blobs.packs().values.reduce(0, +)
        let text = hub.metrics.text(gauges: [
            ("volumes", "Volumes of all accounts.", Int(volumes)),
            ("devices", "Devices that may sign in.", Int(devices)),
            ("feeds", "Devices with an open feed.", hub.feeds.count),
            ("blob_bytes", "Bytes of all packs.", Int(bytes)),
        ])
        return Call.response(Array(text.utf8), type: "text/plain; version=0.0.4; charset=utf-8")
    }

    // MARK: Bodies

    /// Reads and decodes a JSON body.
    ///
    /// - Throws: `.contentType`, `.tooLarge`, `.malformed`.
    func decoded<Body: Decodable>(limit: Int = HubLimits.bodyBytes) async throws -> Body {
        try checkType(ContentType.json)
        let bytes = try await body(limit: limit)
        guard bytes.count > Call.shortBytes, let account = held.account else {
            return try Call.decoded(bytes)
        }
        // Decoding needs much more memory than the body has, so an account may decode only one
        // large body at a time.
        return try await hub.perAccountLock.alone(account) { try Call.decoded(bytes) }
    }

    /// Bodies up to this length are decoded at once, without waiting for others of the account.
    private static let shortBytes = 64 << 10

    private static func decoded<Body: Decodable>(_ bytes: [UInt8]) throws -> Body {
        guard bytes.jsonValues <= HubLimits.bodyValues else {
            throw Failure(.tooLarge, "The body has more than \(HubLimits.bodyValues) values.")
        }
        do {
            return try JSONDecoder().decode(Body.self, from: Data(bytes))
        } catch let error as DecodingError {
            throw Failure(.malformed, "The body does not match the description: \(error.sentence).")
        }
    }

    func checkType(_ type: String) throws {
        let given = request.headers[.contentType] ?? ""
        let word = given.prefix { $0 != ";" }.trimmingCharacters(in: .whitespaces)
        guard word.lowercased() == type else {
            throw Failure(.contentType, "The content type must be \(type).")
        }
    }

    /// Reads the whole body. Hummingbird does not limit streamed bodies, so this function does.
    func body(limit: Int) async throws -> [UInt8] {
        try checkLength(limit)
        var bytes: [UInt8] = []
        // Reserved memory costs nothing until it is written, and an array that grows without it has
        // up to twice its bytes.
        let length = request.headers[.contentLength].flatMap { Int($0) }
        if let length, length > 0 { bytes.reserveCapacity(length) }
        try await request.forEachBodyPart { part in
            guard bytes.count + part.readableBytes <= limit else { throw Call.tooLarge(limit) }
            bytes.append(contentsOf: part.readableBytesView)
            try held.hold(length == nil ? bytes.capacity : bytes.count)
        }
        hub.metrics.bytesIn.add(bytes.count)
        return bytes
    }

    /// Checks the body's announced length before any of it is read.
    func checkLength(_ limit: Int) throws {
        if let said = request.headers[.contentLength], let length = Int(said), length > limit {
            throw Call.tooLarge(limit)
        }
    }

    static func tooLarge(_ limit: Int) -> Failure {
        Failure(.tooLarge, "The body has more than \(limit) bytes: send less at once.")
    }

    /// Reads the body of a request that needs none.
    private func empty() async throws { _ = try await body(limit: 1024) }

    // MARK: Answers

    static func json(_ value: some Encodable, status: HTTPResponse.Status = .ok) -> Response {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .withoutEscapingSlashes
        // Encoding cannot fail, because these types have only numbers, strings and enumerations.
        let data = (try? encoder.encode(value)) ?? Data()
        return response([UInt8](data), type: ContentType.json, status: status)
    }

    static func response(
        _ bytes: [UInt8], type: String, status: HTTPResponse.Status = .ok
    ) -> Response {
        Response(
            status: status,
            headers: [.contentType: type, .contentLength: String(bytes.count)],
            body: ResponseBody(byteBuffer: ByteBuffer(bytes: bytes)))
    }
}

extension DecodingError {
    /// Says where the body is wrong and why, without quoting it.
    fileprivate var sentence: String {
        let (context, what): (Context, String) =
            switch self {
            case .typeMismatch(_, let context): (context, "another type is expected")
            case .valueNotFound(_, let context): (context, "a value is missing")
            case .keyNotFound(let key, let context): (context, "\(key.stringValue) is missing")
            case .dataCorrupted(let context): (context, context.debugDescription)
            @unknown default: (Context(codingPath: [], debugDescription: ""), "it is not JSON")
            }
        let path = context.codingPath.map { $0.intValue.map { "\($0)" } ?? $0.stringValue }
        return path.isEmpty ? what : "at \(path.joined(separator: ".")), \(what)"
    }
}
