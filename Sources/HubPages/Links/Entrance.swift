import Hub
import HubProtocol
import Hummingbird
import Model

/// The form in which a visitor enters the password of a link. It says nothing of the document.
struct Entrance {
    private let session: Session
    private let visit: Visit

    init(_ session: Session, _ visit: Visit) {
        self.session = session
        self.visit = visit
    }

    private struct View {
        let frame: Frame
        let address: String
        let maker: String
        let token: String
        let message: String?
        let isUnencrypted: Bool
    }

    func form(_ failure: Failure? = nil) -> Response {
        let view = View(
            frame: Frame(title: "A shared document", session), address: "\(visit.address)/password",
            maker: Shown.name(session.caller.user), token: session.formToken,
            message: failure?.message, isUnencrypted: !session.call.client.isEncrypted)
        return Answer.page("entrance", view, status: .init(code: failure?.status ?? 200))
    }

    func enter() async throws -> Response {
        let form = try await session.form()
        do {
            try await session.hub.links.check(
                form["password"] ?? "", of: visit.link, from: session.call.client.address)
        } catch let failure as Failure where [.code, .tooMany].contains(failure.code) {
            return self.form(failure)
        }
        var answer = Answer.redirect(to: visit.address)
        guard visit.link.row.password != nil else { return answer }
        answer.headers[.setCookie] = session.call.setCookie(
            Visit.cookie, visit.ticket(at: session.hub.clock()), seconds: nil, path: visit.address)
        return answer
    }
}
