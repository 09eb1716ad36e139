import Journal
import Model
import Reconcile
import Volume

// What is to be sent about the items of the journal.
extension JournalTable {
    /// Returns nil if there is nothing to send, or not yet.
    mutating func draft(
        _ key: Int64, _ planner: SyncPlanner, _ volume: Volume, _ brake: DeletionBrake? = nil
    ) throws(VolumeError) -> KeyedDraft? {
        guard let item = try journal.hub.localItem(key: key) else {
            try journal.removeUnsent(key)
            return nil
        }
        // If other machines cannot represent the item's name, the hub keeps the previous state
        // until the item is renamed.
        guard let id = try journal.id(of: key) else { return nil }
        if item.isAlive, item.name.portable == nil {
            try journal.removeUnsent(key)
            try markUnportable(id, item.kind)
            return nil
        }
        if try mirror(id)?.state == .refused { try unmarkUnportable(id, isAlive: item.isAlive) }
        try local(id, as: item)
        // What the ignore file names stays on this device with its contents, if it was never sent.
        // It becomes unsent again when the file changes (`Transaction.markUnknownUnsent`).
        if item.isAlive, try mirror(id) == nil, let path = try journal.path(of: key),
            volume.ignoreFile.isLocal(
                path, isDirectory: item.kind == .directory || item.kind == .package)
        {
            try journal.removeUnsent(key)
            return nil
        }
        // The document's first save has not been recorded yet.
        if item.isAlive, item.kind == .file || item.kind == .package, item.current == nil,
            item.changed == 0 || item.size > 0
        {
            return nil
        }
        let draft = try planner.comparison.draft(id, in: &self)
        if draft.isAnotherKind {
            // A different kind means a different item: the old id is regarded as deleted.
            if let base = try mirror(id)?.base?.image {
                try volume.arrivals.part(
                    key, from: .init(base.kind), named: Name(base.name), journal)
            }
            return nil
        }
        // A version has the permissions that the document had while it was current. Those that were
        // given to contents which are not recorded yet are sent with these.
        if item.changed == 0 || volume.recorder.isPending(key),
            try journal.opensCurrent(of: item, draft)
        {
            return nil
        }
        guard !draft.changes.isEmpty else {
            // The contents were agreed on with the hub before they were recorded here.
            if let mirror = try mirror(id) { try confirm(id, mirror) }
            return nil
        }
        let names = try journal.path(of: key) ?? []
        var keyed = KeyedDraft(
            key: key, draft: draft, path: names.shown)
        keyed.weakPackage = Volume.weakPackage(of: names)
        if let brake, draft.isDeletion, let deleted = try journal.item(key)?.deleted,
            let saved = try journal.versions(of: key).map(\.saved).max()
        {
            keyed.isLongStanding = brake.isLongStanding(saved: saved, deleted: deleted)
        }
        if let base = try mirror(id)?.base?.image, base.isAlive, draft.leavesName {
            keyed.vacates = .init(parent: base.parent, name: base.name)
        }
        if let placement = draft.placement {
            keyed.takes = .init(parent: placement.parent, name: placement.name)
        }
        return keyed
    }

    /// Puts into the outbox what can be sent now, in an order that the hub accepts.
    mutating func enqueue(
        _ drafts: [KeyedDraft], _ planner: SyncPlanner, _ volume: Volume
    ) throws(VolumeError) -> [KeyedDraft] {
        var open = drafts
        var done: [KeyedDraft] = []
        // In `open`, a directory may come after its contents, and an item that frees a name after
        // the item that takes it.
        var waits = true
        while !open.isEmpty {
            var rest: [KeyedDraft] = []
            var leaving = Dictionary(
                open.compactMap { keyed in
                    waits ? keyed.vacates.map { ($0, keyed.key) } : nil
                }, uniquingKeysWith: { $1 })
            let taken = Set(open.compactMap(\.takes))
            var isBusy = false
            for keyed in open {
                if let name = keyed.takes, let key = leaving[name], key != keyed.key {
                    rest.append(keyed)
                    continue
                }
                defer { if let name = keyed.vacates { leaving[name] = nil } }
                if try enqueue(keyed, planner) {
                    isBusy = true
                    // The item may have got only a temporary name, and needs another operation.
                    if keyed.takes != nil, try journal.hub.isUnsent(keyed.key),
                        let again = try draft(keyed.key, planner, volume)
                    {
                        rest.append(again)
                    } else {
                        done.append(keyed)
                    }
                } else if keyed.draft.waitsFor != nil
                    || keyed.takes.map({ $0 != keyed.vacates }) ?? false
                    || keyed.vacates.map(taken.contains) ?? false
                {
                    rest.append(keyed)
                }
            }
            // Items that wait for each other in a cycle are left to `SyncPlanner`, which breaks the
            // cycle with a temporary name.
            if !isBusy, rest.count == open.count {
                guard waits else { break }
                waits = false
            }
            open = rest
        }
        return done
    }

    /// Returns whether the items have not changed since they were drafted. If a program has changed
    /// the weak package during the upload, the drafts are half of a change and must not be sent.
    mutating func areCurrent(
        _ drafts: [KeyedDraft], _ planner: SyncPlanner
    ) throws(VolumeError) -> Bool {
        for keyed in drafts {
            guard
                try planner.comparison.draft(keyed.draft.item, in: &self).tells(sameAs: keyed.draft)
            else {
                return false
            }
        }
        return true
    }

    private mutating func enqueue(_ keyed: KeyedDraft, _ planner: SyncPlanner)
        throws(VolumeError) -> Bool
    {
        var draft = keyed.draft
        if draft.isDeletion, try planner.isCovered(draft, in: &self) { return true }
        if draft.waitsFor != nil {
            draft = try planner.comparison.draft(draft.item, in: &self)
            guard draft.revisions == keyed.draft.revisions else { return false }
        }
        return try !planner.enqueue(draft, in: &self).isEmpty
    }
}

extension ItemDraft {
    fileprivate var leavesName: Bool {
        changes.contains { change in
            switch change {
            case .delete, .move: true
            default: false
            }
        }
    }
}

extension Transaction {
    /// Whether a draft may admit somebody to a document's current version who is not admitted to
    /// it here.
    fileprivate func opensCurrent(of item: LocalItem, _ draft: ItemDraft) throws(VolumeError)
        -> Bool
    {
        guard item.isAlive, item.kind == .file || item.kind == .package,
            let current = item.current
        else { return false }
        var setsMode = false
        for change in draft.changes {
            switch change {
            case .attribute(OwnerName.attribute, _): return true
            case .attribute("mode", _): setsMode = true
            // The version of a package admits only those who may read all files in it.
            case .create: setsMode = item.kind == .file
            default: break
            }
        }
        guard setsMode, let own = try version(id: current)?.version.protection else {
            return false
        }
        return SharedMode.bits(of: item.mode) & ~own.mode & 0o777 != 0
    }
}
