import Coordination
import Glibc
import Model
import SystemCalls
import Volume

// Renames while there are claims or presenters.
extension RenameOperations {
    func runWithClaim(_ request: Request, _ rename: Rename) {
        guard let new = names(rename.to) else { return moveOut(request, rename) }
        guard let old = names(rename.from) else { return moveIn(request, rename, new) }
        let process = request.caller.process
        let (isDraft, isBackup) = (isLocal(rename.from), isBackup(rename, old, new))
        claims.withClaim(request, accesses(rename, old, new)) { [self] in
            let hadTarget = tree.exists(new)
            request.answer { () throws(Errno) in
                guard try carryOut(request, rename) else { return }
                // Presenters are notified before the program continues: its next step, such as the
                // end of its claim, must find them at the new path.
                if rename.isExchange {
                    claims.tell(process, [.changed(old), .changed(new)])
                } else if isDraft {
                    claims.tell(process, [hadTarget ? .changed(new) : .appeared(new)])
                } else if isBackup {
                    awaitReturn(process, old, new)
                } else if !tree.exists(old), tree.exists(new) {
                    claims.tell(process, [.moved(old, new)] + (hadTarget ? [.changed(new)] : []))
                }
                request.done()
            }
            return []
        }
    }

    /// What only one device may change: the document that is replaced, the packages in which names
    /// change, and a document that becomes a backup, because its next version gets its name.
    func granted(_ rename: Rename) -> [GrantGate.Target] {
        guard let old = names(rename.from), let new = names(rename.to) else { return [] }
        let isChanged = rename.isExchange || isBackup(rename, old, new)
        return [.init(names: new), .init(names: old, isDocument: isChanged)]
    }

    private func names(_ end: Rename.End) -> [Name]? {
        end.name.asCString { tree.names(in: end.parent, $0) }
    }

    private func isLocal(_ end: Rename.End) -> Bool {
        end.name.asCString { tree.volume.ignoreFile.isLocal($0) }
    }

    private func isBackup(_ rename: Rename, _ old: [Name], _ new: [Name]) -> Bool {
        isLocal(rename.to) || new[new.count - 1].isBackup(of: old[old.count - 1])
    }

    /// What is renamed over a document is that document's next version, without anything being
    /// closed.
    private func accesses(_ rename: Rename, _ old: [Name], _ new: [Name])
        -> [RequestClaims.NameAccess]
    {
        if rename.isExchange { return [.init(.write(.update), old), .init(.write(.update), new)] }
        return [.init(.write(.moving), old), arrival(new)]
    }

    private func arrival(_ new: [Name]) -> RequestClaims.NameAccess {
        .init(tree.exists(new) ? .write(.update) : .write(.replacing), new)
    }

    /// Moves a prepared item into the tree. `failed` is called if that fails, for example because
    /// the replaced item is not as expected.
    private func moveIn(
        _ request: Request, _ rename: Rename, _ new: [Name],
        failed: @escaping @Sendable () -> Void = {}
    ) {
        let process = request.caller.process
        claims.withClaim(request, [arrival(new)]) { [self] in
            let before = tree.changeStamp(new)
            request.answer { () throws(Errno) in
                let needed: Rename.Preparation?
                do throws(Errno) { needed = try attempt(request, rename) } catch {
                    failed()
                    throw error
                }
                if let needed {
                    return try prepare(needed, for: request, rename, else: failed) {
                        self.moveIn($0, $1, new, failed: failed)
                    }
                }
                let now = tree.changeStamp(new)
                if claims.arbitration.reportedChanges.change(new, to: now) {
                    claims.tell(process, [before == nil ? .appeared(new) : .changed(new)])
                }
                request.done()
            }
            return []
        }
    }

    /// Puts a prepared version in place, because a program has renamed a version onto the document.
    /// The kernel then gives the name to a node that is no file of the tree, and looks it up again
    /// before it is used.
    func replace(
        _ request: Request, _ ready: ReadyReplacement, _ parent: UInt64, _ path: [Name]
    ) {
        let rename = Name(ready.incoming).withCString { from in
            path[path.count - 1].withCString { to in
                Rename(
                    from: .init(callers.applierGuard.incoming.id, from), to: .init(parent, to),
                    flags: 0, expected: FileSnapshot(ready.item))
            }
        }
        moveIn(request, rename, path) { [volume = tree.volume] in
            volume.arrivals.discard(ready.incoming)
        }
    }

    /// Moves an item that the hub has removed out of the tree.
    private func moveOut(_ request: Request, _ rename: Rename) {
        guard let old = names(rename.from) else { return run(request, rename) }
        claims.withClaim(request, [.init(.write(.deleting), old)]) { [self] in
            run(request, rename)
            return claims.gone(old)
        }
    }

    /// Reports a move only if no new file gets the old name soon, because editors rename a document
    /// to a backup and then write a new one.
    private func awaitReturn(_ process: Int32, _ old: [Name], _ new: [Name]) {
        claims.arbitration.timers.after(seconds: 1) { [tree, claims] in
            if !tree.exists(old), tree.exists(new) { claims.tell(process, [.moved(old, new)]) }
        }
    }
}
