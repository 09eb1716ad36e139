import HTTPTypes
import Hub
import HubProtocol
import Hummingbird
import Model
import Reconcile

/// Sends the contents of a document, or of a file in a package.
struct Download {
    private let place: Place
    private var request: Request { place.session.request }

    init(_ place: Place) { self.place = place }

    func answer() async throws -> Response {
        let entry: Manifest.Entry
        let item: ItemState
        switch try place.existing() {
        case .item(let file) where file.kind == .file:
            (item, entry) = (file, try await self.entry(of: file))
        case .part(let part, let package) where part.kind == .file: (item, entry) = (package, part)
        default:
            throw Refusal(405, "This is a folder: PROPFIND with the header Depth: 1 lists it.")
        }
        guard let volume = place.access?.volume else { throw Place.nothing }
        // A file of a package has no version of its own, but that of the package.
        let tag = item.tag
        let modified = entry.path.isEmpty ? item.modified : entry.modified
        var headers = Reply.headers
        headers[.eTag] = tag
        if let modified { headers[.lastModified] = HTTPDate.text(modified) }
        if request.headers[.ifHeader] != nil {
            try await Locks(volume, place.session).checkHeader(place)
        }
        let conditions = Conditions(request)
        try conditions.check(exists: true, tag: tag)
        if entry.path.isEmpty { try await Locks.note(item.current?.id, of: item.id, place) }
        if conditions.isFresh(tag: tag) { return Reply.empty(304, headers) }
        headers[.contentType] = FileType(name: place.address.name).media
        headers[.contentDisposition] = "attachment"
        headers[.acceptRanges] = "bytes"
        let content = try Content(
            entry, in: volume, of: place.session.hub, for: place.session.caller,
            place.session.budget)
        // They count in the budget of the contents now.
        try place.session.budget.hold(0)
        let range = conditions.appliesRange(tag: tag) ? request.headers[.range] : nil
        return content.response(range: range, headers)
    }

    /// A file that nobody has written to has no version yet.
    private func entry(of file: ItemState) async throws -> Manifest.Entry {
        guard let current = file.current, let volume = place.access?.volume.id else {
            return Manifest.Entry()
        }
        let entries = try await place.session.hub.ledger.read {
            [budget = place.session.budget] in
            try Content.entries(of: current.id, in: volume, $0, holding: budget) { at, _ in at == 0
            }
        }
        guard let entry = entries.first else { throw Place.nothing }
        return entry
    }
}
