import Hub
import HubProtocol
import Model
import Reconcile

/// An item of the account, with the folders above it.
struct Place: Sendable {
    let session: Session
    let volume: VolumeRow
    let item: ItemState
    /// The folders from below the volume's root down to the item's folder.
    let folders: [Folder]
    /// The position in the journal that the page shows.
    let head: UInt64
    let role: Role
    /// Whether the volume has members besides its owner.
    let isShared: Bool

    /// The most folders above an item that a page shows.
    static let depth = 200

    /// - Throws: `.notFound`, also if another item has taken the item's place.
    init(_ id: Identifier, in volume: VolumeRow, _ session: Session) async throws {
        self.session = session
        let account = session.caller
        (self.volume, item, folders, role, isShared) = try await session.hub.ledger.read {
            transaction in
            let now = try transaction.membership.volume(volume.id, of: account, for: .page)
            guard let item = try Place.item(id, in: volume.id, transaction) else {
                throw Failure(
                    .notFound, "There is nothing of this id in \(Shown.name(volume.name)).")
            }
            var (folders, seen, next) = ([Folder](), Set([id]), item.placement.parent)
            while next != .root, folders.count < Place.depth, seen.insert(next).inserted,
                let folder = try Place.item(next, in: volume.id, transaction)
            {
                folders.append(Folder(id: folder.id, name: folder.name))
                next = folder.placement.parent
            }
            return (
                now, item, folders.reversed(),
                try transaction.membership.role(of: account.account, in: now.id) ?? .reader,
                try transaction.membership.memberCount(of: now.id) > 1
            )
        }
        head = self.volume.head
    }

    static func item(
        _ id: Identifier, in volume: Identifier, _ transaction: any LedgerTransaction
    ) throws -> ItemState? {
        if id == .root { return .volumeRoot }
        let id = try transaction.alias(of: id, in: volume) ?? id
        return try transaction.item(id, in: volume)
    }

    /// The contents of a file of this document.
    func content(_ entry: Manifest.Entry) throws(Failure) -> Content {
        try Content(entry, in: volume, of: session.hub, for: session.caller, session.budget)
    }

    /// Whether the pages have forms that change the volume.
    var hasForms: Bool { role.allows(.pageForm) && session.visit?.edits ?? true }

    var isRoot: Bool { item.id == .root }

    var name: String { Shown.name(isRoot ? volume.name : item.name) }

    func address(_ view: PagePath.View = .page) -> String {
        session.visit?.address(view) ?? PagePath.address(volume.id, item.id, view)
    }

    /// The way from the volume to the item: links to all but the item itself. A visitor of a link
    /// is not told where the item is.
    var path: [Step] {
        if session.visit != nil { return [] }
        let above = folders.map {
            Step(address: PagePath.address(volume.id, $0.id), name: Shown.name($0.name))
        }
        let root = Step(address: PagePath.address(volume.id), name: Shown.name(volume.name))
        return isRoot ? [] : [root] + above
    }

    /// The versions of a document that none has superseded, the current one first.
    var live: [Revision] { (item.current.map { [$0] } ?? []) + item.conflicts }

    /// The state of the volume that the page shows. A form sends it back.
    var position: String { session.visit == nil ? "\(volume.epoch)-\(head)" : "" }

    /// The hub's time in nanoseconds since 1970.
    var now: Int64 { session.hub.clock() }

    struct Folder {
        let id: Identifier
        let name: String
    }

    struct Step {
        let address: String
        let name: String
    }
}
