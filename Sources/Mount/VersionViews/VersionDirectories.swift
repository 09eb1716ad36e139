import CFuse
import Glibc
import Model
import SystemCalls
import Volume

/// The hidden directories. `.versions/NAME/` has the history of NAME as read-only files, and
/// `.conflicts/NAME/` its unresolved conflict versions. Lookups in them may wait for the recorder,
/// so they are parked. A version exists only for users who may see it (`Version.isVisible`), so
/// each caller is checked anew.
final class VersionDirectories: RequestGroup {
    let parts: RequestParts
    /// The nodes in these directories that the kernel knows.
    let nodes = VersionNodes()

    init(_ parts: RequestParts) { self.parts = parts }

    func lookup(_ request: Request, in parent: UInt64, _ name: UnsafePointer<CChar>) {
        request.answer { () throws(Errno) in
            guard VersionNodes.isVirtual(parent) else {
                let directory = try tree.node(parent)
                let state = VersionNode.State(
                    status: try tree.status(of: directory).status.readOnly())
                let side = VersionNodes.side(name) ?? .all
                return answerVersion(
                    request, nodes.enter(side, .directory(directory.id), of: directory, state))
            }
            let parent = try nodes.find(parent)
            let name = Name(cString: name)
            let user = request.onlooker
            fetcher.parkReaching(
                request,
                { (locally) throws(Errno) in
                    try self.find(name, in: parent, for: user, locally: locally)
                },
                revert: { self.nodes.forget($0.id, 1) },
                answer: { self.answerVersion($0, $1) })
        }
    }

    /// These names are not cached by the kernel, because a new version may have been added.
    private func answerVersion(_ request: Request, _ node: VersionNode) {
        var parameters = fuse_entry_param()
        parameters.ino = node.id
        parameters.attr = node.status
        parameters.attr_timeout = KernelCache.seconds
        if !request.reply(parameters) { nodes.forget(node.id, 1) }
    }

    private func find(
        _ name: Name, in parent: VersionNode, for user: Requester, locally: Bool
    ) throws(Errno) -> VersionNode {
        switch parent.place {
        case .directory where parent.side == .all && name.bytes.first == UInt8(ascii: "@"):
            return try past(Name(bytes: Array(name.bytes.dropFirst())).text, in: parent)
        case .past(_, let time):
            return try past(name, at: time, in: parent, for: user, locally: locally)
        case .directory:
            let place = VersionNode.Place.document(parent.directory.id, name)
            let state: VersionNode.State
            do throws(Errno) { state = try document(name, in: parent, for: user) } catch {
                guard error == .notFound, let known = nodes.known(parent.side, place),
                    known.isJustEmptied
                else { throw error }
                state = known.state.withLock { $0 }
            }
            return nodes.enter(parent.side, place, of: parent.directory, state)
        case .document(_, let document):
            return try findVersion(name, of: document, in: parent, for: user, locally: locally)
        case .version(let id):
            return try findEntry(name.bytes, below: [], of: id, in: parent)
        case .entry(let id, let index):
            let path = parent.content?.manifest.entries[index].path ?? []
            return try findEntry(name.bytes, below: path, of: id, in: parent)
        case .ownerFile: throw Errno(ENOTDIR)
        }
    }

    /// The directory of a document's versions. Every user may list it and finds the versions that
    /// this user may see. Its write bits are the document's: who may change the document may
    /// resolve its conflicts.
    func document(_ name: Name, in node: VersionNode, for user: Requester) throws(Errno)
        -> VersionNode.State
    {
        let directory = node.directory
        guard let path = tree.nodes.path(of: directory) else { throw .notFound }
        guard let history = try tree.history(at: path + [name])?.shown(in: node.side),
            !history.visible(to: user).versions.isEmpty
        else { throw .notFound }
        var shown = history.protection.now
        shown.mode = shown.mode & 0o222 | 0o444
        var status = shown.status(like: try tree.directory(directory).status())
        status.st_mtim = Timestamp(nanoseconds: history.versions.last?.saved ?? 0).timespec
        return VersionNode.State(
            status: status.readOnly(), facts: VersionNode.Facts(history: history))
    }

    /// `.versions/@TIME`: the directory as it was at that time.
    private func past(_ text: String, in parent: VersionNode) throws(Errno) -> VersionNode {
        guard let time = PastTime.parse(text), let path = tree.nodes.path(of: parent.directory)
        else {
            throw .notFound
        }
        do throws(VolumeError) {
            guard let found = try volume.past.directory(at: path) else {
                throw PastTree.noDirectory
            }
            return try pastDirectory(found, at: time, in: parent)
        } catch {
            throw Errno(error)
        }
    }

    private func past(
        _ name: Name, at time: Int64, in parent: VersionNode, for user: Requester, locally: Bool
    ) throws(Errno) -> VersionNode {
        guard let facts = parent.facts, let entry = facts.past.first(where: { $0.name == name }),
            facts.directories.admitted(user, during: time...time)
        else { throw .notFound }
        guard let version = entry.version else {
            do throws(VolumeError) {
                return try pastDirectory(entry, at: time, in: parent)
            } catch {
                throw Errno(error)
            }
        }
        guard shows(version, of: entry, to: user, at: time) else { throw .notFound }
        var protection = version.shownProtection(of: volume.past.protection(of: entry.item).now)
        if PlantedFault.opensThePast.isPlanted { protection.mode |= 0o444 }
        return try enter(
            version, isPackage: entry.item.kind == .package, in: parent, protection,
            locally: locally)
    }

    /// A past directory has the owner, the mode and the access control list of its present
    /// directory in the tree: who may not read or search that one does not come further here. If
    /// it does not exist any more, only the owner of its parent is admitted. Who could not read or
    /// search it at that time finds nothing in it.
    private func pastDirectory(
        _ entry: PastEntry, at time: Int64, in parent: VersionNode
    ) throws(VolumeError) -> VersionNode {
        var original = parent.status
        original.st_mode &= S_IFMT | 0o700
        var accessList: [UInt8] = []
        let key = entry.item.key
        if let found = volume.past.status(of: entry.item), found.status.st_mode & S_IFMT == S_IFDIR
        {
            (original, accessList) = found
        }
        var status = original.readOnly()
        status.st_mode = S_IFDIR | original.st_mode & 0o777
        let state = VersionNode.State(
            status: status,
            facts: VersionNode.Facts(
                past: try volume.past.entries(of: key, at: time),
                directories: try volume.past.protections(of: key)),
            accessList: accessList)
        return nodes.enter(parent.side, .past(key, time), of: parent.directory, state)
    }

    private func findVersion(
        _ name: Name, of document: Name, in parent: VersionNode, for user: Requester, locally: Bool
    ) throws(Errno) -> VersionNode {
        var history = parent.history
        if history?.fileNames.contains(name) != true {
            let state = try self.document(document, in: parent, for: user)
            nodes.update(parent, state)
            history = state.facts?.history
        }
        guard let history, let index = history.fileNames.firstIndex(of: name),
            case let version = history.versions[index],
            history.visible(to: user).versions.contains(where: { $0.id == version.id })
        else { throw .notFound }
        return try enter(
            version, isPackage: history.isPackage, in: parent,
            version.shownProtection(of: history.protection.now), locally: locally)
    }

    private func enter(
        _ version: Version, isPackage: Bool, in parent: VersionNode, _ protection: Protection,
        locally: Bool
    ) throws(Errno) -> VersionNode {
        let original = protection.status(like: parent.status)
        var state = VersionNode.State(
            status: original.readOnly(isDirectory: isPackage), accessList: protection.accessList)
        state.status.setSize(version.size)
        state.status.st_mtim = Timestamp(nanoseconds: version.modified).timespec
        state.status.st_ctim = Timestamp(nanoseconds: version.saved).timespec
        if isPackage {
            state.facts = VersionNode.Facts(
                content: try content(of: version.id, locally: locally))
        }
        return nodes.enter(parent.side, .version(version.id), of: parent.directory, state)
    }

    private func findEntry(
        _ name: [UInt8], below path: [UInt8], of version: Identifier, in parent: VersionNode
    ) throws(Errno) -> VersionNode {
        let wanted = path.isEmpty ? name : path + [UInt8(ascii: "/")] + name
        guard let content = parent.content,
            let index = content.manifest.entries.firstIndex(where: { $0.path == wanted })
        else { throw .notFound }
        let entry = content.manifest.entries[index]
        // An entry that is private in the package is private in its versions.
        var original = parent.status
        original.st_mode &= S_IFMT | 0o222 | mode_t(entry.mode)
        var status = original.readOnly(isDirectory: entry.kind == .directory)
        status.st_mode |= mode_t(entry.mode) & 0o111 & status.st_mode >> 2
        if entry.kind == .symlink { status.st_mode = S_IFLNK | 0o777 }
        status.setSize(entry.size)
        status.st_mtim = Timestamp(nanoseconds: entry.modified).timespec
        return nodes.enter(
            parent.side, .entry(version, index), of: parent.directory,
            VersionNode.State(
                status: status, facts: VersionNode.Facts(content: content),
                accessList: parent.accessList))
    }

    private func content(of version: Identifier, locally: Bool) throws(Errno) -> VersionContent {
        do throws(VolumeError) {
            return try volume.versions.content(of: version, locally: locally)
        } catch {
            throw Errno(error)
        }
    }

    // MARK: Attributes

    func getattr(_ request: Request, _ id: UInt64) {
        request.answer { () throws(Errno) in
            request.reply(try nodes.find(id).status, seconds: KernelCache.seconds)
        }
    }

    func readlink(_ request: Request, _ id: UInt64) {
        request.answer { () throws(Errno) in
            let target = try nodes.find(id).linkTarget()
            Array(target.prefix(Int(PATH_MAX)) + [0]).asCString {
                _ = fuse_reply_readlink(request.raw, $0)
            }
        }
    }

    func getxattr(_ request: Request, _ id: UInt64, _ name: UnsafePointer<CChar>, size: Int) {
        request.answer { () throws(Errno) in
            guard strcmp(name, Protection.accessListName) == 0 else { throw Errno(ENODATA) }
            let list = try nodes.find(id).readableAccessList
            guard !list.isEmpty else { throw Errno(ENODATA) }
            try request.reply(value: list, size: size)
        }
    }

    // MARK: Listing

    /// Calls `answer` with the names in a directory.
    func list(
        _ request: Request, _ id: UInt64, _ answer: @escaping @Sendable (Request, [Name]) -> Void
    ) throws(Errno) {
        let node = try nodes.find(id)
        let user = request.onlooker
        guard case .document(_, let name) = node.place else {
            if user.isRoot { return answer(request, names(in: node, for: user)) }
            // Visibility may be known only when the recorder has caught up.
            return parking.park(
                request, on: .questions,
                { () throws(Errno) -> [Name] in self.names(in: node, for: user) },
                answer: { request, names in answer(request, names) })
        }
        parking.park(
            request, on: .questions,
            { () throws(Errno) -> [Name] in
                do throws(Errno) {
                    let state = try self.document(name, in: node, for: user)
                    self.nodes.update(node, state)
                    return state.facts?.history?.visible(to: user).fileNames ?? []
                } catch {
                    guard error == .notFound, node.isJustEmptied else { throw error }
                    return []
                }
            },
            answer: { request, names in answer(request, names) })
    }

    private func names(in node: VersionNode, for user: Requester) -> [Name] {
        switch node.place {
        case .directory: conflicted(in: node, for: user)
        case .past(_, let time): past(in: node, at: time, for: user)
        // These are read from the journal each time the directory is opened.
        case .document, .ownerFile: []
        case .version: node.children(of: [])
        case .entry(_, let index):
            node.children(of: node.content?.manifest.entries[index].path ?? [])
        }
    }

    /// `.versions` lists no documents; `.conflicts` lists those with conflicts.
    private func conflicted(in node: VersionNode, for user: Requester) -> [Name] {
        guard node.side == .conflicts, let path = tree.nodes.path(of: node.directory) else {
            return []
        }
        return (try? volume.conflicts.names(in: path, visibleTo: user)) ?? []
    }

    private func past(in node: VersionNode, at time: Int64, for user: Requester) -> [Name] {
        guard let facts = node.facts, facts.directories.allowedListing(by: user, at: time) else {
            return []
        }
        return facts.past.filter { entry in
            guard !user.isRoot, let version = entry.version else { return true }
            return shows(version, of: entry, to: user, at: time)
        }.map(\.name)
    }

    /// Whether a user finds a document in its directory of the past.
    private func shows(
        _ version: Version, of entry: PastEntry, to user: Requester, at time: Int64
    ) -> Bool {
        PlantedFault.opensThePast.isPlanted
            || version.isVisible(
                to: user, of: volume.past.protection(of: entry.item), during: time...time)
    }

    // MARK: Reading

    private func content(of node: VersionNode, locally: Bool) throws(Errno) -> VersionContent {
        if let content = node.content { return content }
        guard case .version(let id) = node.place else { throw .io }
        let content = try content(of: id, locally: locally)
        nodes.update(
            node,
            VersionNode.State(
                status: node.status, facts: VersionNode.Facts(content: content),
                accessList: node.accessList))
        return content
    }

    func open(_ request: Request, _ id: UInt64, flags: Int32) {
        request.answer { () throws(Errno) in
            let node = try nodes.find(id)
            guard flags & O_ACCMODE == O_RDONLY, flags & O_TRUNC == 0 else {
                throw node.ownerFile == nil ? .readOnly : .denied
            }
            if let file = node.ownerFile {
                ownerFileReaders.opened(file, by: request.caller.process)
                return answerOpen(request)
            }
            fetcher.parkReaching(
                request,
                { (locally) throws(Errno) in _ = try self.content(of: node, locally: locally) },
                answer: { request, _ in self.answerOpen(request) })
        }
    }

    /// The content of a node never changes, and its number is never reused, so the kernel's cache
    /// stays valid.
    private func answerOpen(_ request: Request) {
        var reply = cf_open_out()
        reply.fh = VersionNodes.mark
        reply.open_flags = UInt32(CF_FOPEN_KEEP_CACHE) | UInt32(CF_FOPEN_NOFLUSH)
        _ = request.reply(wire: reply)
    }

    func read(_ request: Request, _ id: UInt64, size: Int, offset: Int64) {
        guard let node = try? nodes.find(id) else { return request.refuse(.stale) }
        if let file = node.ownerFile {
            return file.read(size, at: offset).withUnsafeBytes { request.reply($0) }
        }
        fetcher.parkReaching(
            request, inLine: node.facts?.line,
            { (locally) throws(Errno) -> [UInt8] in
                let content = try self.content(of: node, locally: locally)
                var bytes = [UInt8](repeating: 0, count: size)
                let result = bytes.withUnsafeMutableBytes { buffer -> Result<Int, VolumeError> in
                    do throws(VolumeError) {
                        return .success(
                            try content.read(
                                node.entryIndex, into: buffer, at: offset, locally: locally))
                    } catch {
                        return .failure(error)
                    }
                }
                switch result {
                case .success(let count): return Array(bytes[..<count])
                case .failure(let error): throw Errno(error)
                }
            },
            answer: { request, bytes in bytes.withUnsafeBytes { request.reply($0) } })
    }
}

extension DocumentHistory {
    fileprivate func shown(in side: VersionSide) -> DocumentHistory {
        side == .all ? self : with(versions.indices.filter { side.shows(versions[$0]) })
    }
}

extension Protection {
    fileprivate func status(like other: stat) -> stat {
        var status = other
        (status.st_uid, status.st_gid) = (owner, group)
        status.st_mode = mode_t(mode)
        return status
    }
}

extension stat {
    /// The attributes of a read-only item that can be read by whoever may read the original.
    /// Directories keep their write bits, so that the kernel passes writers on to us, who answer
    /// EROFS, and so that copies of them can be filled.
    fileprivate func readOnly(isDirectory: Bool = true) -> stat {
        var status = self
        let readable = st_mode & 0o444
        status.st_mode = S_IFREG | readable
        status.st_nlink = isDirectory ? 2 : 1
        if isDirectory {
            status.st_mode = S_IFDIR | st_mode & 0o222 | readable | readable >> 2
            (status.st_size, status.st_blocks) = (0, 0)
        }
        return status
    }

    /// Sets the size of contents without holes.
    fileprivate mutating func setSize(_ size: UInt64) {
        st_size = off_t(clamping: size)
        st_blocks = blkcnt_t(clamping: size / 512 + (size % 512 == 0 ? 0 : 1))
    }
}
