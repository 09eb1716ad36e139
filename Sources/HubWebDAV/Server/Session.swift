import Foundation
import HTTPTypes
import Hub
import HubProtocol
import Hummingbird
import Model
import NIOCore

/// One request of a client whose password was right.
struct Session: Sendable {
    let hub: Hub
    let request: Request
    let caller: Caller
    /// What the programs of all requests have moved away.
    let vacated: VacatedNames
    /// What the request holds in memory.
    let budget: BodyBudget

    init(_ hub: Hub, _ request: Request, _ caller: Caller, _ vacated: VacatedNames) {
        self.hub = hub
        self.request = request
        self.caller = caller
        self.vacated = vacated
        budget = BodyBudget(of: hub, for: caller.account)
    }

    /// - Throws: `.unauthenticated`, `.tooMany`.
    init(_ hub: Hub, _ request: Request, _ client: PageClient, _ vacated: VacatedNames)
        async throws
    {
        let words = request.headers[.authorization]?.split(separator: " ") ?? []
        guard words.count == 2, words[0].lowercased() == "basic",
            let decoded = Data(base64Encoded: String(words[1])),
            let text = String(validating: decoded, as: UTF8.self),
            let colon = text.firstIndex(of: ":")
        else {
            throw Failure(
                .unauthenticated,
                "Sign in with your name at this hub and a password from concord hub password.")
        }
        let caller = try await hub.devices.caller(
            user: String(text[..<colon]), password: String(text[text.index(after: colon)...]),
            from: client.address)
        self.init(hub, request, caller, vacated)
    }

    var now: Int64 { hub.clock() }

    func write<Result: Sendable>(
        _ scope: WriteScope, _ body: @escaping @Sendable (any LedgerTransaction) throws -> Result
    ) async throws -> Result {
        try await hub.write(scope, for: caller.account, body)
    }

    /// The host that the client believes to speak to. HTTP requires it.
    var host: String { request.head.authority ?? request.headers[.host] ?? "" }

    // MARK: Headers

    enum Depth: Hashable { case zero, one, infinity }

    /// - Throws: `.malformed`.
    func depth(default: Depth = .infinity) throws(Failure) -> Depth {
        guard let text = request.headers[.depth] else { return `default` }
        switch text.lowercased() {
        case "0": return .zero
        case "1": return .one
        case "infinity": return .infinity
        default: throw Failure(.malformed, "The header Depth is 0, 1 or infinity.")
        }
    }

    // MARK: Bodies

    /// The root of the body's XML; nil if there is no body.
    ///
    /// - Throws: `.malformed`, `.tooLarge`, `.busy`.
    func element() async throws -> Element? {
        let bytes = try await body(limit: ElementParser.Limits.bytes)
        guard !bytes.isEmpty else { return nil }
        // A tree needs much more memory than its text.
        return try await hub.perAccountLock.alone(caller.account) {
            try ElementParser.parse(bytes)
        }
    }

    func body(limit: Int) async throws -> [UInt8] {
        let tooLarge = Failure(.tooLarge, "The body has more than \(limit) bytes.")
        if let length, length > UInt64(limit) { throw tooLarge }
        var bytes: [UInt8] = []
        try await request.forEachBodyPart { part in
            guard bytes.count + part.readableBytes <= limit else { throw tooLarge }
            bytes.append(contentsOf: part.readableBytesView)
            try budget.hold(bytes.capacity)
        }
        hub.metrics.bytesIn.add(bytes.count)
        return bytes
    }

    /// The length that the client announces. macOS sends bodies whose length HTTP does not say, and
    /// says it in a header of its own.
    var length: UInt64? {
        let text = request.headers[.contentLength] ?? request.headers[.expectedLength]
        return text.flatMap { UInt64($0) }
    }

    /// - Throws: A refusal with the status 415 if there is a body.
    func checkHasNoBody() async throws {
        do {
            guard try await body(limit: 0).isEmpty else { throw Failure(.tooLarge, "") }
        } catch let failure as Failure where failure.code == .tooLarge {
            throw Refusal(415, "This request must have no body.")
        }
    }
}
