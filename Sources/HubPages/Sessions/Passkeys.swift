import Hub
import HubProtocol
import Hummingbird
import Model

/// The forms that add and remove passkeys of an account. `pages.js` fills in the first one, because
/// only a script reaches an authenticator.
struct Passkeys {
    private let session: Session

    init(_ session: Session) { self.session = session }

    func add() async throws -> Response {
        let form = try await session.form()
        guard let origin = session.call.origin,
            let publicKey = [UInt8](base64url: form["key"] ?? "")
        else { throw Failure(.malformed, "The form of a passkey is not complete.") }
        let agent = session.call.request.headers[.userAgent] ?? ""
        try await session.hub.devices.addPasskey(
            AuthenticatorAnswer(form), publicKey: publicKey, named: Browser.name(agent: agent),
            origin: origin, session: session.token, for: session.caller)
        return Answer.redirect(to: PagePath.devicesAddress + "?done=passkey")
    }

    func remove(_ passkey: Identifier) async throws -> Response {
        _ = try await session.form()
        try await session.hub.devices.removePasskey(passkey, for: session.caller)
        return Answer.redirect(to: PagePath.devicesAddress + "?done=removed")
    }
}

extension AuthenticatorAnswer {
    /// - Throws: `.malformed`, `.code`.
    fileprivate init(_ form: Fields) throws(Failure) {
        guard let client = [UInt8](base64url: form["client"] ?? ""),
            let data = [UInt8](base64url: form["data"] ?? "")
        else { throw Failure(.malformed, "The form of a passkey is not complete.") }
        try self.init(client: client, data: data)
    }
}

extension PasskeyUse {
    /// Nil if the form has a code.
    ///
    /// - Throws: `.malformed`, `.code`.
    init?(_ form: Fields) throws(Failure) {
        guard let signature = [UInt8](base64url: form["signature"] ?? ""), !signature.isEmpty,
            let credential = [UInt8](base64url: form["credential"] ?? "")
        else { return nil }
        self.init(
            credential: credential, answer: try AuthenticatorAnswer(form), signature: signature)
    }
}
