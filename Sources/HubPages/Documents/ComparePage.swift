import Hub
import HubProtocol
import Hummingbird
import Model
import Reconcile

/// Two versions of a document side by side.
struct ComparePage {
    private let place: Place

    init(_ place: Place) { self.place = place }

    private struct View {
        let frame: Frame
        let path: [Place.Step]
        let name: String
        let page: String
        let compare: String
        let settle: String
        let token: String
        let position: String
        let older: Side
        let newer: Side
        let choices: [Choice]
        let rows: [DifferenceRows.Row]
        let areEqual: Bool
        let isInexact: Bool
        let isCut: Bool
        let pictures: Bool
        let message: String?
        /// Whether both versions are in conflict, so that one of them can be chosen.
        let isConflict: Bool
        let shown: [String]
    }

    private struct Side {
        let id: String
        let title: String
        let time: ShownTime
        let picture: String
    }

    /// A version in the lists from which both sides are chosen.
    private struct Choice {
        let value: String
        let label: String
        let isOlder: Bool
        let isNewer: Bool
    }

    func answer() async throws -> Response {
        let query = try place.session.call.query
        let document = Document(place)
        let history = try await document.history()
        let newer = try await document.revision(query["to"])
        let first = history.revisions.first { newer.parents.contains($0.id) }
        let older = try await document.revision(
            query["from"] ?? (first ?? history.revisions.last ?? newer).id.description)
        let isPicture = ShownKind(place.item) == .picture
        let texts = isPicture ? nil : try await texts(older, newer)
        let live = place.live.map(\.id)
        let view = View(
            frame: Frame(title: "Versions of \(place.name)", place.session), path: place.path,
            name: place.name, page: place.address(), compare: place.address(.compare),
            settle: place.address(.settle), token: place.session.formToken,
            position: place.position, older: side(older), newer: side(newer),
            choices: history.revisions.map { revision in
                Choice(
                    value: revision.id.description, label: document.label(revision),
                    isOlder: revision.id == older.id, isNewer: revision.id == newer.id)
            },
            rows: texts?.rows ?? [], areEqual: texts.map { !$0.hasDifferences } ?? false,
            isInexact: texts.map { !$0.isExact } ?? false, isCut: texts?.isCut ?? false,
            pictures: isPicture,
            message: texts == nil && !isPicture
                ? "These versions are not texts that a page can compare. Download both." : nil,
            isConflict: place.hasForms && live.count > 1 && older.id != newer.id
                && live.contains(older.id)
                && live.contains(newer.id),
            shown: live.map(\.description))
        return Answer.page("compare", view)
    }

    private func side(_ revision: Revision) -> Side {
        Side(
            id: revision.id.description, title: Document(place).title(revision),
            time: ShownTime(revision.note.saved),
            picture: place.address(.preview) + "?revision=\(revision.id)")
    }

    /// Returns nil if one of them is not a text, or too large.
    private func texts(_ older: Revision, _ newer: Revision) async throws -> DifferenceRows? {
        guard place.item.kind == .file, let old = try await text(older),
            let new = try await text(newer)
        else { return nil }
        // An account compares one pair at a time, because that takes processor time.
        return await place.session.hub.perAccountLock.alone(place.session.caller.account) {
            DifferenceRows(old, new)
        }
    }

    private func text(_ revision: Revision) async throws -> String? {
        guard revision.size <= PageLimits.comparedBytes else { return nil }
        let content = try place.content(try await Document(place).file(of: revision))
        return ShownText.text(
            try await content.beginning(PageLimits.comparedBytes), isCut: false)
    }
}
