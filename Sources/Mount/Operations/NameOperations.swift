import CFuse
import CLinux
import Glibc
import Model
import SystemCalls
import Volume

/// Looks up and creates names: lookup, mknod, mkdir, symlink, link. The kernel keeps others from
/// changing a directory during these requests.
final class NameOperations: RequestGroup {
    let parts: RequestParts
    private let placeholders: PlaceholderMoves

    init(_ parts: RequestParts) {
        self.parts = parts
        placeholders = PlaceholderMoves(parts.tree)
    }

    func lookup(_ request: Request, in parent: UInt64, _ name: UnsafePointer<CChar>) {
        request.answer { () throws(Errno) in
            let parent = try tree.node(parent)
            let directory = try tree.directory(parent)
            var status = stat()
            let result = cl_fstatat(directory.raw, name, &status, Flag.noFollow)
            // The kernel may also cache that there is no such name.
            guard result != -ENOENT else {
                _ = request.reply(fuse_entry_param(absentForSeconds: KernelCache.seconds))
                return
            }
            try check(result)
            guard status.st_dev == tree.device else { throw Errno(EXDEV) }
            tree.present(&status, in: directory.raw, name)
            reply(request, tree.nodes.enter(name, in: parent, status: status), status)
        }
    }

    func mknod(
        _ request: Request, in parent: UInt64, _ name: UnsafePointer<CChar>, mode: mode_t,
        device: dev_t
    ) {
        make(request, in: parent, name) { [self] (directory, name, caller) throws(Errno) in
            let kind = mode & S_IFMT
            guard kind == S_IFCHR || kind == S_IFBLK else {
                _ = try callers.create(for: caller) { cl_mknodat(directory, name, mode, device) }
                return
            }
            // Only root may create devices, so it is created as root and then gets the caller as
            // its owner. In a set-group-ID directory the file system has chosen the group.
            var asRoot = caller
            (asRoot.uid, asRoot.gid) = (0, 0)
            _ = try callers.create(for: asRoot) { cl_mknodat(directory, name, mode, device) }
            guard caller.uid != 0 || caller.gid != 0 else { return }
            var above = stat()
            try check(cl_fstat(directory, &above))
            let made = try SharedDescriptor(pathOf: name, in: directory)
            let group = above.st_mode & S_ISGID != 0 ? gid_t.max : caller.gid
            try check(cl_chown_fd(made.raw, caller.uid, group))
        }
    }

    func mkdir(
        _ request: Request, in parent: UInt64, _ name: UnsafePointer<CChar>, mode: mode_t
    ) {
        make(request, in: parent, name) { [self] (directory, name, caller) throws(Errno) in
            _ = try callers.create(for: caller) { cl_mkdirat(directory, name, mode) }
        }
    }

    func symlink(
        _ request: Request, to target: [UInt8], in parent: UInt64, _ name: UnsafePointer<CChar>
    ) {
        make(request, in: parent, name) { [self] (directory, name, caller) throws(Errno) in
            try target.asCString { (target) throws(Errno) in
                _ = try callers.create(for: caller) { cl_symlinkat(target, directory, name) }
            }
        }
    }

    /// Creates a name by calling `body`, and replies with the new node, or with `error`.
    func make(
        _ request: Request, in parent: UInt64, _ name: UnsafePointer<CChar>,
        answering error: Errno? = nil,
        _ body: @escaping @Sendable (Int32, UnsafePointer<CChar>, Caller) throws(Errno) -> Void
    ) {
        parking.changingNames(request, name) { [self] (request, name, _) throws(Errno) in
            let parent = try tree.node(parent)
            try tree.refuseReserved(name)
            let directory = try tree.directory(parent)
            let caller = request.caller
            try body(directory.raw, name, caller)
            var status = stat()
            try check(cl_fstatat(directory.raw, name, &status, Flag.noFollow))
            let entered = tree.nodes.enter(
                name, in: parent, status: status,
                fresh: volume.ignoreFile.isLocal(name) ? .local : [])
            volume.events.created(
                Place(descriptor: directory.raw, inode: parent.inode, name: name), status: status,
                by: callers.actor(caller))
            if let error {
                tree.nodes.forget(entered.node.id)
                request.refuse(error)
            } else {
                reply(request, entered, status)
            }
            madeOwnerFiles.made(name, in: parent, by: caller.process)
        }
    }

    func beginLink(
        _ request: Request, _ id: UInt64, in parent: UInt64, _ name: UnsafePointer<CChar>
    ) {
        claims.make(request, in: parent, name) { self.link(request, id, in: parent, $0) }
    }

    private func link(
        _ request: Request, _ id: UInt64, in parent: UInt64, _ name: UnsafePointer<CChar>
    ) {
        parking.changingNames(request, name) { [self] (request, name, _) throws(Errno) in
            let source = try tree.node(id)
            let parent = try tree.node(parent)
            try tree.refuseReserved(name)
            guard !tree.nodes.flags(of: source).contains(.stashed) else { throw .notFound }
            let directory = try tree.directory(parent)
            let file = try tree.descriptor(source)
            let (copy, caller) = (terminated(name), request.caller)
            let again: @Sendable (Request) -> Void = { [parent] request in
                cl_thread_serve(caller.unique, caller.group)
                copy.asCString { self.beginLink(request, id, in: parent.id, $0) }
            }
            guard volume.hydration.preventEviction(source.inode) else {
                return fetcher.retry(request, else: {}, again)
            }
            defer { volume.hydration.allowEviction(source.inode) }
            if try placeholders.isNeeded(file, under: name, in: parent) {
                guard try fetcher.haveWhole(request, file, again) else { return }
            }
            try check(cl_link_fd(file.raw, directory.raw, name))
            var status = try file.status()
            tree.nodes.linked(source, name, in: parent, isLocal: volume.ignoreFile.isLocal(name))
            volume.events.linked(
                Place(descriptor: directory.raw, inode: parent.inode, name: name), status: status,
                by: callers.actor(request.caller))
            let isVolatile = tree.nodes.position(of: source).isVolatile
            volume.hydration.present(&status) { file.raw }
            reply(
                request,
                NodeTable.Entered(node: source, isVolatile: isVolatile, isStashed: false), status)
        }
    }

    /// Replies with a node. If the reply is not delivered, the lookup is not counted.
    private func reply(_ request: Request, _ entered: NodeTable.Entered, _ status: stat) {
        var status = status
        tree.numbers.show(&status)
        if !request.reply(fuse_entry_param(entered, status)) { tree.nodes.forget(entered.node.id) }
    }
}
