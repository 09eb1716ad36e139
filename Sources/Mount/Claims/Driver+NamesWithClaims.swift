import CFuse
import Coordination
import Glibc
import Model
import SystemCalls
import Volume

// Requests that change names while there are claims or presenters. A request's own strings are no
// longer valid when its turn comes, so they are copied.
extension Driver {
    func unlinkWithClaim(_ request: Request, in parent: UInt64, _ name: UnsafePointer<CChar>) {
        let (names, copy) = (names(in: parent, name), terminated(name))
        withClaim(request, [NameAccess(.write(.deleting), names)]) { [self] in
            copy.asCString { unlink(request, in: parent, $0) }
            return gone(names)
        }
    }

    func rmdirWithClaim(_ request: Request, in parent: UInt64, _ name: UnsafePointer<CChar>) {
        let (names, copy) = (names(in: parent, name), terminated(name))
        withClaim(request, [NameAccess(.write(.deleting), names)]) { [self] in
            copy.asCString { rmdir(request, in: parent, $0) }
            return gone(names)
        }
    }

    private func gone(_ names: [Name]?) -> [ObservedChange] {
        guard let names, !exists(names) else { return [] }
        return [.removed(names)]
    }

    /// Creates a name by calling `body` when the claim is granted.
    func makeWithClaim(
        _ request: Request, in parent: UInt64, _ name: UnsafePointer<CChar>,
        _ body: @escaping @Sendable (UnsafePointer<CChar>) -> Void
    ) {
        let (names, copy) = (names(in: parent, name), terminated(name))
        withClaim(request, [NameAccess(.write(.update), names)]) { [self] in
            let isNew = names.map { !exists($0) } ?? false
            copy.asCString { body($0) }
            guard let names, isNew, exists(names) else { return [] }
            return [.appeared(names)]
        }
    }

    /// Changes attributes by calling `body`.
    func changeWithClaim(
        _ request: Request, _ id: UInt64, size: Bool, _ body: @escaping @Sendable () -> Void
    ) {
        let names = nodes[id].flatMap { nodes.path(of: $0) }
        let access: Access = .write(size ? .update : .contentIndependentMetadataOnly)
        withClaim(request, [NameAccess(access, names)]) { [self] in
            let before = names.flatMap { changeStamp($0) }
            body()
            guard let names, let now = changeStamp(names), now != before,
                arbitration.reportedChanges.change(names, to: now)
            else { return [] }
            return [.changed(names)]
        }
    }

    func renameWithClaim(
        _ request: Request, _ from: (parent: UInt64, name: UnsafePointer<CChar>),
        _ to: (parent: UInt64, name: UnsafePointer<CChar>), flags: UInt32,
        prepared: RenamePreparation
    ) {
        guard let new = names(in: to.parent, to.name) else {
            return moveOutWithClaim(request, from, to, flags: flags)
        }
        guard let old = names(in: from.parent, from.name) else {
            return moveInWithClaim(request, from, to, new, flags: flags)
        }
        let (oldName, newName) = (terminated(from.name), terminated(to.name))
        let (oldParent, newParent) = (from.parent, to.parent)
        let process = request.caller.process
        let isExchange = flags & Flag.renameExchange != 0
        let isDraft = volume.ignoreFile.isLocal(from.name)
        let isBackup =
            volume.ignoreFile.isLocal(to.name)
            || new[new.count - 1].isBackup(of: old[old.count - 1])
        // What is renamed over a document is that document's next version, without anything being
        // closed.
        let nameAccesses =
            isExchange
            ? [NameAccess(.write(.update), old), NameAccess(.write(.update), new)]
            : [
                NameAccess(.write(.moving), old),
                NameAccess(exists(new) ? .write(.update) : .write(.replacing), new),
            ]
        withClaim(request, nameAccesses) { [self] in
            let hadTarget = exists(new)
            request.answer { () throws(Errno) in
                let isDone = try oldName.asCString { from throws(Errno) in
                    try newName.asCString { to throws(Errno) -> Bool in
                        let (from, to) = ((oldParent, from), (newParent, to))
                        let needed = try carryOut(
                            request, from, to, flags: flags, prepared: prepared)
                        if let needed {
                            try prepare(
                                needed, for: request, from, to, flags: flags, prepared)
                        }
                        return needed == nil
                    }
                }
                guard isDone else { return }
                // Presenters are notified before the program continues: its next step, such as the
                // end of its claim, must find them at the new path.
                if isExchange {
                    tell(process, [.changed(old), .changed(new)])
                } else if isDraft {
                    tell(process, [hadTarget ? .changed(new) : .appeared(new)])
                } else if isBackup {
                    awaitReturn(process, old, new)
                } else if !exists(old), exists(new) {
                    tell(process, [.moved(old, new)] + (hadTarget ? [.changed(new)] : []))
                }
                request.done()
            }
            return []
        }
    }

    /// Moves a prepared item into the tree. `failed` is called if that fails, for example because
    /// the replaced item is not as expected.
    private func moveInWithClaim(
        _ request: Request, _ from: (parent: UInt64, name: UnsafePointer<CChar>),
        _ to: (parent: UInt64, name: UnsafePointer<CChar>), _ new: [Name], flags: UInt32,
        expected: FileSnapshot? = nil, prepared: RenamePreparation = RenamePreparation(),
        failed: @escaping @Sendable () -> Void = {}
    ) {
        let (oldName, newName) = (terminated(from.name), terminated(to.name))
        let (oldParent, newParent) = (from.parent, to.parent)
        let process = request.caller.process
        withClaim(request, [NameAccess(exists(new) ? .write(.update) : .write(.replacing), new)]) {
            [self] in
            let before = changeStamp(new)
            request.answer { () throws(Errno) in
                let needed: Needed?
                do throws(Errno) {
                    needed = try oldName.asCString { from throws(Errno) in
                        try newName.asCString { to throws(Errno) in
                            try carryOut(
                                request, (oldParent, from), (newParent, to), flags: flags,
                                expected: expected, prepared: prepared)
                        }
                    }
                } catch {
                    failed()
                    throw error
                }
                if let needed {
                    return try prepare(needed, for: request, prepared, else: failed) {
                        [self] request, prepared in
                        oldName.asCString { from in
                            newName.asCString { to in
                                moveInWithClaim(
                                    request, (oldParent, from), (newParent, to), new, flags: flags,
                                    expected: expected, prepared: prepared, failed: failed)
                            }
                        }
                    }
                }
                let now = changeStamp(new)
                if arbitration.reportedChanges.change(new, to: now) {
                    tell(process, [before == nil ? .appeared(new) : .changed(new)])
                }
                request.done()
            }
            return []
        }
    }

    /// Puts a prepared version in place, because a program has renamed a version onto the document.
    /// The kernel then gives the name to a node that is no file of the tree, and looks it up again
    /// before it is used.
    func replaceWithClaim(
        _ request: Request, _ ready: ReadyReplacement, _ parent: UInt64, _ path: [Name]
    ) {
        Name(ready.incoming).withCString { from in
            path[path.count - 1].withCString { to in
                moveInWithClaim(
                    request, (applierGuard.incoming.id, from), (parent, to), path, flags: 0,
                    expected: FileSnapshot(ready.item)
                ) { [volume] in volume.arrivals.discard(ready.incoming) }
            }
        }
    }

    /// Moves an item that the hub has removed out of the tree.
    private func moveOutWithClaim(
        _ request: Request, _ from: (parent: UInt64, name: UnsafePointer<CChar>),
        _ to: (parent: UInt64, name: UnsafePointer<CChar>), flags: UInt32
    ) {
        guard let old = names(in: from.parent, from.name) else {
            return rename(request, from, to, flags: flags)
        }
        let (oldName, newName) = (terminated(from.name), terminated(to.name))
        let (oldParent, newParent) = (from.parent, to.parent)
        withClaim(request, [NameAccess(.write(.deleting), old)]) { [self] in
            oldName.asCString { from in
                newName.asCString { to in
                    rename(request, (oldParent, from), (newParent, to), flags: flags)
                }
            }
            return gone(old)
        }
    }

    /// Reports a move only if no new file gets the old name soon, because editors rename a document
    /// to a backup and then write a new one.
    private func awaitReturn(_ process: Int32, _ old: [Name], _ new: [Name]) {
        arbitration.timers.after(seconds: 1) { [self] in
            if !exists(old), exists(new) { tell(process, [.moved(old, new)]) }
        }
    }
}
