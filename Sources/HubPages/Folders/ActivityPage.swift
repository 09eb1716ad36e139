import Hub
import HubProtocol
import Hummingbird
import Model
import Reconcile

/// What has changed last in a volume, as far as the hub knows: the last change of each item.
struct ActivityPage {
    private let place: Place

    init(_ place: Place) { self.place = place }

    private struct View {
        let frame: Frame
        let path: [Place.Step]
        let name: String
        let folder: String
        let events: String
        let rows: [Row]
        let isEmpty: Bool
    }

    private struct Row {
        let address: String
        let item: String
        let kind: String
        let kindText: String
        let what: String
        let by: String?
        let time: ShownTime?
    }

    func answer() async throws -> Response {
        guard place.isRoot else {
            throw Failure(.notFound, "Only a whole volume has a list of changes.")
        }
        let volume = place.volume.id
        let (items, devices) = try await place.session.hub.ledger.read { transaction in
            (
                try transaction.changedLast(in: volume, limit: PageLimits.changes),
                try transaction.membership.deviceNames(in: volume)
            )
        }
        let names = devices.mapValues { device in
            place.isShared ? "\(device.user), \(device.name)" : device.name
        }
        let root = Place.Step(address: place.address(), name: place.name)
        let view = View(
            frame: Frame(title: "Changes in \(place.name)", place.session), path: [root],
            name: place.name, folder: place.address(), events: place.address(.events),
            rows: items.map { row($0, names) }, isEmpty: items.isEmpty)
        return Answer.page("activity", view)
    }

    private func row(_ item: ItemState, _ devices: [Identifier: String]) -> Row {
        let kind = ShownKind(item)
        let change = LastChange(item)
        return Row(
            address: PagePath.address(place.volume.id, item.id), item: Shown.name(item.name),
            kind: kind.rawValue, kindText: kind.text, what: change.what,
            by: change.device.flatMap { devices[$0] }.map { Shown.name($0) },
            time: change.time.map { ShownTime($0) })
    }
}

/// The last change of an item: the register that has its position in the journal.
struct LastChange: Sendable {
    let what: String
    let device: Identifier?
    /// Nil if the hub does not know when it was.
    let time: Int64?

    init(_ item: ItemState) {
        let versions = (item.current.map { [$0] } ?? []) + item.conflicts
        let attribute = item.attributes.values.first { $0.sequence == item.sequence }
        if case .trashed(let batch, _) = item.life {
            (what, device, time) = ("deleted", batch.device, nil)
        } else if let new = versions.first(where: { $0.sequence == item.sequence }) {
            what =
                !item.conflicts.isEmpty
                ? "in conflict" : item.placedSequence == item.sequence ? "created" : "saved"
            (device, time) = (new.recordedBy?.device, new.note.saved)
        } else if item.placedSequence == item.sequence {
            what = item.current == nil ? "created or moved" : "moved, renamed or undeleted"
            (device, time) = (item.placedBy.device, item.placedAt.time)
        } else if let attribute {
            what = "attributes changed"
            (device, time) = (attribute.moment.device, attribute.moment.time)
        } else {
            (what, device, time) = ("changed", nil, nil)
        }
    }
}

extension LedgerTransaction {
    /// The items whose last change is the newest, the newest first.
    fileprivate func changedLast(in volume: Identifier, limit: Int) throws -> [ItemState] {
        try rows(
            """
            SELECT id, state, sequence FROM items WHERE volume = $1
            ORDER BY sequence DESC, id DESC LIMIT $2
            """, [.id(volume), .integer(Int64(limit))]
        ).map { try state($0.bytes(1), $0.id(0), sequence: $0.count(2)) }
            .filter { $0.id != .root }
    }
}
