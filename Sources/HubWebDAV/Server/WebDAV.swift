import HTTPTypes
import Hub
import HubProtocol
import Hummingbird

/// The hub's volumes for programs that know WebDAV (RFC 4918), below `/dav`.
package struct WebDAV: PageServer {
    private let hub: Hub
    private let vacated = VacatedNames()

    package init(_ hub: Hub) { self.hub = hub }

    package var route: String { "webdav" }

    package func owns(_ path: String) -> Bool {
        let path = path.prefix { $0 != "?" }
        return path == Address.top || path.hasPrefix(Address.top + "/")
    }

    package func answer(_ request: Request, from client: PageClient) async -> Response {
        do {
            // Some clients ask what is possible before they have a password.
            if request.method == .options { return options }
            let session = try await Session(hub, request, client, vacated)
            return try await answer(session)
        } catch let refusal as Refusal {
            var answer = Reply.refusal(refusal)
            if refusal.status == 405 { answer.headers[.allow] = WebDAV.methods }
            return answer
        } catch {
            return Reply.failure(Failure(answering: error, hub, path: request.head.path ?? ""))
        }
    }

    private static let methods =
        "OPTIONS, GET, HEAD, PUT, DELETE, MKCOL, COPY, MOVE, LOCK, UNLOCK, "
        + "PROPFIND, PROPPATCH"

    private var options: Response {
        Reply.empty(200, [.dav: "1, 2", .allow: WebDAV.methods, .author: "DAV"])
    }

    private func answer(_ session: Session) async throws -> Response {
        let address = try Address(path: session.request.head.path ?? "")
        let place = try await Place(address, session)
        switch session.request.method.rawValue {
        case "GET", "HEAD": return try await Download(place).answer()
        case "PROPFIND": return try await PropertySearch(place).answer()
        case "PUT": return try await DocumentWriter(place).put()
        case "MKCOL": return try await DocumentWriter(place).makeFolder()
        case "DELETE": return try await Removal(place).answer()
        case "COPY": return try await Transfer(place, isMove: false).answer()
        case "MOVE": return try await Transfer(place, isMove: true).answer()
        case "LOCK": return try await Locking(place).lock()
        case "UNLOCK": return try await Locking(place).unlock()
        case "PROPPATCH": return try await PropertyUpdate(place).answer()
        default: throw Refusal.notAllowed
        }
    }
}
