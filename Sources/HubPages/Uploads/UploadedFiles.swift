import ChunkStore
import Hub
import HubProtocol
import Hummingbird
import Model
import Reconcile

/// Files that a browser sends into a folder. They are stored while they arrive; when the form has
/// arrived whole, all of them are saved, or none.
struct UploadedFiles: FormFiles {
    private let place: Place
    /// Nil before the first file, because the form's token comes before it.
    private var changes: VolumeChanges?
    private var modified: Int64 = 0
    private var current: Arrival?
    private var keys: Set<NameKey> = []
    private var files: [File] = []

    /// The file that is arriving.
    private struct Arrival {
        let name: String
        /// The document of this name, if the page could show it.
        let old: ItemState?
        /// The version of it that the page could show.
        let seen: [Identifier]
        var receiver: ContentReceiver
    }

    private struct File {
        let item: Identifier
        let steps: [VolumeChanges.Step]
    }

    private(set) var storedBytes = 0
    var heldBytes: Int { storedBytes + (current?.receiver.heldBytes ?? 0) }

    private init(into place: Place) { self.place = place }

    static func receive(into place: Place) async throws -> Response {
        try place.checkCanChange()
        guard place.item.kind == .directory else {
            throw Failure(.malformed, "Files can be put into folders only.")
        }
        var files = UploadedFiles(into: place)
        do {
            _ = try await MultipartForm(session: place.session, limit: PageLimits.formBytes)
                .read(&files)
        } catch {
            await files.current?.receiver.abandon()
            throw error
        }
        return try await files.save()
    }

    // MARK: Arriving

    mutating func begin(_ name: String, after fields: Fields, upTo size: UInt64) async throws {
        let changes = try await changes(fields)
        if let objection = Name(name).objection {
            throw Failure(.malformed, "\(objection) Nothing was saved of \(Shown.name(name)).")
        }
        let key = changes.names.key(name)
        guard keys.insert(key).inserted else {
            throw Failure(
                .malformed, "Two files have the name \(Shown.name(name)). Nothing was saved.")
        }
        guard keys.count <= PageLimits.files else {
            throw Failure(
                .tooLarge, "At most \(PageLimits.files) files are sent at once. Nothing was saved.")
        }
        let (old, seen) = try await holder(of: key, named: name, changes)
        current = Arrival(
            name: name, old: old, seen: seen,
            receiver: try await ContentReceiver(
                to: changes.volume, of: changes.hub, for: changes.caller, upTo: size,
                replacing: old?.current?.size ?? 0, place.session.budget))
    }

    private mutating func changes(_ fields: Fields) async throws -> VolumeChanges {
        if let changes { return changes }
        try place.session.call.check(fields, token: place.session.formToken)
        let new = try await place.changes(fields)
        modified = new.time
        if let text = fields["modified"], !text.isEmpty {
            guard let time = Int64(text), (0..<7_258_118_400_000).contains(time) else {
                throw Failure(.malformed, "The time of a file is not in 1970 to 2200.")
            }
            modified = time * 1_000_000
        }
        changes = new
        return new
    }

    /// The document of this name that the page could show, and the version that was current then.
    /// Nil if something got the name later: then both are kept, one of them with another name.
    private func holder(
        of key: NameKey, named name: String, _ changes: VolumeChanges
    ) async throws -> (ItemState?, [Identifier]) {
        let (volume, folder, base) = (changes.volume.id, place.item.id, changes.base)
        return try await changes.hub.ledger.read { transaction in
            guard let id = try transaction.holder(of: key, in: folder, volume: volume),
                let item = try transaction.item(id, in: volume)
            else { return (nil, []) }
            guard item.kind == .file else {
                throw Failure(
                    .malformed,
                    "\(Shown.name(name)) is the name of something else here, which a file does not "
                        + "replace. Nothing was saved.")
            }
            guard item.placedSequence <= base else { return (nil, []) }
            if let current = item.current, current.sequence <= base { return (item, [current.id]) }
            let seen = try transaction.revisions(of: id, in: volume, before: base + 1, limit: 1)
            return (item, seen.map(\.id))
        }
    }

    mutating func append(_ bytes: ArraySlice<UInt8>, beside others: Int) async throws {
        try await current?.receiver.append(bytes, beside: others + storedBytes)
    }

    mutating func end(beside others: Int) async throws {
        guard let changes, var file = current else { return }
        let chunks = try await file.receiver.finish(beside: others + storedBytes)
        current = nil
        let contents = StoredContents(
            chunks, mode: file.old?.mode, modified: modified, changes.names)
        try place.session.budget.hold(others + storedBytes + contents.heldBytes)
        storedBytes += contents.content.manifest.bytes.count + contents.content.chunks.bytes.count
        if let old = file.old {
            let steps = changes.edit(old, after: file.seen, contents).steps
            files.append(File(item: old.id, steps: steps))
        } else {
            let (step, _) = changes.document(named: file.name, in: place.item.id, contents)
            files.append(File(item: step.item, steps: [step]))
        }
    }

    // MARK: Saving

    private func save() async throws -> Response {
        guard let changes, !files.isEmpty else {
            throw Failure(.malformed, "Choose a file first. Nothing was sent.")
        }
        let verdicts = try await changes.commit(files.flatMap(\.steps))
        var (next, conflict, isBeside) = (0, Identifier?.none, false)
        for file in files {
            switch verdicts[next] {
            case .conflict: conflict = file.item
            case .bounced: isBeside = true
            case .overruled: throw PageOperation.changed
            default: break
            }
            next += file.steps.count
        }
        if let conflict, files.count == 1 {
            return PageOperation.Outcome.conflict.redirect(
                to: PagePath.address(place.volume.id, conflict))
        }
        let outcome: PageOperation.Outcome =
            conflict != nil ? .conflicts : isBeside ? .beside : .uploaded
        return outcome.redirect(to: place.address())
    }
}
