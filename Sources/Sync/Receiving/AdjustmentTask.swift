import CLinux
import Journal
import Model
import Reconcile
import Volume

/// What must be done so that an item is in the tree as it is at the hub, and how the item is in the
/// tree now.
struct AdjustmentTask: Sendable {
    var adjustment: Adjustment
    /// The local item; nil if there is none.
    var item: Item?
    var path: [Name]
    var directory: UInt64
    /// The item's new path.
    var targetPath: [Name]
    var targetDirectory: UInt64
    /// The item that has the new name now, if the two must be swapped.
    var holder: Item?
    var isAbsent = false
    var isPinned = false

    /// The weak package whose changes must become visible together with this one.
    var weakPackage: [Name]? { Volume.weakPackage(of: targetPath) }

    var needsContents: Bool { adjustment.replaces && adjustment.remote.current != nil }
}

/// What has become of an adjustment.
enum AdjustmentOutcome: Equatable {
    case done
    /// A local change was faster or prevents it. The item is examined again later.
    case later
    /// The same as `later`, with a sentence for the status.
    case waits(String)
    case stuck(String)

    /// The sentence for the status; nil if there is none.
    var reason: String? {
        switch self {
        case .done, .later: nil
        case .waits(let reason), .stuck(let reason): reason
        }
    }

    var isStuck: Bool { if case .stuck = self { true } else { false } }
}

extension AdjustmentTask {
    init(_ adjustment: Adjustment, _ table: JournalTable) throws(VolumeError) {
        let journal = table.journal
        let state = adjustment.remote
        let key = try table.key(of: state.placement.parent) ?? 0
        let directory = try journal.item(key)
        self.init(
            adjustment: adjustment, path: [], directory: 0,
            targetPath: (try journal.path(of: key) ?? []) + [Name(state.name)],
            targetDirectory: directory?.inode ?? 0)
        if let key = try journal.key(of: adjustment.item), let item = try journal.item(key),
            item.deleted == nil
        {
            self.item = item
            path = try journal.path(of: key) ?? []
            self.directory = try journal.item(item.parent)?.inode ?? 0
            isAbsent = try journal.absentVersion(of: key) != nil
            isPinned = try journal.isPinned(key)
        }
        if item == nil { isPinned = try journal.isPinned(key) }
        if SettingsFile.isOne(targetPath) { isPinned = true }
        if let id = adjustment.holder, let key = try journal.key(of: id) {
            holder = try journal.item(key)
        }
    }

    /// Makes the changes that concern only the journal, in the transaction that marks the item as
    /// done.
    func finish(_ table: inout JournalTable) throws(VolumeError) {
        let journal = table.journal
        for case .attributes(let changes) in adjustment.steps where !adjustment.replaces {
            guard let key = try journal.key(of: adjustment.item), var item = try journal.item(key)
            else { continue }
            let list = AttributeList(encoded: item.attributes) ?? AttributeList()
            item.attributes = list.agreed(changes).encoded
            try journal.update(item)
        }
        for case .conflicts(let added, let settled) in adjustment.steps {
            var ended: [Identifier] = []
            for id in settled where try journal.version(id: id)?.version.kind == .conflict {
                ended.append(id)
            }
            guard let key = try journal.key(of: adjustment.item) else { continue }
            let now = try journal.item(key)?.current
            try journal.settle(
                ended, of: key, before: item?.current, after: now == item?.current ? nil : now,
                at: cl_clock_realtime_ns())
            try table.note(conflicts: added, of: adjustment.item)
        }
    }
}

extension JournalTable {
    mutating func note(conflicts: [Revision], of id: Identifier) throws(VolumeError) {
        guard let key = try journal.key(of: id) else { return }
        for revision in conflicts {
            try journal.free(version: revision.id, for: key)
            if try journal.version(id: revision.id) == nil {
                try insert(revision, of: key, kind: .conflict)
            }
            try journal.setKind(revision.id, .conflict)
        }
    }

    mutating func makeHistory(_ revision: Identifier, of id: Identifier) throws(VolumeError) {
        guard try journal.version(id: revision)?.version.kind == .conflict else { return }
        try journal.setKind(revision, .history)
    }

    /// Inserts a version whose contents are only at the hub so far.
    func insert(_ revision: Revision, of key: Int64, kind: Version.Kind) throws(VolumeError) {
        guard var item = try journal.item(key) else { return }
        let content = Digest.keyed(revision.content)
        var version = Version(revision, content: content, kind: kind)
        item.latest += 1
        version.number = item.latest
        let document = try item.current.flatMap { (id) throws(VolumeError) in
            try journal.version(id: id)?.version.protection
        }
        version.protection = Protection(
            SavedAccess.split(revision.note.program).access, document: document, root: rootStatus)
        try journal.insert(version, of: key, manifest: [])
        try journal.update(item)
    }
}

extension Digest {
    /// Returns the keyed form of a content's id, in which the journal stores the hub's ids.
    static func keyed(_ content: Digest) -> Digest {
        content.bytes.withUnsafeBytes {
            Digest(.keyed, hash: UnsafeRawBufferPointer(rebasing: $0[1...]))
        }
    }
}
