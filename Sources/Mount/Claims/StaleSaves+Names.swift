import CLinux
import Glibc
import Merge
import Model
import SystemCalls
import Volume

// Notes what processes open, save, move and remove, and finds the contents that a caller has seen.
extension StaleSaves {
    /// The content that the caller has seen, if it is about to replace a different one as a whole.
    func base(
        of caller: Caller, replacing status: stat, _ file: SharedDescriptor, _ node: Node
    ) -> NamedBase? {
        guard isKnown(status) else { return nil }
        var status = status
        volume.hydration.present(&status) { file.raw }
        return base(of: caller, replacing: status).flatMap { named($0, nodes.path(of: node)) }
    }

    /// Applies the document's rules; nil if the overwritten content is kept in the history only.
    private func named(_ base: SeenVersions.Content, _ path: [Name]?) -> NamedBase? {
        let rule = path.map { rules.choice(for: $0).stale } ?? .conflict
        guard rule != .history else { return nil }
        return NamedBase(
            size: base.size, modified: base.modified, mergesOnlyManually: rule == .conflict)
    }

    private var rules: MergeRules { MergeRules(file: MergeRules.bytes(in: volume.root)) }

    // MARK: Opening and closing

    func noteOpened(
        _ node: Node, _ status: stat, by caller: Caller, reads: Bool, writes: Bool,
        truncates: Bool
    ) -> SeenVersions.Sight {
        if nodes.flags(of: node).contains(.local) { return .full }
        guard truncates else {
            return opened(status, by: caller, reads: reads, writes: writes)
        }
        return emptied(status, as: status, by: caller, stays: true)
    }

    func noteEmptied(_ old: stat, as status: stat, by caller: Caller) {
        _ = emptied(old, as: status, by: caller, stays: false)
    }

    /// Called once for each handle, with the file's `OpenState.writing` locked: the contents are
    /// read and noted in one step, before the file is emptied or opened for writing again.
    func noteWritten(_ handle: Handle) {
        guard handle.sight != .partial, let status = try? handle.file.status() else { return }
        wrote(status, by: handle.caller, handle.sight)
    }

    // MARK: Names

    /// Notes that a file was created. If a document has just left that name, returns the content of
    /// it that the caller has seen.
    func noteMade(
        _ status: stat, _ name: UnsafePointer<CChar>, in parent: Node, by caller: Caller
    ) -> NamedBase? {
        made(status)
        return filled(name, in: parent, by: status, caller)
    }

    private func filled(
        _ name: UnsafePointer<CChar>, in parent: Node, by status: stat, _ caller: Caller
    ) -> NamedBase? {
        let place = SeenVersions.Place(directory: parent.inode, name: terminated(name))
        return filled(place, by: status, caller: caller).flatMap { base in
            named(base, nodes.path(of: parent).map { $0 + [Name(cString: name)] })
        }
    }

    /// Called before a name is removed or moved away.
    func noteVacated(
        _ status: stat, _ name: UnsafePointer<CChar>, in parent: Node, isGone: Bool,
        by caller: Caller
    ) {
        guard isKnown(status) else { return }
        let place = SeenVersions.Place(directory: parent.inode, name: terminated(name))
        vacated(place, status, isGone: isGone, by: caller)
    }

    /// The contents that the caller of a rename has seen of the documents at both ends.
    struct Bases {
        var there: NamedBase?
        /// Only for an exchange.
        var here: NamedBase?
    }

    func bases(
        of caller: Caller, _ moved: NamedFile, _ here: RenameEnd, over replaced: NamedFile?,
        _ there: RenameEnd, isExchange: Bool
    ) -> Bases {
        guard let replaced else {
            let (old, new) = (Name(cString: here.name), Name(cString: there.name))
            if new.isBackup(of: old) || volume.ignoreFile.isLocal(there.name) {
                noteVacated(
                    moved.status, here.name, in: here.parent, isGone: false, by: caller)
            }
            return Bases(there: filled(there.name, in: there.parent, by: moved.status, caller))
        }
        guard FileSnapshot(moved.status).isFile, FileSnapshot(replaced.status).isFile,
            moved.status.st_ino != replaced.status.st_ino
        else { return Bases() }
        var bases = Bases(there: base(of: caller, replacing: replaced, there))
        if isExchange { bases.here = base(of: caller, replacing: moved, here) }
        return bases
    }

    private func base(of caller: Caller, replacing file: NamedFile, _ end: RenameEnd) -> NamedBase?
    {
        guard let node = file.node, isKnown(file.status),
            let descriptor = try? SharedDescriptor(pathOf: end.name, in: end.directory.raw)
        else { return nil }
        return base(of: caller, replacing: file.status, descriptor, node)
    }

    /// Notes a completed rename. `caller` is nil for a change from the hub.
    func noteRenamed(
        _ moved: NamedFile, from parent: Node, _ replaced: NamedFile?, isExchange: Bool,
        by caller: Caller?
    ) {
        guard FileSnapshot(moved.status).isFile else { return }
        guard let replaced, FileSnapshot(replaced.status).isFile,
            moved.status.st_ino != replaced.status.st_ino
        else {
            // A prepared file may have the inode number of an earlier file.
            if parent === incoming, replaced == nil { made(moved.status) }
            return
        }
        if isExchange {
            exchanged(moved.status, replaced.status, caller: caller)
        } else {
            self.replaced(replaced.status, by: moved.status, caller: caller)
        }
    }
}
