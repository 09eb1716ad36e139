import HTTPTypes
import Hub
import HubProtocol
import Hummingbird
import Model

/// Signing in and out. Accounts have no passwords: a person signs in with a code from
/// `concord hub invite`, which works once, or with a passkey.
struct SignIn {
    private let call: PageCall

    init(_ call: PageCall) { self.call = call }

    private struct View {
        let frame: Frame
        let token: String
        let target: String
        let message: String?
        let isUnencrypted: Bool
        /// What a passkey has to sign, in base64url.
        let challenge: String
    }

    func answer() async throws -> Response {
        if call.request.method == .post { return try await enter() }
        if (try? await call.session()) != nil { return Answer.redirect(to: PagePath.top) }
        return try await form(to: try call.query["to"] ?? "")
    }

    private func form(to target: String, _ failure: Failure? = nil) async throws -> Response {
        let browser = call.browser ?? .random()
        let challenge = try await call.hub.devices.challengeToSignIn(browser: browser.secret)
        let view = View(
            frame: Frame(title: "Sign in"), token: browser.formToken, target: target,
            message: failure?.message, isUnencrypted: !call.client.isEncrypted,
            challenge: challenge.base64url)
        var answer = Answer.page(
            "signin", view, status: .init(code: failure?.status ?? 200))
        if call.browser == nil {
            answer.headers[.setCookie] = call.setCookie(
                Browser.cookie, browser.secret, seconds: Browser.seconds)
        }
        return answer
    }

    private func enter() async throws -> Response {
        let form = try await call.uncheckedForm()
        let target = form["to"] ?? ""
        guard let browser = call.browser else {
            return try await self.form(
                to: target,
                Failure(.malformed, "Your browser must accept cookies of this hub. Try again."))
        }
        try call.check(form, token: browser.formToken)
        let seconds: Int64 = form["stay"] == nil ? 12 * 3600 : 30 * 86_400
        do {
            let token = try await token(for: form, browser, seconds: seconds)
            var answer = Answer.redirect(to: SignIn.isOwn(target) ? target : PagePath.top)
            answer.headers[.setCookie] = call.setCookie(
                Session.cookie, token, seconds: form["stay"] == nil ? nil : seconds)
            return answer
        } catch let failure as Failure where [.code, .tooMany].contains(failure.code) {
            return try await self.form(to: target, failure)
        }
    }

    private func token(for form: Fields, _ browser: Browser, seconds: Int64) async throws -> String
    {
        let name = Browser.name(agent: call.request.headers[.userAgent] ?? "")
        let use = TokenUse.browser(lifetime: Timestamp.span(seconds: seconds))
        let (devices, address) = (call.hub.devices, call.client.address)
        let passkey = try PasskeyUse(form)
        func enrol(_ device: Identifier) async throws -> String {
            if let passkey {
                return try await devices.signIn(
                    passkey, browser: browser.secret, as: device, named: name, from: address,
                    for: use
                ).token
            }
            let request = EnrolRequest(
                code: form["code"] ?? "", deviceName: name, device: device)
            return try await devices.enrol(request, from: address, as: use).token
        }
        do {
            return try await enrol(browser.device)
        } catch let failure as Failure where failure.code == .taken {
            // The browser was used for another account before. Code and passkey are not used up.
            return try await enrol(.random())
        }
    }

    /// Whether a page of the hub has this address, so that nobody is sent to another site.
    static func isOwn(_ address: String) -> Bool {
        let plain = address.utf8.allSatisfy {
            switch $0 {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
                UInt8(ascii: "/"), UInt8(ascii: "?"), UInt8(ascii: "="), UInt8(ascii: "&"):
                true
            default: false
            }
        }
        return plain && address.hasPrefix(PagePath.top + "/") && !address.contains("//")
    }

    /// Leads to the form, and from there back to the address of this request.
    var redirect: Response {
        let path = call.request.head.path ?? ""
        let target = SignIn.isOwn(path) ? "?to=" + Fields.encoded(path) : ""
        return Answer.redirect(to: PagePath.signInAddress + target)
    }

    func signOut(_ session: Session) async throws -> Response {
        _ = try await session.form()
        try await call.hub.devices.signOut(session.caller)
        var answer = Answer.redirect(to: PagePath.signInAddress)
        answer.headers[.setCookie] = call.setCookie(Session.cookie, "", seconds: 0)
        return answer
    }
}
