import CLinux
import Glibc
import Model
import SystemCalls
import Volume

/// Moves names: rename. The namespace is locked for writing during the system call and the update
/// of the nodes. Preparations, such as fetching a placeholder's bytes, are made while names are not
/// locked; then the rename begins again.
final class RenameOperations: RequestGroup {
    let parts: RequestParts
    private let placeholders: PlaceholderMoves

    init(_ parts: RequestParts) {
        self.parts = parts
        placeholders = PlaceholderMoves(parts.tree)
    }

    func begin(_ request: Request, _ rename: Rename) {
        guard grantGate.concerns(request.caller) else { return goOn(request, rename) }
        grantGate.pass(request, granted(rename)) { self.goOn(request, rename) }
    }

    private func goOn(_ request: Request, _ rename: Rename) {
        if claims.isQuiet { run(request, rename) } else { runWithClaim(request, rename) }
    }

    func run(_ request: Request, _ rename: Rename) {
        parking.changing(request) { [self] request throws(Errno) in
            if try carryOut(request, rename) { request.done() }
        }
    }

    /// Renames without answering the request. Returns false if something must be done first; the
    /// rename then begins again, and answers the request.
    func carryOut(_ request: Request, _ rename: Rename) throws(Errno) -> Bool {
        guard let needed = try attempt(request, rename) else { return true }
        try prepare(needed, for: request, rename) { self.begin($0, $1) }
        return false
    }

    /// Renames without answering the request. Returns what must be done first, with nothing done,
    /// or nil.
    func attempt(_ request: Request, _ rename: Rename) throws(Errno) -> Rename.Preparation? {
        try rename.from.name.asCString { (from) throws(Errno) -> Rename.Preparation? in
            try rename.to.name.asCString { (to) throws(Errno) -> Rename.Preparation? in
                let source = try tree.node(rename.from.parent)
                let target = try tree.node(rename.to.parent)
                try tree.refuseReserved(from)
                try tree.refuseReserved(to)
                let here = RenameEnd(
                    parent: source, directory: try tree.directory(source), name: from)
                let there = RenameEnd(
                    parent: target, directory: try tree.directory(target), name: to)
                let (caller, actor) = (request.caller, callers.actor(request.caller))
                return try tree.namespace.writing { () throws(Errno) in
                    try move(here, there, rename, by: caller, actor)
                }
            }
        }
    }

    private func move(
        _ here: RenameEnd, _ there: RenameEnd, _ rename: Rename, by caller: Caller, _ actor: Actor
    ) throws(Errno) -> Rename.Preparation? {
        let isApplier = callers.isApplier(caller)
        let moved = try tree.item(here.name, in: here.directory)
        let replaced: NamedFile?
        do throws(Errno) { replaced = try tree.pinnedItem(there.name, in: there.directory) } catch {
            guard error == .notFound else { throw error }
            replaced = nil
        }
        defer { if let replaced { tree.unpin(replaced) } }
        if let expected = rename.expected,
            replaced.map({ FileSnapshot($0.status).differs(from: expected) }) ?? true
        {
            throw Errno(EBUSY)
        }
        let files = isApplier ? [] : rename.isExchange ? [moved, replaced] : [moved]
        guard placeholders.preventEviction(files) else {
            return .file(try SharedDescriptor(pathOf: here.name, in: here.directory.raw))
        }
        defer { placeholders.allowEviction(files) }
        var isSwap = false
        if isApplier {
            isSwap = try callers.applierGuard.admitRename(
                (here.parent, here.name), moved, (there.parent, there.name), replaced,
                flags: rename.flags)
        } else if let needed = try placeholders.needed(moved, here, there, over: replaced, rename) {
            return needed
        }
        let isSave = !rename.isExchange && isSave(moved, here, over: replaced)
        let result = try call(
            moved, here, over: replaced, there, rename, isSwap: isSwap,
            by: isApplier ? nil : caller, actor)
        guard case .done(let isStashed) = result else {
            return .copy(
                try SharedDescriptor(pathOf: there.name, in: there.directory.raw), there.place.spot)
        }
        if isApplier { callers.applierGuard.carriedOut() }
        if isSave { keepNumber(of: replaced, on: moved) }
        update(moved, here, replaced, there, isExchange: rename.isExchange, isStashed: isStashed)
        return nil
    }

    /// Does the system call, and compares what it replaces with what the caller has seen. `caller`
    /// is nil for changes from the hub.
    private func call(
        _ moved: NamedFile, _ here: RenameEnd, over replaced: NamedFile?, _ there: RenameEnd,
        _ rename: Rename, isSwap: Bool, by caller: Caller?, _ actor: Actor
    ) throws(Errno) -> Renamed {
        let bases = caller.map {
            staleSaves.bases(
                of: $0, moved, here, over: replaced, there, isExchange: rename.isExchange)
        }
        if let caller, !rename.isExchange {
            tree.nodes.displacing(replaced?.node, unique: caller.unique)
        }
        let result = try volume.names.rename(
            from: here.place, to: there.place,
            flags: rename.flags, moved: moved.status, replaced: replaced?.status,
            movedTraits: tree.traits(moved.node), replacedTraits: tree.traits(replaced?.node),
            isSwap: isSwap, seen: bases?.there, seenBack: bases?.here, copy: rename.copy,
            isLastTry: rename.isLastTry, by: actor)
        if case .done = result {
            staleSaves.noteRenamed(
                moved, from: here.parent, replaced, isExchange: rename.isExchange, by: caller)
        }
        return result
    }

    /// Whether this rename is a save over a document that a program is about to open: the draft
    /// names its base, or other programs wait to open the document.
    private func isSave(_ moved: NamedFile, _ here: RenameEnd, over replaced: NamedFile?) -> Bool {
        guard let node = replaced?.node, tree.traits(moved.node).contains(.local),
            FileSnapshot(moved.status).isFile,
            replaced.map({ FileSnapshot($0.status).isFile }) == true
        else { return false }
        if claims.arbitration.isAwaited(node) { return true }
        guard let draft = try? SharedDescriptor(pathOf: here.name, in: here.directory.raw) else {
            return false
        }
        return cl_getxattr_fd(draft.raw, NamedBase.attribute, nil, 0) >= 0
    }

    /// Shows the new file under the replaced one's inode number. Must happen before the replaced
    /// node is forgotten.
    private func keepNumber(of replaced: NamedFile?, on moved: NamedFile) {
        guard let old = replaced?.node, let new = moved.node, old !== new,
            let file = tree.nodes.descriptor(of: old)
        else { return }
        if let spare = tree.numbers.replace(old, file, with: new) {
            notifier.tell(.attributes(spare))
        }
    }

    /// Updates the nodes after a rename.
    private func update(
        _ moved: NamedFile, _ here: RenameEnd, _ replaced: NamedFile?, _ there: RenameEnd,
        isExchange: Bool, isStashed: Bool
    ) {
        // Both are names of one file, so rename(2) has done nothing.
        if let replaced, replaced.status.st_ino == moved.status.st_ino { return }
        if let replaced, !isExchange {
            tree.vanished(replaced, there.name, in: there.parent, isStashed: isStashed)
        }
        if let node = moved.node {
            tree.nodes.renamed(
                node, to: there.name, in: there.parent,
                isLocal: volume.ignoreFile.isLocal(there.name))
        }
        if isExchange, let node = replaced?.node {
            tree.nodes.renamed(
                node, to: here.name, in: here.parent, isLocal: volume.ignoreFile.isLocal(here.name))
        }
    }

    // MARK: Preparing

    /// Does what a rename needs, and then calls `go`. Calls `fail` if a copy cannot be made.
    func prepare(
        _ needed: Rename.Preparation, for request: Request, _ rename: Rename,
        else fail: @escaping @Sendable () -> Void = {},
        _ go: @escaping @Sendable (Request, Rename) -> Void
    ) throws(Errno) {
        let caller = request.caller
        let again: @Sendable (Request, Rename) -> Void = { request, rename in
            cl_thread_serve(caller.unique, caller.group)
            go(request, rename)
        }
        var done = rename
        switch needed {
        case .file(let file):
            let isHere = try fetcher.haveWhole(request, file) { again($0, rename) }
            if isHere { fetcher.retry(request, else: {}, { again($0, rename) }) }
        case .directory(let directory):
            done.isFetched = true
            fetcher.fetchAll(below: directory, for: request) { [done] in again($0, done) }
        case .copy(let file, let spot):
            done.copies += 1
            let actor = callers.actor(caller)
            parking.park(
                request, on: .disk,
                { [volume] () throws(Errno) in
                    do throws(Errno) {
                        return try volume.names.copyReplaced(file.raw, at: spot, by: actor)
                    } catch {
                        fail()
                        throw error
                    }
                },
                revert: { _ in fail() },
                answer: { [parking, done] request, copy in
                    // The rename must not occupy a thread of this lane.
                    parking.soon { [done] in
                        var done = done
                        done.copy = copy
                        again(request, done)
                    }
                })
        }
    }
}
