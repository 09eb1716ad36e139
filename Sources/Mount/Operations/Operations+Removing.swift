import CFuse
import CLinux
import Glibc
import Model
import SystemCalls
import Volume

// Removing and moving names. The namespace is locked for writing during the system call and the
// update of the nodes.
extension Driver {
    func unlink(_ request: Request, in id: UInt64, _ name: UnsafePointer<CChar>) {
        parking.changingNames(request, name) { [self] (request, name, _) throws(Errno) in
            let parent = try node(id)
            try refuseReserved(name)
            let directory = try directory(parent)
            let caller = request.caller
            let actor = actor(caller)
            let isApplier = applierGuard.isApplier(caller.process)
            try namespace.writing { () throws(Errno) in
                let file = try namedFile(name, in: directory)
                defer { letGo(of: file) }
                if isApplier { try admitRemoval(parent, name, file) }
                noteVacated(
                    file.status, name, in: parent, isGone: file.status.st_nlink <= 1, by: caller)
                nodes.displacing(file.node, unique: caller.unique)
                let isStashed = try volume.names.unlink(
                    Place(descriptor: directory.raw, inode: parent.inode, name: name),
                    status: file.status, traits: traits(file.node), by: actor)
                vanished(file, name, in: parent, isStashed: isStashed)
                if isApplier { applierGuard.carriedOut() }
            }
            request.done()
        }
    }

    func rmdir(_ request: Request, in parent: UInt64, _ name: UnsafePointer<CChar>) {
        request.answer { () throws(Errno) in
            let parent = try node(parent)
            try refuseReserved(name)
            let directory = try directory(parent)
            let actor = actor(request.caller)
            let isApplier = applierGuard.isApplier(request.caller.process)
            try namespace.writing { () throws(Errno) in
                let file = try namedFile(name, in: directory)
                defer { letGo(of: file) }
                if isApplier { try admitRemoval(parent, name, file) }
                try volume.names.rmdir(
                    Place(descriptor: directory.raw, inode: parent.inode, name: name),
                    status: file.status, by: actor)
                vanished(file, name, in: parent, isStashed: false)
                if isApplier { applierGuard.carriedOut() }
            }
            request.done()
        }
    }

    func rename(
        _ request: Request, _ from: (parent: UInt64, name: UnsafePointer<CChar>),
        _ to: (parent: UInt64, name: UnsafePointer<CChar>), flags: UInt32,
        prepared: RenamePreparation = RenamePreparation()
    ) {
        let (source, target) = (from.parent, to.parent)
        parking.changingNames(request, from.name, to.name) {
            [self] (request, from, to) throws(Errno) in
            let ends = ((parent: source, name: from), (parent: target, name: to!))
            let needed = try carryOut(request, ends.0, ends.1, flags: flags, prepared: prepared)
            if let needed {
                return try prepare(
                    needed, for: request, ends.0, ends.1, flags: flags, prepared)
            }
            request.done()
        }
    }

    /// Renames without answering the request. Returns what must be done first, with nothing done,
    /// or nil.
    ///
    /// - Parameters:
    ///   - expected: The replaced file must have these attributes, or the call fails with EBUSY.
    func carryOut(
        _ request: Request, _ from: (parent: UInt64, name: UnsafePointer<CChar>),
        _ to: (parent: UInt64, name: UnsafePointer<CChar>), flags: UInt32,
        expected: FileSnapshot? = nil, prepared: RenamePreparation = RenamePreparation()
    ) throws(Errno) -> Needed? {
        let source = try node(from.parent)
        let target = try node(to.parent)
        try refuseReserved(from.name)
        try refuseReserved(to.name)
        let sourceDirectory = try directory(source)
        let targetDirectory = try directory(target)
        let actor = actor(request.caller)
        let isApplier = applierGuard.isApplier(request.caller.process)
        let isExchange = flags & Flag.renameExchange != 0
        return try namespace.writing { () throws(Errno) -> Needed? in
            let moved = try present(from.name, in: sourceDirectory)
            let replaced: NamedFile?
            do throws(Errno) { replaced = try namedFile(to.name, in: targetDirectory) } catch {
                guard error == .notFound else { throw error }
                replaced = nil
            }
            defer { if let replaced { letGo(of: replaced) } }
            if let expected,
                replaced.map({ FileSnapshot($0.status).differs(from: expected) }) ?? true
            {
                throw Errno(EBUSY)
            }
            let files = isApplier ? [] : isExchange ? [moved, replaced] : [moved]
            guard preventEviction(files) else {
                return .file(try SharedDescriptor(pathOf: from.name, in: sourceDirectory.raw))
            }
            defer { allowEviction(files) }
            let (here, there) = (
                RenameEnd(parent: source, directory: sourceDirectory, name: from.name),
                RenameEnd(parent: target, directory: targetDirectory, name: to.name)
            )
            if !isApplier,
                let needed = try needed(
                    moved, here, there, over: replaced, flags: flags,
                    isFetched: prepared.isFetched)
            {
                return needed
            }
            var isSwap = false
            if isApplier {
                isSwap = try admitRename(
                    (source, from.name), moved, (target, to.name), replaced, flags: flags)
            }
            let isSave = !isExchange && isSave(moved, from.name, sourceDirectory, over: replaced)
            let result = try move(
                moved, here, over: replaced, there, flags: flags, isSwap: isSwap, prepared,
                by: isApplier ? nil : request.caller, actor)
            guard case .done(let isStashed) = result else {
                return .copy(
                    try SharedDescriptor(pathOf: to.name, in: targetDirectory.raw),
                    there.place.spot)
            }
            if isApplier { applierGuard.carriedOut() }
            if isSave { keepNumber(of: replaced, on: moved) }
            settle(
                moved, replaced, (source, from.name), (target, to.name),
                isExchange: isExchange, isStashed: isStashed)
            return nil
        }
    }

    /// Does the system call, and compares what it replaces with what the caller has seen. `caller`
    /// is nil for changes from the hub.
    private func move(
        _ moved: NamedFile, _ here: RenameEnd, over replaced: NamedFile?, _ there: RenameEnd,
        flags: UInt32, isSwap: Bool, _ prepared: RenamePreparation, by caller: Caller?,
        _ actor: Actor
    ) throws(Errno) -> Renamed {
        let isExchange = flags & Flag.renameExchange != 0
        let bases = caller.map {
            self.bases(of: $0, moved, here, over: replaced, there, isExchange: isExchange)
        }
        if let caller, !isExchange { nodes.displacing(replaced?.node, unique: caller.unique) }
        let result = try volume.names.rename(
            from: here.place, to: there.place,
            flags: flags, moved: moved.status, replaced: replaced?.status,
            movedTraits: traits(moved.node), replacedTraits: traits(replaced?.node),
            isSwap: isSwap, seen: bases?.there, seenBack: bases?.here, copy: prepared.copy,
            isLastTry: prepared.isLastTry, by: actor)
        if case .done = result {
            noteRenamed(moved, from: here.parent, replaced, isExchange: isExchange, by: caller)
        }
        return result
    }

    /// Whether this rename is a save over a document that a program is about to open: the draft
    /// names its base, or other programs wait to open the document.
    private func isSave(
        _ moved: NamedFile, _ name: UnsafePointer<CChar>, _ directory: SharedDescriptor,
        over replaced: NamedFile?
    ) -> Bool {
        guard let node = replaced?.node, traits(moved.node).contains(.local),
            FileSnapshot(moved.status).isFile,
            replaced.map({ FileSnapshot($0.status).isFile }) == true
        else { return false }
        if numbers.isAwaited(node) { return true }
        guard let draft = try? SharedDescriptor(pathOf: name, in: directory.raw) else {
            return false
        }
        return cl_getxattr_fd(draft.raw, NamedBase.attribute, nil, 0) >= 0
    }

    /// Shows the new file under the replaced one's inode number. Must happen before the replaced
    /// node is forgotten.
    private func keepNumber(of replaced: NamedFile?, on moved: NamedFile) {
        guard let old = replaced?.node, let new = moved.node, old !== new,
            let file = nodes.descriptor(of: old)
        else { return }
        if let spare = numbers.replace(old, file, with: new) { notifier.tell(.attributes(spare)) }
    }

    /// Updates the nodes after a rename.
    private func settle(
        _ moved: NamedFile, _ replaced: NamedFile?,
        _ from: (parent: Node, name: UnsafePointer<CChar>),
        _ to: (parent: Node, name: UnsafePointer<CChar>), isExchange: Bool, isStashed: Bool
    ) {
        // Both are names of one file, so rename(2) has done nothing.
        if let replaced, replaced.status.st_ino == moved.status.st_ino { return }
        if let replaced, !isExchange {
            vanished(replaced, to.name, in: to.parent, isStashed: isStashed)
        }
        if let node = moved.node {
            nodes.renamed(
                node, to: to.name, in: to.parent, isLocal: volume.ignoreFile.isLocal(to.name))
        }
        if isExchange, let node = replaced?.node {
            nodes.renamed(
                node, to: from.name, in: from.parent, isLocal: volume.ignoreFile.isLocal(from.name))
        }
    }

    // MARK: The item with a name

    struct NamedFile {
        var status: stat
        var node: Node?
    }

    private func present(_ name: UnsafePointer<CChar>, in directory: SharedDescriptor)
        throws(Errno) -> NamedFile
    {
        var status = stat()
        try check(cl_fstatat(directory.raw, name, &status, Flag.noFollow))
        return NamedFile(status: status, node: nodes.known(UInt64(status.st_ino)))
    }

    /// The item that is about to lose its name. Its node gets a descriptor, which also keeps the
    /// file system from reusing the inode number before the kernel has forgotten the node.
    private func namedFile(_ name: UnsafePointer<CChar>, in directory: SharedDescriptor)
        throws(Errno) -> NamedFile
    {
        let namedFile = try present(name, in: directory)
        if let node = namedFile.node {
            try nodes.pin(node) { () throws(Errno) in
                try SharedDescriptor(pathOf: name, in: directory.raw)
            }
        }
        return namedFile
    }

    /// Ends what `namedFile`, and `admit` for a step of the applier, have begun.
    private func letGo(of file: NamedFile) {
        if let node = file.node { nodes.unpin(node) }
    }

    private func vanished(
        _ file: NamedFile, _ name: UnsafePointer<CChar>, in parent: Node, isStashed: Bool
    ) {
        guard let node = file.node else { return }
        let isDirectory = file.status.st_mode & S_IFMT == S_IFDIR
        let isGone = isStashed || isDirectory || file.status.st_nlink <= 1
        if isGone { numbers.forget(node.inode) }
        nodes.unnamed(node, name, in: parent, isGone: isGone, isStashed: isStashed)
    }

    /// The facts about a file for the volume.
    func traits(_ node: Node?) -> Traits {
        guard let node else { return [] }
        let flags = nodes.flags(of: node)
        var traits: Traits = []
        if flags.contains(.local) { traits.insert(.local) }
        if flags.contains(.unsaved) { traits.insert(.unsaved) }
        return traits
    }
}
