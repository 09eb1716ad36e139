import CFuse
import CLinux
import Glibc
import Model
import SystemCalls
import Volume

// Looking up and creating names. The kernel keeps others from changing a directory during these
// requests.
extension Driver {
    func lookup(_ request: Request, in parent: UInt64, _ name: UnsafePointer<CChar>) {
        if VersionNodes.isVirtual(parent) || VersionNodes.isReserved(name) {
            return lookupVersions(request, in: parent, name)
        }
        if parent == nodes.root.id, ApplierGuard.isName(name) { return lookupIncoming(request) }
        request.answer { () throws(Errno) in
            let parent = try node(parent)
            let directory = try directory(parent)
            var status = stat()
            let result = cl_fstatat(directory.raw, name, &status, Flag.noFollow)
            // The kernel may also cache that there is no such name.
            guard result != -ENOENT else {
                _ = request.reply(fuse_entry_param(absentForSeconds: Driver.cacheSeconds))
                return
            }
            try check(result)
            guard status.st_dev == device else { throw Errno(EXDEV) }
            present(&status, in: directory.raw, name)
            reply(request, nodes.enter(name, in: parent, status: status), status)
        }
    }

    func forget(_ id: UInt64, _ count: UInt64) {
        if VersionNodes.isVirtual(id) {
            versions.forget(id, count)
        } else {
            nodes.forget(id, count: count)
        }
    }

    func mknod(
        _ request: Request, in parent: UInt64, _ name: UnsafePointer<CChar>, mode: mode_t,
        device: dev_t
    ) {
        make(request, in: parent, name) { [self] (directory, name, caller) throws(Errno) in
            let kind = mode & S_IFMT
            guard kind == S_IFCHR || kind == S_IFBLK else {
                _ = try create(for: caller) { cl_mknodat(directory, name, mode, device) }
                return
            }
            // Only root may create devices, so it is created as root and then gets the caller as
            // its owner. In a set-group-ID directory the file system has chosen the group.
            var asRoot = caller
            (asRoot.uid, asRoot.gid) = (0, 0)
            _ = try create(for: asRoot) { cl_mknodat(directory, name, mode, device) }
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
            _ = try create(for: caller) { cl_mkdirat(directory, name, mode) }
        }
    }

    func symlink(
        _ request: Request, to target: UnsafePointer<CChar>, in parent: UInt64,
        _ name: UnsafePointer<CChar>
    ) {
        let target = terminated(target)
        make(request, in: parent, name) { [self] (directory, name, caller) throws(Errno) in
            try target.asCString { (target) throws(Errno) in
                _ = try create(for: caller) { cl_symlinkat(target, directory, name) }
            }
        }
    }

    /// Creates a name by calling `body`, and replies with the new node.
    private func make(
        _ request: Request, in parent: UInt64, _ name: UnsafePointer<CChar>,
        _ body: @escaping @Sendable (Int32, UnsafePointer<CChar>, Caller) throws(Errno) -> Void
    ) {
        parking.changingNames(request, name) { [self] (request, name, _) throws(Errno) in
            let parent = try node(parent)
            try refuseReserved(name)
            let directory = try directory(parent)
            let caller = request.caller
            try body(directory.raw, name, caller)
            var status = stat()
            try check(cl_fstatat(directory.raw, name, &status, Flag.noFollow))
            let entered = nodes.enter(
                name, in: parent, status: status,
                fresh: volume.ignoreFile.isLocal(name) ? .local : [])
            volume.events.created(
                Place(descriptor: directory.raw, inode: parent.inode, name: name), status: status,
                by: actor(caller))
            reply(request, entered, status)
        }
    }

    func link(
        _ request: Request, _ id: UInt64, in parent: UInt64, _ name: UnsafePointer<CChar>
    ) {
        parking.changingNames(request, name) { [self] (request, name, _) throws(Errno) in
            let source = try node(id)
            let parent = try node(parent)
            try refuseReserved(name)
            guard !nodes.flags(of: source).contains(.stashed) else { throw .notFound }
            let directory = try directory(parent)
            let file = try descriptor(source)
            let (copy, caller) = (terminated(name), request.caller)
            let again: @Sendable (Request) -> Void = { [parent] request in
                cl_thread_serve(caller.unique, caller.group)
                copy.asCString { self.beginLink(request, id, in: parent.id, $0) }
            }
            guard volume.hydration.preventEviction(source.inode) else {
                return retry(request, else: {}, again)
            }
            defer { volume.hydration.allowEviction(source.inode) }
            if try isNeeded(file, under: name, in: parent) {
                guard try haveWhole(request, file, again) else { return }
            }
            try check(cl_link_fd(file.raw, directory.raw, name))
            var status = try file.status()
            nodes.linked(source, name, in: parent, isLocal: volume.ignoreFile.isLocal(name))
            volume.events.linked(
                Place(descriptor: directory.raw, inode: parent.inode, name: name), status: status,
                by: actor(request.caller))
            let isVolatile = nodes.position(of: source).isVolatile
            volume.hydration.present(&status) { file.raw }
            reply(
                request,
                NodeTable.Entered(node: source, isVolatile: isVolatile, isStashed: false), status)
        }
    }

    // MARK: Replies

    /// Replies with a node. If the reply is not delivered, the lookup is not counted.
    func reply(_ request: Request, _ entered: NodeTable.Entered, _ status: stat) {
        var status = status
        numbers.show(&status)
        if !request.reply(fuse_entry_param(entered, status)) { nodes.forget(entered.node.id) }
    }

    /// Refuses to create names that are reserved for hidden directories.
    func refuseReserved(_ name: UnsafePointer<CChar>) throws(Errno) {
        if VersionNodes.isReserved(name) || ApplierGuard.isName(name) { throw .readOnly }
    }
}

extension fuse_entry_param {
    init(_ entered: NodeTable.Entered, _ status: stat) {
        self.init()
        ino = entered.node.id
        attr = status
        if entered.isStashed { attr.st_nlink = 0 }
        entry_timeout = Driver.cacheSeconds
        attr_timeout = Driver.cacheSeconds(status.st_mode, isVolatile: entered.isVolatile)
    }

    init(absentForSeconds seconds: Double) {
        self.init()
        entry_timeout = seconds
    }
}
