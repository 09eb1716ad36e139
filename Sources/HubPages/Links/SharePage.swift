import Hub
import HubProtocol
import Hummingbird
import Model

/// The links to a document, or to all documents of a volume, with forms that make and revoke them.
struct SharePage {
    private let place: Place

    init(_ place: Place) { self.place = place }

    private struct View {
        let frame: Frame
        let path: [Place.Step]
        let name: String
        let token: String
        let target: String
        /// The form that makes a link; nil on the page of a volume.
        let make: String?
        /// The address of a link that was just made.
        let made: String?
        let done: String?
        let hasRows: Bool
        let rows: [Row]
    }

    private struct Row {
        let id: String
        let short: String
        /// The document's path, on the page of a volume.
        let document: String?
        let page: String
        let maker: String
        let marks: [String]
        let begin: ShownTime
        let end: ShownTime?
    }

    func answer() async throws -> Response {
        guard place.isRoot || place.item.kind.isDocument else {
            throw Failure(.notFound, "Links lead to documents, not to folders.")
        }
        guard place.session.call.request.method == .post else {
            let isDone = try place.session.call.query["done"] == "revoked"
            return try await page(done: isDone ? "The link is revoked." : nil)
        }
        let form = try await place.session.form()
        if form["change"] == "revoke" { return try await revoke(form) }
        return try await make(form)
    }

    private func page(made: String? = nil, done: String? = nil) async throws -> Response {
        let all = try await place.session.hub.links.list(
            of: place.volume.id, for: place.session.caller)
        let links = all.links.filter { place.isRoot || $0.item == place.item.id }
        let own = Place.Step(address: place.address(), name: place.name)
        let view = View(
            frame: Frame(title: "Links to \(place.name)", place.session), path: place.path + [own],
            name: place.name, token: place.session.formToken, target: place.address(.links),
            make: place.isRoot || !place.item.life.isAlive || !place.role.allows(.makeLink)
                ? nil : place.address(.links),
            made: made, done: done, hasRows: !links.isEmpty, rows: links.map(row))
        return Answer.page("share", view)
    }

    private func row(_ link: ShareLink) -> Row {
        let marks = [
            link.edits ? "edits" : nil, link.hasPassword ? "password" : nil,
            link.hasEnded ? "ended" : nil, link.isDeleted ? "document deleted" : nil,
        ]
        return Row(
            id: link.id.description, short: String(link.id.description.prefix(8)),
            document: place.isRoot ? Shown.name(link.path) : nil,
            page: PagePath.address(place.volume.id, link.item, .links),
            maker: Shown.name(link.maker), marks: marks.compactMap(\.self),
            begin: ShownTime(link.made), end: link.ends.map { ShownTime($0) })
    }

    private func make(_ form: Fields) async throws -> Response {
        guard !place.isRoot else {
            throw Failure(.malformed, "A link leads to a document, not to a volume.")
        }
        let days = form["days"] ?? ""
        guard days.isEmpty || Int64(days).map({ (1...3650).contains($0) }) == true else {
            throw Failure(.malformed, "A link ends after 1 to 3650 days. Nothing was made.")
        }
        let password = form["password"] ?? ""
        let made = try await place.session.hub.links.change(
            ShareLinkRequest(
                linkTo: place.item.id, edits: form["edits"] != nil,
                password: password.isEmpty ? nil : password,
                ends: Int64(days).map { place.now + Timestamp.span(seconds: $0 * 86_400) }),
            in: place.volume.id, for: place.session.caller)
        let origin = place.session.call.origin ?? ""
        // The token cannot be told again, so this is the answer to the form, and no redirection.
        return try await page(made: made.token.map { "\(origin)\(Routes.links)/\($0)" })
    }

    private func revoke(_ form: Fields) async throws -> Response {
        guard let id = form["id"].flatMap({ Identifier($0) }) else {
            throw Failure(.malformed, "The form does not say which link.")
        }
        _ = try await place.session.hub.links.change(
            ShareLinkRequest(revoking: id), in: place.volume.id, for: place.session.caller)
        return Answer.redirect(to: place.address(.links) + "?done=revoked")
    }
}
