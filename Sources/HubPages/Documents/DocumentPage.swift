import Hub
import HubProtocol
import Hummingbird
import Model
import Reconcile

/// A document: its contents, its conflict and its versions.
struct DocumentPage {
    private let place: Place
    private let document: Document
    /// The document at the time that the address names; nil if it names none. Then only a former
    /// version or the whole document is restored.
    private let past: PastPlace?

    init(_ place: Place, _ past: PastPlace?) {
        self.place = place
        self.past = past
        document = Document(place)
    }

    private struct View {
        let frame: Frame
        let path: [Place.Step]
        let name: String
        let kind: String
        let kindText: String
        let address: String
        let events: String
        let done: String?
        /// The past time that is shown.
        let past: ShownTime?
        let isDeleted: Bool
        let isFormer: Bool
        /// Whether the account may change the volume.
        let hasForms: Bool
        let undelete: String
        let restore: String
        let settle: String
        /// The page where the text is edited; nil if it cannot be.
        let edit: String?
        /// The page of the document's links; nil if the account may make none.
        let links: String?
        let change: ChangeForms?
        let token: String
        let position: String
        let currentID: String?
        let shownID: String?
        let size: String?
        let time: ShownTime?
        let device: String?
        let target: String?
        let file: String?
        let preview: Preview?
        let isPackage: Bool
        let parts: [Document.Part]
        let hiddenParts: String?
        let isInConflict: Bool
        let live: [Version]
        let hasVersions: Bool
        let versions: [Version]
        let more: String?
    }

    private struct Version {
        let id: String
        let short: String
        let title: String
        let saved: ShownTime
        let by: String
        let length: String
        let open: String
        let download: String?
        /// The address of a comparison with the current version.
        let compare: String?
        let isCurrent: Bool
        let mark: String?
    }

    func answer() async throws -> Response {
        let query = try place.session.call.query
        let (item, kind) = (place.item, ShownKind(place.item))
        let shown = try await shownVersion(query)
        let before = query["before"].flatMap { UInt64($0) }
        let history = try await document.history(before: before)
        let isPackage = item.kind == .package
        let (preview, parts) = try await document.contents(of: shown)
        let version = shown.map { "?revision=\($0.id)" } ?? ""
        let view = View(
            frame: Frame(title: past?.name ?? place.name, place.session),
            path: past?.path ?? place.path,
            name: past?.name ?? place.name,
            kind: kind.rawValue, kindText: kind.text, address: place.address(),
            events: place.address(.events),
            done: query["done"].flatMap { PageOperation.Outcome(rawValue: $0) }?
                .sentence(place.name),
            past: past.map { ShownTime($0.time.nanoseconds) }, isDeleted: !item.life.isAlive,
            isFormer: shown.map { shown in !place.live.contains { $0.id == shown.id } } ?? false,
            hasForms: place.hasForms,
            undelete: place.address(.undelete), restore: place.address(.restore),
            settle: place.address(.settle),
            edit: past == nil ? document.editAddress(of: shown, preview) : nil,
            links: mayShare ? place.address(.links) : nil,
            change: past == nil ? ChangeForms(place) : nil,
            token: place.session.formToken,
            position: place.position, currentID: item.current?.id.description,
            shownID: shown?.id.description, size: shown.map { Shown.size($0.size) },
            time: shown.map { ShownTime($0.note.saved) },
            device: shown.map(document.author).flatMap { $0.isEmpty ? nil : $0 },
            target: item.target.map { Shown.name($0) },
            file: shown == nil || isPackage ? nil : place.address(.file) + version,
            preview: preview, isPackage: isPackage,
            parts: parts.shown, hiddenParts: parts.hidden,
            isInConflict: past == nil && !item.conflicts.isEmpty,
            live: place.live.map(self.version),
            hasVersions: !history.revisions.isEmpty,
            versions: history.revisions.map(self.version),
            more: history.hasMore
                ? history.revisions.last.map { place.address() + "?before=\($0.sequence)" } : nil)
        return Answer.page("document", view)
    }

    private var mayShare: Bool {
        past == nil && place.item.life.isAlive && place.item.kind.isDocument
            && place.role.allows(.makeLink)
    }

    /// Nil for an item that has no versions.
    private func shownVersion(_ query: Fields) async throws -> Revision? {
        guard place.item.current != nil else { return nil }
        guard let past else { return try await document.revision(query["revision"]) }
        guard let version = past.version else {
            throw Failure(
                .notFound, "The hub has no version of \(place.name) that was there at this time.")
        }
        return version
    }

    private func version(_ revision: Revision) -> Version {
        let current = place.item.current?.id
        let isLive = place.live.contains { $0.id == revision.id }
        let id = "?revision=\(revision.id)"
        return Version(
            id: revision.id.description, short: document.shortID(revision),
            title: document.title(revision), saved: ShownTime(revision.note.saved),
            by: [
                document.author(revision),
                Shown.name(SavedAccess.split(revision.note.program).signature),
            ]
            .filter { !$0.isEmpty }.joined(separator: ", "),
            length: Shown.size(revision.size), open: place.address() + id,
            download: place.item.kind == .file ? place.address(.file) + id : nil,
            compare: revision.id == current
                ? nil
                : current.map { place.address(.compare) + "?from=\(revision.id)&to=\($0)" },
            isCurrent: revision.id == current,
            mark: isLive ? (revision.id == current ? "current" : "conflict") : nil)
    }
}
