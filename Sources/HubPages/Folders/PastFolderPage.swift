import Hub
import HubProtocol
import Hummingbird
import Model
import Reconcile

/// The items of a folder as the hub had them at a past time. The only things that can be changed
/// are documents: a former version or a deleted document is made current.
struct PastFolderPage {
    private let place: Place
    private let past: PastPlace

    init(_ place: Place, _ past: PastPlace) {
        self.place = place
        self.past = past
    }

    private struct View {
        let frame: Frame
        let path: [Place.Step]
        let name: String
        let summary: String
        let when: ShownTime
        let isPresent: Bool
        let notes: [String]
        let folder: String
        /// The time as the field of the form has it.
        let value: String
        let moments: [Moment]
        let neighbours: Neighbours?
        let rows: [Row]
        let isEmpty: Bool
        let isUnsorted: Bool
        let token: String
        let position: String
        let pager: Neighbours?
    }

    private struct Moment {
        let link: String
        /// Nil for the present.
        let reached: ShownTime?
        let isShown: Bool
    }

    /// No name is one of `View`, because the template would take the page's value where this one
    /// is nil.
    private struct Row {
        let address: String
        let inner: String
        let kind: String
        let kindText: String
        let size: String?
        let saved: ShownTime?
        let marks: [String]
        /// The form that makes the version of that time current.
        let restore: Restoring?
        /// The form that brings back a document that was deleted.
        let back: String?
    }

    private struct Restoring {
        let form: String
        let revision: String
        let shown: String?
    }

    func answer() async throws -> Response {
        let (volume, folder) = (place.volume.id, place.item.id)
        let (time, page) = (past.time, try place.session.call.query["page"] ?? "")
        let (listing, versions, moments) = try await place.session.hub.ledger.read {
            transaction in
            let table = PastTable(transaction, volume: volume)
            let listing = try PastListing(folder, at: time.position, page: page, table)
            let versions = try listing.items.map {
                try $0.kind.isDocument ? table.current(of: $0.id, at: time.position) : nil
            }
            let moments = try PastMoments(
                listing.changes, at: time.position, JournalTimes(transaction, volume: volume))
            return (listing, versions, moments)
        }
        func address(_ page: String?) -> String? {
            page.map { place.address() + time.query + ($0.isEmpty ? "" : "&page=\($0)") }
        }
        let when = ShownTime(time.nanoseconds)
        let view = View(
            frame: Frame(title: "\(past.name), \(when.text)", place.session), path: past.path,
            name: past.name, summary: summary(listing), when: when, isPresent: time.isPresent,
            notes: notes(listing), folder: place.address(),
            value: time.field, moments: stops(moments),
            neighbours: Neighbours(moments.previous.map(link), moments.next.map(link)),
            rows: zip(listing.items, versions).map(row), isEmpty: listing.items.isEmpty,
            isUnsorted: !listing.isSorted, token: place.session.formToken,
            position: place.position,
            pager: Neighbours(address(listing.previous), address(listing.next)))
        return Answer.page("past", view)
    }

    private func link(_ moment: JournalMoment) -> String {
        place.address() + "?at=" + PageTime.text(moment.time)
    }

    /// The moments that can be chosen, and the present at their end.
    private func stops(_ moments: PastMoments) -> [Moment] {
        let now = Moment(
            link: place.address() + "?at=" + PageTime.present, reached: nil,
            isShown: past.time.isPresent)
        return moments.shown.map {
            Moment(
                link: link($0), reached: ShownTime($0.time),
                isShown: !past.time.isPresent && $0 == moments.present)
        } + [now]
    }

    private func summary(_ listing: PastListing) -> String {
        listing.count.map { Shown.count($0, "item", "items") } ?? "Many items"
    }

    /// What the page cannot show, or shows otherwise than somebody may expect.
    private func notes(_ listing: PastListing) -> [String] {
        var notes: [String] = []
        if let unplaced = past.unplaced {
            notes.append(
                "Before \(ShownTime(unplaced).text) this hub did not record when something "
                    + "was moved or renamed: documents that were moved since are shown where they "
                    + "are now, and folders that were moved since are missing.")
        }
        if past.time.position == 0 {
            notes.append("This time is before the first change that the hub knows of.")
        } else if !past.isKnown, past.unplaced == nil {
            notes.append("This folder did not exist at this time.")
        }
        if !listing.isSorted {
            notes.append(
                "This folder has so many items that they are not sorted by name, and that the "
                    + "moments of change are those of the whole volume.")
        } else if listing.changes == nil {
            notes.append("The moments of change are those of the whole volume.")
        }
        return notes
    }

    private func row(_ item: PastItem, _ version: Revision?) -> Row {
        let kind = ShownKind(item.kind, named: item.name)
        let isChanged = version.map { $0.content != item.content } ?? false
        var marks: [String] = []
        if item.isDeleted { marks.append("deleted since") }
        if item.isElsewhere { marks.append("moved since") }
        if isChanged { marks.append("changed since") }
        if item.isAssumed { marks.append("place not known") }
        let hasForms = place.hasForms && item.kind.isDocument
        return Row(
            address: PagePath.address(place.volume.id, item.id) + past.time.query,
            inner: Shown.name(item.name), kind: kind.rawValue, kindText: kind.text,
            size: version.map { Shown.size($0.size) },
            saved: version.map { ShownTime($0.note.saved) }, marks: marks,
            restore: version.flatMap { version in
                hasForms && isChanged
                    ? Restoring(
                        form: PagePath.address(place.volume.id, item.id, .restore),
                        revision: version.id.description, shown: item.current?.description) : nil
            },
            back: hasForms && item.isDeleted && !isChanged
                ? PagePath.address(place.volume.id, item.id, .undelete) : nil)
    }
}
