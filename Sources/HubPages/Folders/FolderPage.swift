import Hub
import HubProtocol
import Hummingbird
import Model
import Reconcile

/// The items of a folder.
struct FolderPage {
    private let place: Place

    init(_ place: Place) { self.place = place }

    private struct View {
        let frame: Frame
        let path: [Place.Step]
        let name: String
        let summary: String
        let rows: [Row]
        let isEmpty: Bool
        /// Whether the deleted items are listed.
        let isDeleted: Bool
        /// The form that brings back this folder; nil if it was not deleted.
        let undelete: String?
        /// The forms that add something; nil if the account may not, or the folder was deleted.
        let adds: Additions?
        let change: ChangeForms?
        let token: String
        let position: String
        let done: String?
        /// The address of the volume's last changes; nil in other folders.
        let activity: String?
        /// The address of the volume's links; nil in other folders, and for readers.
        let links: String?
        /// The address of the folder at a past time.
        let past: String
        let events: String
        /// The address of the list of deleted items, or of the folder.
        let other: String
        let isUnsorted: Bool
        let pager: Neighbours?
    }

    private struct Row {
        let address: String
        let name: String
        let kind: String
        let kindText: String
        let size: String?
        let time: ShownTime?
        let isInConflict: Bool
        /// The form that brings back this item; nil if it was not deleted.
        let back: String?
    }

    private struct Additions {
        let upload: String
        let make: String
    }

    func answer() async throws -> Response {
        let query = try place.session.call.query
        // All items of a deleted folder are deleted, too.
        let isGone = !place.item.life.isAlive
        let (page, isDeleted) = (query["page"] ?? "", isGone || query["deleted"] != nil)
        let (volume, folder) = (place.volume.id, place.item.id)
        let listing = try await place.session.hub.ledger.read {
            try Listing(folder, in: volume, page: page, isDeleted: isDeleted, $0)
        }
        func address(_ page: String?) -> String? {
            let deleted = isDeleted ? "deleted=1" : ""
            return page.map { page in
                let fields = [deleted, page.isEmpty ? "" : "page=\(page)"].filter { !$0.isEmpty }
                return place.address() + (fields.isEmpty ? "" : "?")
                    + fields.joined(separator: "&")
            }
        }
        let view = View(
            frame: Frame(title: place.name, place.session), path: place.path, name: place.name,
            summary: summary(listing, isDeleted), rows: listing.items.map(row),
            isEmpty: listing.items.isEmpty, isDeleted: isDeleted,
            undelete: isGone && place.hasForms ? place.address(.undelete) : nil,
            adds: isDeleted || !place.hasForms
                ? nil : Additions(upload: place.address(.upload), make: place.address(.makeFolder)),
            change: isDeleted ? nil : ChangeForms(place), token: place.session.formToken,
            position: place.position,
            done: query["done"].flatMap { PageOperation.Outcome(rawValue: $0) }?
                .sentence(place.name),
            activity: place.isRoot ? place.address(.activity) : nil,
            links: place.isRoot && place.role.allows(.makeLink) ? place.address(.links) : nil,
            past: place.address() + "?at=" + PageTime.present, events: place.address(.events),
            other: place.address() + (isDeleted ? "" : "?deleted=1"),
            isUnsorted: !listing.isSorted,
            pager: Neighbours(address(listing.previous), address(listing.next)))
        return Answer.page("folder", view)
    }

    private func summary(_ listing: Listing, _ isDeleted: Bool) -> String {
        guard let count = listing.count else { return "More than \(PageLimits.sorted) items" }
        let deleted = isDeleted ? "deleted " : ""
        return Shown.count(count, deleted + "item", deleted + "items")
    }

    private func row(_ item: ItemState) -> Row {
        let kind = ShownKind(item)
        return Row(
            address: PagePath.address(place.volume.id, item.id), name: Shown.name(item.name),
            kind: kind.rawValue, kindText: kind.text,
            size: item.kind.isDocument ? Shown.size(item.current?.size ?? 0) : nil,
            time: item.current.map { ShownTime($0.note.saved) },
            isInConflict: !item.conflicts.isEmpty,
            back: item.life.isAlive || !place.hasForms
                ? nil : PagePath.address(place.volume.id, item.id, .undelete))
    }
}

/// The pages, or the moments, before and after what is shown.
struct Neighbours {
    let before: String?
    let after: String?

    /// Nil if there are none.
    init?(_ before: String?, _ after: String?) {
        guard before != nil || after != nil else { return nil }
        (self.before, self.after) = (before, after)
    }
}

/// What an item is for people. The raw value is the name of its style.
enum ShownKind: String {
    case folder, package, link, picture, text, pdf, file

    init(_ item: ItemState) { self.init(item.kind, named: item.name) }

    init(_ kind: ItemKind, named name: String) {
        switch kind {
        case .directory: self = .folder
        case .package: self = .package
        case .symlink: self = .link
        case .file:
            switch FileType(name: name).preview {
            case .picture: self = .picture
            case .text: self = .text
            case .pdf: self = .pdf
            case nil: self = .file
            }
        }
    }

    var text: String {
        switch self {
        case .folder: "Folder"
        case .package: "Package"
        case .link: "Link"
        case .picture: "Picture"
        case .text: "Text"
        case .pdf: "PDF"
        case .file: "File"
        }
    }
}
