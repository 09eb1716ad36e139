import Hub
import HubProtocol
import Hummingbird
import Model
import Reconcile

/// The folders into which an item can be moved: those in one folder, and that one itself.
struct MovePage {
    private let place: Place

    init(_ place: Place) { self.place = place }

    private struct View {
        let frame: Frame
        let item: String
        let page: String
        let path: [Place.Step]
        let name: String
        let folders: [Place.Step]
        let isEmpty: Bool
        /// The form that moves the item into the shown folder; nil if it is there already.
        let here: String?
        let to: String
        let token: String
        let position: String
        let previous: String?
        let next: String?
    }

    func answer() async throws -> Response {
        try place.checkCanMove()
        let query = try place.session.call.query
        let id = query["to"].flatMap { Identifier($0) } ?? place.item.placement.parent
        let shown = try await Place(id, in: place.volume, place.session)
        guard shown.item.kind == .directory, shown.item.life.isAlive else {
            throw Failure(.notFound, "There is no such folder.")
        }
        let (volume, page) = (place.volume.id, query["page"] ?? "")
        let listing = try await place.session.hub.ledger.read {
            try Listing(id, in: volume, page: page, isDeleted: false, $0)
        }
        let others = listing.items.filter { $0.kind == .directory && $0.id != place.item.id }
        let folders = others.map { step($0.id, Shown.name($0.name)) }
        let above = shown.folders.map { step($0.id, Shown.name($0.name)) }
        func address(_ page: String?) -> String? { page.map { link(id) + "&page=\($0)" } }
        // The folders come first, so the pages after the last one of them are of no use.
        let isLast = listing.isSorted && listing.items.last.map { $0.kind != .directory } ?? true
        let view = View(
            frame: Frame(title: "Move \(place.name)", place.session), item: place.name,
            page: place.address(),
            path: shown.isRoot ? [] : [step(.root, Shown.name(place.volume.name))] + above,
            name: shown.name, folders: folders, isEmpty: folders.isEmpty,
            here: id == place.item.placement.parent ? nil : place.address(.move),
            to: id.description, token: place.session.formToken, position: place.position,
            previous: address(listing.previous), next: isLast ? nil : address(listing.next))
        return Answer.page("move", view)
    }

    private func step(_ folder: Identifier, _ name: String) -> Place.Step {
        Place.Step(address: link(folder), name: name)
    }

    private func link(_ folder: Identifier) -> String {
        place.address(.move) + "?to=\(folder)"
    }
}
