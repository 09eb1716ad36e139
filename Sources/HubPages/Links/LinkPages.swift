import HTTPTypes
import Hub
import HubProtocol
import Hummingbird
import Model

/// The pages that visitors of a link see, below `/s/TOKEN`. They are those of a signed-in account
/// that has one document and, if the link allows it, the forms that save a new version of it.
struct LinkPages {
    private let call: PageCall
    private let token: String
    private let view: View?

    /// The last component of the address.
    private enum View: String {
        case page = ""
        case file, preview, edit, upload
        /// The target of the form for the link's password.
        case password

        var methods: [HTTPRequest.Method] {
            switch self {
            case .page, .file, .preview: [.get, .head]
            case .edit: [.get, .head, .post]
            case .upload, .password: [.post]
            }
        }

        var changes: Bool { self == .edit || self == .upload }
    }

    init(_ call: PageCall) {
        self.call = call
        let parts = (call.request.head.path ?? "").prefix { $0 != "?" }
            .dropFirst(Routes.links.count + 1)
            .split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
        token = String(parts.first ?? "")
        let last = parts.dropFirst().first.map { String($0) }
        // The page's address has no last component.
        view = last.map { $0.isEmpty ? nil : View(rawValue: $0) } ?? .page
    }

    /// Returns an answer to each request. Nothing in it lets a search engine, a cache or another
    /// site learn of the link.
    func answer() async -> Response {
        var answer: Response
        do {
            answer = try await open()
        } catch {
            // The path, which has the secret, is not logged.
            answer = refusal(Failure(answering: error, call.hub, path: Routes.links))
        }
        answer.headers[.referrerPolicy] = "no-referrer"
        answer.headers[.robots] = "noindex, nofollow, noarchive"
        answer.headers[.cacheControl] = "private, no-store"
        return answer
    }

    private func open() async throws -> Response {
        guard let view else { throw VolumeLinks.unknown }
        let method = call.request.method
        guard view.methods.contains(method) else {
            let names = view.methods.map(\.rawValue).joined(separator: ", ")
            throw Failure(.method, "\(method) is not possible here, only: \(names).")
        }
        let link = try await call.hub.links.open(token, from: call.client.address)
        let visit = Visit(link: link, token: token)
        let session = Session(
            call: call, caller: link.caller, token: token, isOwner: false,
            budget: BodyBudget(of: call.hub, forLinksOf: link.row.account), visit: visit)
        if view == .password { return try await Entrance(session, visit).enter() }
        guard visit.admits(call.cookie(Visit.cookie), at: call.hub.clock()) else {
            // A link from elsewhere brings no cookies, because they are strict.
            if call.isFirstFromElsewhere { return Answer.reload }
            return view == .page
                ? Entrance(session, visit).form() : Answer.redirect(to: visit.address)
        }
        guard visit.edits || !view.changes else { throw VolumeLinks.unknown }
        return try await answer(view, Place(link.item.id, in: link.volume, session), visit)
    }

    private func answer(_ view: View, _ place: Place, _ visit: Visit) async throws -> Response {
        switch view {
        case .page, .password: try await LinkPage(place, visit).answer()
        case .file, .preview: try await Download(place, isPreview: view == .preview).answer()
        case .edit: try await EditPage(place).answer()
        case .upload: try await UploadedVersion.receive(for: place)
        }
    }

    // MARK: Errors

    private func refusal(_ failure: Failure) -> Response {
        // A link that has just ended is answered like one that never was, and no sentence about a
        // volume or a device is for visitors.
        let isGone = [.notFound, .unauthenticated, .forbidden].contains(failure.code)
        let failure = isGone ? VolumeLinks.unknown : failure
        let title = isGone ? "This link does not work" : failure.title
        let page = ErrorView(
            frame: Frame(title: title), heading: title, message: failure.message, isSignedIn: false)
        var answer = Answer.page("error", page, status: .init(code: failure.status))
        if failure.code == .tooMany { answer.headers[.retryAfter] = "60" }
        if failure.code == .method, let view {
            answer.headers[.allow] = view.methods.map(\.rawValue).joined(separator: ", ")
        }
        return answer
    }
}

extension HTTPField.Name {
    fileprivate static let robots = HTTPField.Name("X-Robots-Tag")!
}
