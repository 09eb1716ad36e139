import Hub
import HubProtocol
import Hummingbird
import Model
import Reconcile

/// The document of a link, as its visitors see it: the present contents and no history.
struct LinkPage {
    private let place: Place
    private let visit: Visit

    init(_ place: Place, _ visit: Visit) {
        self.place = place
        self.visit = visit
    }

    private struct View {
        let frame: Frame
        let name: String
        let kind: String
        let kindText: String
        let size: String?
        let time: ShownTime?
        let maker: String
        let file: String?
        let edit: String?
        /// The form that sends a new version; nil if the visitor may not.
        let upload: String?
        let token: String
        /// The version that the page shows; empty if the document has none.
        let shown: String
        let done: String?
        let preview: Preview?
        let isPackage: Bool
        let parts: [Document.Part]
        let hiddenParts: String?
    }

    func answer() async throws -> Response {
        let query = try place.session.call.query
        let (document, kind) = (Document(place), ShownKind(place.item))
        let shown = place.item.current
        let (preview, parts) = try await document.contents(of: shown)
        let isFile = place.item.kind == .file
        let view = View(
            frame: Frame(title: place.name, place.session), name: place.name, kind: kind.rawValue,
            kindText: kind.text, size: shown.map { Shown.size($0.size) },
            time: shown.map { ShownTime($0.note.saved) },
            maker: Shown.name(place.session.caller.user),
            file: shown != nil && isFile ? place.address(.file) : nil,
            edit: document.editAddress(of: shown, preview),
            upload: place.hasForms && isFile ? place.address(.upload) : nil,
            token: place.session.formToken, shown: shown?.id.description ?? "",
            done: query["done"].flatMap { PageOperation.Outcome(rawValue: $0) }?
                .sentence(place.name),
            preview: preview, isPackage: place.item.kind == .package, parts: parts.shown,
            hiddenParts: parts.hidden)
        return Answer.page("link", view)
    }
}
