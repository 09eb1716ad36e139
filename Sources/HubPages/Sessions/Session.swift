import ChunkStore
import Hub
import HubProtocol
import Model

/// A browser in which somebody is signed in, which is a device of the account; or a visit of a
/// link.
struct Session: Sendable {
    static let cookie = "concord-session"

    let call: PageCall
    let caller: Caller
    let token: String
    /// Whether the account owns the hub (`concord hub user owner`).
    let isOwner: Bool
    /// What the request holds in memory.
    let budget: BodyBudget
    /// The link by which somebody without an account is here; nil if somebody is signed in.
    var visit: Visit?

    var hub: Hub { call.hub }

    /// The token that each form of this session has. Another site cannot know it.
    var formToken: String { Session.formToken(of: token) }

    fileprivate static func formToken(of secret: String) -> String {
        let hash = Digest.keyed(by: Array(secret.utf8), Array("form".utf8))
        return hexadecimal(hash.bytes.dropFirst())
    }

    /// The fields of the form in the request's body.
    ///
    /// - Throws: `.malformed` if the form does not come from a page of this session.
    func form() async throws -> Fields {
        let form = try await call.uncheckedForm()
        try call.check(form, token: formToken)
        return form
    }
}

/// What a browser keeps in a cookie for itself, also while nobody is signed in.
struct Browser: Sendable {
    static let cookie = "concord-browser"
    static let seconds: Int64 = 400 * 86_400

    let secret: String

    init?(_ secret: String) {
        guard secret.utf8.count == 32, Identifier(secret) != nil else { return nil }
        self.secret = secret
    }

    private init(_ id: Identifier) { secret = id.description }

    static func random() -> Browser { Browser(.random()) }

    /// The id of the device that the browser is. It is the same after each sign-in, so that a
    /// browser does not become one device after another.
    var device: Identifier {
        let hash = Digest.keyed(by: Array(secret.utf8), Array("device".utf8))
        return Identifier(bytes: hash.bytes.dropFirst().prefix(16)) ?? .random()
    }

    /// The token of the form for signing in.
    var formToken: String { Session.formToken(of: secret) }

    /// A name for the browser in the list of devices.
    ///
    /// - Parameter agent: The header `User-Agent`, of which only known words are used.
    static func name(agent: String) -> String {
        let programs = [
            ("Edg/", "Edge"), ("OPR/", "Opera"), ("Firefox/", "Firefox"), ("Chrome/", "Chrome"),
            ("Safari/", "Safari"),
        ]
        let systems = [
            ("Android", "Android"), ("iPhone", "iPhone"), ("iPad", "iPad"),
            ("Windows", "Windows"), ("Mac OS X", "macOS"), ("Linux", "Linux"),
        ]
        let program = programs.first { agent.contains($0.0) }?.1 ?? "Browser"
        let system = systems.first { agent.contains($0.0) }.map { " on \($0.1)" } ?? ""
        return program + system
    }
}
