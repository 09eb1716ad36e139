import Hub
import HubProtocol
import Hummingbird
import Model
import Reconcile

/// A file that a visitor of a link sends as a new version of the document, whatever its name is.
struct UploadedVersion: FormFiles {
    private let place: Place
    /// Nil before the file, because the form's token comes before it.
    private var changes: VolumeChanges?
    /// The version that the page has shown; nil if the document had none.
    private var seen: Revision?
    private var receiver: ContentReceiver?
    private var contents: StoredContents?

    var heldBytes: Int { receiver?.heldBytes ?? contents?.heldBytes ?? 0 }

    private init(for place: Place) { self.place = place }

    static func receive(for place: Place) async throws -> Response {
        guard place.item.kind == .file else {
            throw Failure(.malformed, "Only documents of one file are replaced on a page.")
        }
        var version = UploadedVersion(for: place)
        do {
            _ = try await MultipartForm(session: place.session, limit: PageLimits.formBytes)
                .read(&version)
        } catch {
            await version.receiver?.abandon()
            throw error
        }
        return try await version.save().redirect(to: place.address())
    }

    mutating func begin(_ name: String, after fields: Fields, upTo size: UInt64) async throws {
        guard changes == nil else {
            throw Failure(.malformed, "One file is sent at a time. Nothing was saved.")
        }
        try place.session.call.check(fields, token: place.session.formToken)
        guard let shown = fields["shown"] else {
            throw Failure(.malformed, "The form does not say which version it replaces.")
        }
        seen = shown.isEmpty ? nil : try await Document(place).revision(shown)
        let changes = try await place.changes(fields)
        receiver = try await ContentReceiver(
            to: changes.volume, of: changes.hub, for: changes.caller, upTo: size,
            replacing: seen?.size ?? 0, place.session.budget)
        self.changes = changes
    }

    mutating func append(_ bytes: ArraySlice<UInt8>, beside others: Int) async throws {
        try await receiver?.append(bytes, beside: others)
    }

    mutating func end(beside others: Int) async throws {
        guard let changes, let chunks = try await receiver?.finish(beside: others) else { return }
        receiver = nil
        let stored = StoredContents(
            chunks, mode: place.item.mode, modified: changes.time, changes.names)
        try place.session.budget.hold(others + stored.heldBytes)
        contents = stored
    }

    private func save() async throws -> PageOperation.Outcome {
        guard let changes, let contents else {
            throw Failure(.malformed, "Choose a file first. Nothing was sent.")
        }
        let steps = changes.edit(place.item, after: seen.map { [$0.id] } ?? [], contents).steps
        switch try await changes.commit(steps).first {
        case .conflict: return .conflict
        case .overruled: throw PageOperation.changed
        default: return .uploaded
        }
    }
}
