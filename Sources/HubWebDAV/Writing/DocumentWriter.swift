import HTTPTypes
import Hub
import HubProtocol
import Hummingbird
import Model
import Reconcile

/// Answers PUT and MKCOL.
struct DocumentWriter {
    private let place: Place
    private var session: Session { place.session }

    init(_ place: Place) { self.place = place }

    // MARK: PUT

    func put() async throws -> Response {
        let (volume, parent) = try place.writable()
        let old: ItemState?
        switch place.target {
        case .item(let item) where item.kind == .file: old = item
        case .absent: old = nil
        default: throw Refusal(405, "A folder cannot be replaced by a document.")
        }
        let encoding = session.request.headers[.contentEncoding]?.lowercased() ?? "identity"
        guard encoding == "identity" else {
            throw Refusal(415, "A document is sent as it is, without Content-Encoding.")
        }
        let changes = try await VolumeChanges(volume, session)
        try Conditions(session.request).check(exists: old != nil, tag: old?.tag)
        let locks = try await Locks(volume, session)
        try await locks.checkHeader(place)
        if old != nil {
            try locks.checkChange(of: place)
        } else {
            try locks.checkAddition(of: place)
        }
        let modified = try modifiedTime() ?? changes.time
        let contents = StoredContents(
            try await receive(replacing: old, changes), mode: old?.mode, modified: modified,
            changes.names)
        var answer: Response
        if let old {
            answer = try await replace(old, after: locks.base(of: old), by: contents, changes)
        } else {
            let (item, revision) = try await create(in: parent, contents, changes)
            answer = try await saved(item, revision, 201, changes)
        }
        if session.request.headers[.modifiedTime] != nil {
            answer.headers[.modifiedTime] = "accepted"
        }
        return answer
    }

    /// The time that ownCloud's clients and rclone give a document, in seconds.
    private func modifiedTime() throws(Failure) -> Int64? {
        guard let text = session.request.headers[.modifiedTime] else { return nil }
        guard let seconds = Double(text), (0..<7_258_118_400).contains(seconds) else {
            throw Failure(.malformed, "\(HTTPField.Name.modifiedTime) is a time from 1970 to 2200.")
        }
        return Timestamp.span(seconds: Int64(seconds))
    }

    /// Receives the body.
    ///
    /// - Throws: A refusal with the status 411 if the client does not say how long the body is:
    ///   how a document is cut depends on its length. `.quota`, `.busy`, `.tooLarge`, `.malformed`.
    private func receive(
        replacing old: ItemState?, _ changes: VolumeChanges
    ) async throws -> [ChunkReference] {
        guard session.request.headers[.contentRange] == nil else {
            throw Failure(.malformed, "A part of a document cannot be sent (Content-Range).")
        }
        guard let size = session.length else {
            throw Refusal(411, "The header Content-Length must say how long the document is.")
        }
        var receiver = try await ContentReceiver(
            to: changes.volume, of: session.hub, for: session.caller, upTo: size,
            replacing: old?.current?.size ?? 0, session.budget)
        do {
            try await session.request.forEachBodyPart { part in
                try await receiver.append(part.readableBytesView)
            }
            guard receiver.count == size else { throw ContentReceiver.wrongLength }
        } catch {
            await receiver.abandon()
            throw error
        }
        return try await receiver.finish()
    }

    /// Saves a version that follows the one that the program has seen, or the one that was current
    /// when the request began. If a device has saved another one meanwhile, both are kept, in
    /// conflict.
    private func replace(
        _ old: ItemState, after base: Identifier?, by contents: StoredContents,
        _ changes: VolumeChanges
    ) async throws -> Response {
        let (steps, revision) = changes.edit(old, after: base.map { [$0] } ?? [], contents)
        try await changes.commit(steps)
        try await Locks.note(revision.id, of: old.id, place)
        return try await saved(old.id, revision, 204, changes)
    }

    private func create(
        in parent: ItemState, _ contents: StoredContents, _ changes: VolumeChanges
    ) async throws -> (Identifier, Revision) {
        let (step, creation) = changes.document(
            named: place.address.name, in: parent.id, contents)
        guard let revision = creation.revision else { throw Place.nothing }
        switch try await changes.commit(step) {
        case .bounced:
            throw Refusal(
                409,
                "Another document got this name meanwhile. What you sent is kept beside it, as "
                    + "\(creation.placement.spare).")
        case .unified(let other): return (other, revision)
        default: return (step.item, revision)
        }
    }

    /// Creates an empty document, because a program locks a name before it writes the document.
    func createEmpty(
        in parent: ItemState, _ changes: VolumeChanges
    ) async throws -> ItemState {
        let empty = StoredContents([], modified: changes.time, changes.names)
        let (id, _) = try await create(in: parent, empty, changes)
        let volume = changes.volume.id
        let item = try await session.hub.ledger.read { try $0.item(id, in: volume) }
        guard let item else { throw Place.nothing }
        return item
    }

    /// The answer has a validator only if what was sent is current now.
    private func saved(
        _ item: Identifier, _ revision: Revision, _ status: Int, _ changes: VolumeChanges
    ) async throws -> Response {
        let volume = changes.volume.id
        let now = try await session.hub.ledger.read { try $0.item(item, in: volume) }
        guard let current = now?.current, current.isNamed(revision.id) else {
            return Reply.empty(status)
        }
        return Reply.empty(status, [.eTag: "\"\(current.id)\""])
    }

    // MARK: MKCOL

    func makeFolder() async throws -> Response {
        try await session.checkHasNoBody()
        switch place.target {
        case .item, .top: throw Refusal(405, "There is something of this name already.")
        default: break
        }
        let (volume, parent) = try place.writable()
        let changes = try await VolumeChanges(volume, session)
        let locks = try await Locks(volume, session)
        try await locks.checkHeader(place)
        try locks.checkAddition(of: place)
        switch try await changes.commit(changes.folder(named: place.address.name, in: parent.id)) {
        case .unified, .bounced:
            throw Refusal(405, "Something else got this name meanwhile.")
        default: return Reply.empty(201)
        }
    }
}

extension Place {
    /// The volume, and the directory in which the target is or could be.
    ///
    /// - Throws: Why nothing can be written here, whatever the account may do.
    func writable() throws -> (VolumeRow, ItemState) {
        switch target {
        case .top:
            throw Refusal(403, "Volumes are not made, moved or removed by WebDAV.")
        case .part: throw Place.inPackage
        case .hidden:
            throw Refusal(403, "A symbolic link has this name, which WebDAV does not show.")
        case .unreachable:
            if folders.isEmpty { throw Place.nothing }
            throw Refusal(409, "The folder in which this should be does not exist.")
        case .item, .absent: break
        }
        guard let volume = access?.volume, let parent = folders.last else {
            throw Refusal(403, "Volumes are not made, moved or removed by WebDAV.")
        }
        return (volume, parent)
    }

    static let inPackage = Refusal(
        403, "This is a part of a package, which WebDAV does not change. Move or replace all of it."
    )
}
