import Foundation
import HTTPTypes
import Hub
import HubProtocol
import Hummingbird
import Model

/// The pages that a hub shows in a browser, below `/web`, and those of links.
package struct Pages: PageServer {
    private let hub: Hub

    package init(_ hub: Hub) { self.hub = hub }

    private static let links = Routes.links + "/"

    package var route: String { "pages" }

    package func owns(_ path: String) -> Bool {
        let path = path.prefix { $0 != "?" }
        return path == "/" || path == PagePath.top || path.hasPrefix(PagePath.top + "/")
            || path.hasPrefix(Pages.links)
    }

    package func answer(_ request: Request, from client: PageClient) async -> Response {
        let call = PageCall(hub: hub, request: request, client: client)
        if request.head.path?.hasPrefix(Pages.links) == true {
            return await LinkPages(call).answer()
        }
        do {
            return try await answer(call)
        } catch {
            let failure = Failure(answering: error, hub, path: request.head.path ?? "")
            return await errorPage(failure, call)
        }
    }

    private func answer(_ call: PageCall) async throws -> Response {
        if call.isFirstFromElsewhere { return Answer.reload }
        let path = try PagePath(call.request.head.path ?? "")
        let (method, allowed) = (call.request.method, path.methods)
        guard allowed.contains(method) else {
            let names = allowed.map(\.rawValue).joined(separator: ", ")
            throw Failure(.method, "\(method) is not possible here, only: \(names).")
        }
        switch path {
        case .start: return Answer.redirect(to: PagePath.top)
        case .asset(let name): return try Asset.answer(name)
        case .signIn: return try await SignIn(call).answer()
        case .volumes, .item, .signOut, .devices, .revoke, .addPasskey, .removePasskey, .hub,
            .storagePlot, .account:
            let session: Session
            do { session = try await call.session() } catch let failure as Failure
                where failure.code == .unauthenticated && method != .post
            {
                return SignIn(call).redirect
            }
            return try await answer(path, session)
        }
    }

    private func answer(_ path: PagePath, _ session: Session) async throws -> Response {
        switch path {
        case .signOut: return try await SignIn(session.call).signOut(session)
        case .hub: return try await HubPage(session).answer()
        case .storagePlot: return try await HubPage(session).plot()
        case .account(let account, .quota):
            return try await HubPage(session).setQuota(of: account)
        case .account(let account, .invite):
            return try await HubPage(session).invite(account)
        case .devices: return try await DevicesPage(session).answer()
        case .revoke(let device): return try await DevicesPage(session).revoke(device)
        case .addPasskey: return try await Passkeys(session).add()
        case .removePasskey(let passkey): return try await Passkeys(session).remove(passkey)
        case .item(let volume, let item, let view):
            let volume = try await hub.volume(
                volume, for: session.caller, to: view.changes ? .pageForm : .page)
            return try await answer(view, item, volume, session)
        default: return try await VolumesPage(session).answer()
        }
    }

    private func answer(
        _ view: PagePath.View, _ item: Identifier, _ volume: VolumeRow, _ session: Session
    ) async throws -> Response {
        let place = try await Place(item, in: volume, session)
        switch view {
        case .page:
            let past = try await PastPlace(place)
            guard place.item.kind == .directory else {
                return try await DocumentPage(place, past).answer()
            }
            guard let past else { return try await FolderPage(place).answer() }
            return try await PastFolderPage(place, past).answer()
        case .file, .preview:
            return try await Download(place, isPreview: view == .preview).answer()
        case .compare: return try await ComparePage(place).answer()
        case .activity: return try await ActivityPage(place).answer()
        case .links: return try await SharePage(place).answer()
        case .events: return Events(place).answer()
        case .upload: return try await UploadedFiles.receive(into: place)
        case .edit: return try await EditPage(place).answer()
        case .move where session.call.request.method != .post:
            return try await MovePage(place).answer()
        case .restore, .undelete, .settle, .rename, .delete, .makeFolder, .move:
            return try await PageOperation(place).answer(view)
        }
    }

    // MARK: Errors

    private func errorPage(_ failure: Failure, _ call: PageCall) async -> Response {
        let session = try? await call.session()
        let view = ErrorView(
            frame: Frame(title: failure.title, session), heading: failure.title,
            message: failure.message, isSignedIn: true)
        var answer = Answer.page("error", view, status: .init(code: failure.status))
        if failure.code == .tooMany { answer.headers[.retryAfter] = "60" }
        if let allowed = try? PagePath(call.request.head.path ?? "").methods {
            if failure.code == .method {
                answer.headers[.allow] = allowed.map(\.rawValue).joined(separator: ", ")
            }
        }
        return answer
    }
}

struct ErrorView {
    let frame: Frame
    let heading: String
    let message: String
    /// Whether the page leads to the volumes. Visitors of links see none.
    let isSignedIn: Bool
}

extension Failure {
    /// A heading for people.
    var title: String {
        switch code {
        case .notFound: "Not found"
        case .unauthenticated: "You are signed out"
        case .tooMany, .busy: "Try again in a moment"
        case .failed: "The hub failed"
        case .full, .quota: "There is no space"
        case .collection, .copied, .gap, .taken, .volumeEpoch, .deviceEpoch, .missing, .cloned:
            "Something has changed meanwhile"
        case .forbidden: "You may not change this"
        case .malformed, .code, .method, .tooLarge, .contentType: "This does not work"
        }
    }
}
