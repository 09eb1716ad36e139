import CLinux
import Glibc
import Journal
import Model
import Reconcile
import SystemCalls
import Volume

/// The planner's view of a device: its journal, within one transaction.
struct JournalTable: DeviceTable {
    typealias Failure = VolumeError

    let journal: Transaction
    let account: Account
    let clock: HubClock
    /// A descriptor of the working tree's root.
    let tree: Int32
    /// See `isHeldBack`.
    private let heldBack: Set<Identifier>
    /// The session, cached after it was first read.
    private let known = KnownSession()
    private let recent = RecentRows()
    private var images: LocalImages {
        LocalImages(journal: journal, keys: account.keys, tree: tree)
    }

    init(
        journal: Transaction, account: Account, clock: HubClock, tree: Int32,
        heldBack: Set<Identifier> = []
    ) {
        self.heldBack = heldBack
        self.journal = journal
        self.account = account
        self.clock = clock
        self.tree = tree
    }

    func session() throws(VolumeError) -> Session {
        if let session = known.session { return session }
        guard let session = try Session(journal) else {
            throw VolumeError(.damaged, "The journal has no position in the hub's journal.")
        }
        known.session = session
        return session
    }

    /// Changes the session in memory; `flush` stores it.
    func set(_ session: Session) {
        known.session = session
        known.isNew = true
    }

    /// Stores the session. It must be called at the end of the transaction; a batch changes the
    /// session once for each item.
    func flush() throws(VolumeError) {
        guard known.isNew, let session = known.session else { return }
        try session.store(journal)
        known.isNew = false
    }

    private final class KnownSession {
        var session: Session?
        var isNew = false
    }

    // MARK: The tree

    func local(_ id: Identifier) throws(VolumeError) -> Image? {
        try recent.image(id, at: journal.totalChanges) { () throws(VolumeError) in
            guard let item = try journal.hub.localItem(id) else { return nil }
            return try images.image(item)
        }
    }

    /// The image of an item that was just read.
    func local(_ id: Identifier, as item: LocalItem) throws(VolumeError) {
        _ = try recent.image(id, at: journal.totalChanges) { () throws(VolumeError) in
            try images.image(item)
        }
    }

    func key(of id: Identifier) throws(VolumeError) -> Int64? {
        id == .root ? Item.root : try journal.key(of: id)
    }

    func localChild(_ name: String, in parent: Identifier) throws(VolumeError) -> Identifier? {
        guard let key = try key(of: parent) else { return nil }
        return try journal.childID(Name(name), of: key)
    }

    func document(with revision: Identifier) throws(VolumeError) -> Identifier? {
        guard let key = try journal.item(ofVersion: revision) else { return nil }
        return try journal.id(of: key)
    }

    func hasLocalChildren(_ parent: Identifier) throws(VolumeError) -> Bool {
        guard let key = try key(of: parent) else { return false }
        return try journal.hasChildren(key)
    }

    func revision(_ id: Identifier) throws(VolumeError) -> Revision? {
        try recent.revision(id, at: journal.totalChanges) { () throws(VolumeError) in
            guard let (key, version) = try journal.version(id: id) else { return nil }
            return Revision(
                version, try access(to: version, of: key), account: account, clock: clock)
        }
    }

    private func access(to version: Version, of key: Int64) throws(VolumeError) -> SavedAccess? {
        guard let protection = version.protection else { return nil }
        let known = try journal.item(key).flatMap { AttributeList(encoded: $0.attributes)?.owner }
        return SavedAccess(protection, root: rootStatus, known: known)
    }

    /// The status of the volume's root directory.
    var rootStatus: stat {
        var status = stat()
        _ = cl_fstat(tree, &status)
        return status
    }

    func setModified(_ time: Int64, of revision: Identifier) throws(VolumeError) {
        try journal.setModified(time, of: revision)
    }

    func descends(_ id: Identifier, from ancestor: Identifier, of item: Identifier)
        throws(VolumeError) -> Bool
    {
        guard let key = try key(of: item) else { return false }
        var seen: Set<Identifier> = []
        var open = [id]
        while let next = open.popLast() {
            if next == ancestor { return true }
            guard seen.insert(next).inserted, let found = try journal.version(id: next),
                found.item == key
            else { continue }
            open += found.version.parents
        }
        return false
    }

    func reidentify(_ id: Identifier, as other: Identifier) throws(VolumeError) {
        // Operations that were sent under the old id concern this item.
        try journal.reassignOutbox(id, to: other)
        try GrantRows.reassign(id, to: other, journal)
        guard let key = try journal.key(of: id) else { return }
        guard let deleted = try journal.key(of: other) else {
            return try journal.setID(key, to: other)
        }
        guard try journal.item(deleted)?.deleted != nil else { return }
        try journal.setID(deleted, to: .random())
        try journal.setID(key, to: other)
        try journal.setID(deleted, to: id)
    }

    // MARK: The mirror, which is the last state that the hub and this device agreed on

    func mirror(_ id: Identifier) throws(VolumeError) -> Mirror? {
        try recent.mirror(id, at: journal.totalChanges) { () throws(VolumeError) in
            guard let row = try journal.hub.mirror(id) else { return nil }
            return try mirror(row)
        }
    }

    private func mirror(_ row: MirrorRow) throws(VolumeError) -> Mirror {
        let base = row.base.flatMap { Agreement(encoded: $0) }
        let remote = row.remote.flatMap { ItemState(encoded: $0)?.withSharedAttributes }
        guard (base == nil) == (row.base == nil), (remote == nil) == (row.remote == nil) else {
            throw VolumeError(.damaged, "The mirror of item \(row.id) is damaged.")
        }
        return Mirror(
            base: base, remote: remote, state: Mirror.State(rawValue: row.state.rawValue)!,
            since: row.sequence)
    }

    func setMirror(_ id: Identifier, _ mirror: Mirror?) throws(VolumeError) {
        guard let mirror else { return try journal.removeMirror(id) }
        try confirm(id, mirror)
        let changes = journal.totalChanges
        let image = mirror.imageAtHub(in: try session())
        try journal.set(
            MirrorRow(
                id: id, base: mirror.base?.encoded, remote: mirror.remote?.encoded,
                state: MirrorRow.State(rawValue: mirror.state.rawValue)!,
                sequence: mirror.since, place: image.flatMap { place($0) }))
        recent.wroteMirror(of: id, from: changes, to: journal.totalChanges)
    }

    private func place(_ image: Image) -> [UInt8]? {
        image.isAlive ? place(image.name, in: image.parent) : nil
    }

    /// A key that is equal for names that the hub regards as equal in one directory.
    private func place(_ name: String, in parent: Identifier) -> [UInt8] {
        parent.bytes + account.keys.key(name).bytes
    }

    func agreed(on name: String, in parent: Identifier) throws(VolumeError) -> [Identifier] {
        try journal.hub.mirrors(at: place(name, in: parent))
    }

    /// Fills in the places of mirrors that were stored before the journal had them.
    func notePlaces() throws(VolumeError) {
        guard try journal.value("mirror_places") == nil else { return }
        var last = Identifier.root
        while true {
            let ids = try journal.hub.mirrorIDs(after: last, limit: 1000)
            guard let end = ids.last else { break }
            for id in ids {
                guard var row = try journal.hub.mirror(id), let base = try mirror(row).base else {
                    continue
                }
                row.place = place(base.image)
                try journal.set(row)
            }
            last = end
        }
        try journal.set("mirror_places", to: "1")
    }

    /// Marks the current version as safe at the hub if the mirror shows that the hub has the same
    /// contents. If another device uploaded them, the local version takes over that device's
    /// version id, because the hub finds the bytes by it.
    func confirm(_ id: Identifier, _ mirror: Mirror) throws(VolumeError) {
        guard mirror.remote == nil, mirror.state == .settled, let base = mirror.base,
            base.image.isAlive, let known = base.image.revision,
            let item = try journal.item(id: id), item.deleted == nil, item.changed != 0,
            let current = item.current, let version = try journal.version(id: current)?.version,
            current != known || version.durability < .hub,
            current == known || account.keys.name(of: version.content) == base.image.content,
            base.volumeEpoch == (try session().volumeEpoch),
            base.generation == (try session().generation), try !journal.hub.isInOutbox(id)
        else { return }
        guard try journal.confirm(current: current, of: item.key, as: known),
            try journal.absentVersion(of: item.key) == nil
        else { return }
        try journal.addHolding(known)
    }

    func forgetRemotes() throws(VolumeError) {
        let states: [MirrorRow.State] = [.due, .underway, .stuck]
        for state in states {
            for id in try journal.hub.mirrors(state, limit: .max).map(\.id) {
                let base = try mirror(id)?.base
                try setMirror(id, base.map { Mirror(base: $0) })
            }
        }
    }

    func firstDue() throws(VolumeError) -> UInt64? {
        let states: [MirrorRow.State] = [.due, .underway, .stuck]
        var first: UInt64?
        for state in states {
            if let found = try journal.hub.firstMirror(state) { first = min(first ?? .max, found) }
        }
        return first
    }

    func notShown(limit: Int) throws(VolumeError) -> [Identifier] {
        var found: [HubTables.Position] = []
        for state in [MirrorRow.State.due, .underway, .stuck] {
            found += try journal.hub.mirrors(state, limit: limit)
        }
        return found.sorted { $0.sequence < $1.sequence }.prefix(limit).map(\.id)
    }

    // MARK: Unsent changes and the outbox

    func isUnsent(_ id: Identifier) throws(VolumeError) -> Bool {
        guard let key = try journal.key(of: id) else { return false }
        return try journal.hub.isUnsent(key)
    }

    func addUnsent(_ id: Identifier, changed times: ChangeTimes) throws(VolumeError) {
        guard let key = try journal.key(of: id) else { return }
        try journal.addUnsent(key)
        let times = times.shifted(by: -clock.offset)
        try UnsentTimes.note(placed: times.placed, attributed: times.attributes, of: key, journal)
    }

    func removeUnsent(_ id: Identifier) throws(VolumeError) {
        if let key = try journal.key(of: id) { try journal.removeUnsent(key) }
    }

    func changeTimes(_ id: Identifier) throws(VolumeError) -> ChangeTimes {
        guard let key = try journal.key(of: id) else { return ChangeTimes() }
        let times = try journal.hub.unsentTimes(key)
        return ChangeTimes(placed: times.placed, attributes: times.attributed)
            .shifted(by: clock.offset)
    }

    func unsentAlive(limit: Int) throws(VolumeError) -> [Identifier] {
        var found: [Identifier] = []
        for key in try journal.hub.unsent(after: 0, limit: limit) {
            guard let item = try journal.hub.localItem(key: key), item.isAlive,
                item.name.portable != nil, let id = try journal.id(of: key)
            else { continue }
            found.append(id)
        }
        return found
    }

    func isInOutbox(_ id: Identifier) throws(VolumeError) -> Bool { try journal.hub.isInOutbox(id) }

    func isSendingContents(_ id: Identifier) throws(VolumeError) -> Bool {
        try journal.hub.outbox(of: id).contains { Operation(encoded: $0)?.change.revision != nil }
    }

    func isHeldBack(_ conflict: Identifier) -> Bool { heldBack.contains(conflict) }

    func isCreating() throws(VolumeError) -> Bool {
        for row in try journal.hub.outbox(limit: .max) {
            if case .create = Operation(encoded: row.operation)?.change { return true }
        }
        return false
    }

    func append(_ operation: Operation) throws(VolumeError) {
        try journal.append(
            OutboxRow(
                number: operation.id.number, item: operation.item, operation: operation.encoded))
        if operation.change.revision != nil {
            try GrantRows.fence(operation.id.number, of: operation.item, journal)
        }
    }

    func emptyOutbox() throws(VolumeError) {
        if PlantedFault.keepsOutbox.isPlanted { return }
        for row in try journal.hub.outbox(limit: .max) {
            guard let operation = Operation(encoded: row.operation) else { continue }
            try addUnsent(row.item, changed: ChangeTimes(of: operation))
        }
        try journal.emptyOutbox()
    }

    /// Removes confirmed operations. Their versions are marked as safe at the hub, unless the hub
    /// refused them; then they are not in the mirror.
    func removeOutbox(upTo number: UInt64) throws(VolumeError) {
        guard number > 0 else { return }
        for row in try journal.hub.outbox(limit: .max) where row.number <= number {
            guard let operation = Operation(encoded: row.operation),
                let revision = operation.change.revision,
                try journal.version(id: revision.id) != nil,
                try isAgreed(revision.id, of: row.item)
            else { continue }
            try journal.setDurability([revision.id], to: .hub)
            // The holding is reported again, because the hub's answer shows whether it really has
            // the version.
            try journal.addHolding(revision.id)
        }
        try journal.removeOutbox(upTo: number)
        try GrantRows.removeFences(upTo: number, journal)
    }

    private func isAgreed(_ revision: Identifier, of item: Identifier) throws(VolumeError) -> Bool {
        guard let image = try mirror(item)?.base?.image else { return false }
        if image.conflicts.contains(revision) { return true }
        guard let current = image.revision else { return false }
        return try descends(current, from: revision, of: item)
    }

    // MARK: Names and times for the planner

    func placement(_ name: String, in parent: Identifier) -> Placement {
        account.keys.placement(
            name, in: parent, device: account.deviceName, moment: cl_clock_realtime_ns())
    }

    func now() -> Int64 { clock.now }
}

extension ItemKind {
    /// Nil for kinds that never leave this device.
    init?(_ kind: Item.Kind) {
        switch kind {
        case .file: self = .file
        case .directory: self = .directory
        case .package: self = .package
        case .symlink: self = .symlink
        case .special: return nil
        }
    }
}

extension Item.Kind {
    init(_ kind: ItemKind) {
        self =
            switch kind {
            case .file: .file
            case .directory: .directory
            case .package: .package
            case .symlink: .symlink
            }
    }
}

extension Name {
    /// The name as text if each machine can represent it; nil otherwise (decision table, row 19).
    var portable: String? {
        guard let text = String(validating: bytes, as: UTF8.self), !text.isEmpty,
            text != ".", text != ".."
        else { return nil }
        return text
    }
}

extension Revision {
    init(_ version: Version, _ access: SavedAccess?, account: Account, clock: HubClock) {
        let isMine = version.device == account.device
        let saved = Timestamp(nanoseconds: version.saved) + (isMine ? clock.offset : 0)
        // A conflict version must not become current because of its time, which may come from
        // another clock. With the time 0, the hub dates it directly after its parents.
        let hasLost = version.kind == .conflict
        self.init(
            id: version.id, parents: version.parents,
            content: account.keys.name(of: version.content), size: version.size,
            moment: Moment(time: hasLost ? 0 : saved.nanoseconds, device: version.device),
            note: Note(
                deviceName: version.deviceName, person: version.person,
                program: SavedAccess.joined(
                    Signature.text(program: version.program, version.session), access),
                name: version.name.text, modified: version.modified, saved: version.saved))
    }
}

extension Version {
    /// The number is assigned when the version is recorded. `content` is the digest of the
    /// uncompressed contents, which the manifest has and the revision does not.
    init(_ revision: Revision, content: Digest, kind: Kind = .current) {
        let (program, session) = Signature.parse(
            SavedAccess.split(revision.note.program).signature)
        self.init(
            id: revision.id, number: 1, parents: revision.parents, kind: kind,
            device: revision.moment.device, deviceName: revision.note.deviceName,
            person: revision.note.person, program: program, session: session,
            name: Name(revision.note.name), size: revision.size,
            modified: revision.note.modified, saved: revision.note.saved, content: content,
            durability: .hub)
    }
}

func bigEndian(_ value: Int64) -> [UInt8] {
    withUnsafeBytes(of: value.bigEndian) { Array($0) }
}

func integer(bigEndian bytes: [UInt8]) -> Int64? {
    guard bytes.count == 8 else { return nil }
    return Int64(bitPattern: bytes.reduce(UInt64(0)) { $0 << 8 | UInt64($1) })
}

/// Returns nil if the file does not exist, is not a symbolic link, or its target is not UTF-8.
func readTarget(of name: Name, in directory: [Name], tree: Int32) -> String? {
    guard let parent = try? openBeneath(directory, from: tree, flags: O_PATH | O_DIRECTORY) else {
        return nil
    }
    var bytes = [UInt8](repeating: 0, count: 4096)
    let count = name.withCString { name in
        bytes.withUnsafeMutableBytes { buffer in
            readlinkat(
                parent.raw, name, buffer.baseAddress!.assumingMemoryBound(to: CChar.self),
                buffer.count)
        }
    }
    guard count > 0 else { return nil }
    return String(validating: bytes[..<count], as: UTF8.self)
}
