import Hub
import HubProtocol
import Model
import Reconcile

/// What an address stands for at the beginning of a request.
struct Place: Sendable {
    enum Target: Sendable {
        /// The list of volumes.
        case top
        case item(ItemState)
        /// A file or directory within a package.
        case part(Manifest.Entry, of: ItemState)
        /// Something that WebDAV does not show: a symbolic link, also within a package.
        case hidden(ItemState)
        /// Nothing, but there could be.
        case absent
        /// Nothing, and what is above it is not a directory or does not exist.
        case unreachable
    }

    let session: Session
    let address: Address
    let target: Target
    /// The volume as it was then; nil for the list of volumes.
    let access: VolumeAccess?
    /// The directories above the target that exist, the volume's root first.
    let folders: [ItemState]

    /// - Throws: `.notFound` if the account may use no such volume.
    init(_ address: Address, _ session: Session) async throws {
        self.session = session
        self.address = address
        guard let label = address.parts.first else {
            (target, access, folders) = (.top, nil, [])
            return
        }
        let account = session.caller.account
        (access, target, folders) = try await session.hub.ledger.read { transaction in
            let labels = VolumeLabels(try transaction.membership.accessible(to: account))
            guard let access = labels[label] else {
                throw Failure(.notFound, "There is no volume \(label) that you may use.")
            }
            _ = try transaction.membership.volume(
                access.volume.id, of: session.caller, for: .page)
            let (target, folders) = try Place.walk(
                Array(address.parts.dropFirst()), in: access.volume, session.budget, transaction)
            return (access, target, folders)
        }
    }

    private static func walk(
        _ names: [String], in volume: VolumeRow, _ budget: BodyBudget,
        _ transaction: any LedgerTransaction
    ) throws -> (Target, [ItemState]) {
        let keys = VolumeNames(volume: volume)
        var (item, folders) = (ItemState.volumeRoot, [ItemState]())
        for (index, name) in names.enumerated() {
            switch item.kind {
            case .file: return (.unreachable, folders)
            case .symlink: return (.unreachable, folders)
            case .package:
                let path = Array(names[index...].joined(separator: "/").utf8)
                return (try part(path, of: item, in: volume, budget, transaction), folders)
            case .directory: break
            }
            folders.append(item)
            guard
                let id = try transaction.holder(
                    of: keys.key(name), in: item.id, volume: volume.id),
                let next = try transaction.item(id, in: volume.id)
            else {
                return (index == names.count - 1 ? .absent : .unreachable, folders)
            }
            item = next
        }
        return (item.kind == .symlink ? .hidden(item) : .item(item), folders)
    }

    private static func part(
        _ path: [UInt8], of package: ItemState, in volume: VolumeRow, _ budget: BodyBudget,
        _ transaction: any LedgerTransaction
    ) throws -> Target {
        guard let current = package.current,
            let entry = try Content.entries(
                of: current.id, in: volume.id, transaction, holding: budget,
                where: { $1.path == path }
            ).first
        else { return .unreachable }
        return entry.kind == .symlink ? .hidden(package) : .part(entry, of: package)
    }

    /// - Throws: `.notFound`.
    func existing() throws(Failure) -> Target {
        switch target {
        case .top, .item, .part: return target
        case .hidden, .absent, .unreachable: throw Place.nothing
        }
    }

    static let nothing = Failure(.notFound, "There is nothing of this name here.")
}

extension ItemState {
    /// Nanoseconds since 1970; nil if it is unknown.
    var modified: Int64? {
        guard id != .root else { return nil }
        if let bytes = attributes["modified"]?.value, bytes.count == 8 {
            return Int64(bitPattern: bytes.reduce(0) { $0 << 8 | UInt64($1) })
        }
        return current?.note.modified ?? placedAt.time
    }

    /// The strong validator of the document's contents.
    var tag: String? { current.map { "\"\($0.id)\"" } }

    var isCollection: Bool { kind == .directory || kind == .package }
}

/// The names that volumes have in addresses: its name for a volume of the account itself,
/// `OWNER@NAME` for one of another account. If two have the same, the second one has its id.
struct VolumeLabels: Sendable {
    private(set) var all: [(label: String, access: VolumeAccess)] = []

    init(_ accesses: [VolumeAccess]) {
        var taken: Set<String> = []
        for access in accesses {
            var label = access.volume.name
            if let owner = access.owner { label = "\(owner)@\(label)" }
            if label == "." || label == ".." || !taken.insert(label).inserted {
                label = access.volume.id.description
            }
            all.append((label, access))
        }
    }

    subscript(label: String) -> VolumeAccess? { all.first { $0.label == label }?.access }
}
