import Hub
import HubProtocol
import Hummingbird
import Model
import Reconcile

/// Answers DELETE. What is deleted goes to the trash, as when a device deletes it.
struct Removal {
    private let place: Place

    init(_ place: Place) { self.place = place }

    func answer() async throws -> Response {
        let item = try place.existingItem()
        if item.isCollection, try place.session.depth() != .infinity {
            throw Failure(.malformed, "A folder is deleted with all that is in it (Depth).")
        }
        let (volume, _) = try place.writable()
        let changes = try await VolumeChanges(volume, place.session)
        try Conditions(place.session.request).check(exists: true, tag: item.tag)
        let locks = try await Locks(volume, place.session)
        try await locks.checkHeader(place)
        try await locks.checkRemoval(of: place)
        let ended = try await locks.all(of: item)
        try await changes.delete(item)
        try await locks.end(ended)
        return Reply.empty(204)
    }
}

extension Place {
    /// The item that a request changes.
    ///
    /// - Throws: `.notFound`; why it cannot be changed.
    func existingItem() throws -> ItemState {
        switch target {
        case .item(let item):
            _ = try writable()
            return item
        case .top, .part:
            _ = try writable()
            throw Place.nothing
        case .hidden, .absent, .unreachable: throw Place.nothing
        }
    }
}

extension VolumeChanges {
    /// - Throws: `.forbidden` if the account may not change the volume.
    init(_ volume: VolumeRow, _ session: Session) async throws {
        try await self.init(volume, of: session.hub, for: session.caller, program: "WebDAV")
    }

    /// - Throws: A refusal with the status 409 if a device has changed something meanwhile, which
    ///   therefore stays.
    func delete(_ item: ItemState) async throws {
        let verdict = try await commit(Step(item.id, .delete(current: item.current?.id)))
        switch verdict {
        case .overruled(.alreadyGone), .overruled(.unknownItem): throw Place.nothing
        case .overruled:
            throw Refusal(
                409,
                "A device has changed \(item.name) meanwhile, so what has changed is kept. Look at "
                    + "it, and delete it again.")
        default: return
        }
    }
}
