import CFuse
import CLinux
import Glibc
import SystemCalls
import Volume

/// The tree of files as the kernel knows it: its nodes, and how the file of a node is found again,
/// by its descriptor or by its name in its parent with the inode verified.
final class Tree: Sendable {
    let volume: Volume
    let nodes: NodeTable
    /// The inode numbers that programs are shown instead of the tree's own.
    let numbers = FileNumbers()
    let namespace = NamespaceLock()
    /// The device of the tree's file system; nothing below it may be on another one.
    let device: dev_t

    init(of volume: Volume) throws(Errno) {
        self.volume = volume
        let root = SharedDescriptor(owning: try check(cl_openat(volume.root, ".", Flag.path, 0)))
        let status = try root.status()
        device = status.st_dev
        nodes = NodeTable(root: root, inode: UInt64(status.st_ino))
    }

    /// The node with this number.
    func node(_ id: UInt64) throws(Errno) -> Node {
        guard let node = nodes[id] else {
            throw VersionNodes.isVirtual(id) ? Errno.readOnly : Errno.stale
        }
        return node
    }

    // MARK: Files

    /// A directory's descriptor, opened again through its parents if the clock has taken it.
    func directory(_ node: Node) throws(Errno) -> SharedDescriptor {
        if let descriptor = nodes.descriptor(of: node) { return descriptor }
        return try settled { () throws(Errno) in try openDirectory(node) }
    }

    /// A node's attributes, and for how many seconds the kernel may cache them.
    func status(of node: Node) throws(Errno) -> (status: stat, seconds: Double) {
        try settled { () throws(Errno) in
            let position = nodes.position(of: node)
            var status = stat()
            if let descriptor = position.descriptor {
                try check(cl_fstat(descriptor.raw, &status))
                volume.hydration.present(&status) { descriptor.raw }
            } else {
                let parent = try directory(at: position)
                try position.name.asCString { (name) throws(Errno) in
                    _ = try check(cl_fstatat(parent.raw, name, &status, Flag.noFollow))
                }
                try verify(status, is: node)
                position.name.asCString { present(&status, in: parent.raw, $0) }
            }
            if position.isStashed { status.st_nlink = 0 }
            return (
                status, KernelCache.seconds(status.st_mode, isVolatile: position.isVolatile)
            )
        }
    }

    /// An O_PATH descriptor of any node.
    func descriptor(_ node: Node) throws(Errno) -> SharedDescriptor {
        try settled { () throws(Errno) in
            let position = nodes.position(of: node)
            if let descriptor = position.descriptor { return descriptor }
            let parent = try directory(at: position)
            return try position.name.asCString { (name) throws(Errno) in
                let descriptor = try SharedDescriptor(pathOf: name, in: parent.raw)
                try verify(try descriptor.status(), is: node)
                return descriptor
            }
        }
    }

    /// Tries without locks. If the node was not found, tries again while no name can be moved.
    private func settled<Result>(_ body: () throws(Errno) -> Result) throws(Errno) -> Result {
        do throws(Errno) {
            return try body()
        } catch {
            guard error.isMissing else { throw error }
        }
        do throws(Errno) {
            return try namespace.reading(body)
        } catch {
            throw error.code == ENOENT ? .stale : error
        }
    }

    private func openDirectory(_ node: Node) throws(Errno) -> SharedDescriptor {
        let position = nodes.position(of: node)
        if let descriptor = position.descriptor { return descriptor }
        let parent = try directory(at: position)
        let opened = try position.name.asCString { (name) throws(Errno) in
            try SharedDescriptor(pathOf: name, in: parent.raw, flags: O_DIRECTORY)
        }
        try verify(try opened.status(), is: node)
        return nodes.keep(opened, ofDirectory: node)
    }

    private func directory(at position: NodeTable.Position) throws(Errno) -> SharedDescriptor {
        if let descriptor = position.parentDescriptor { return descriptor }
        guard let parent = position.parent else { throw .stale }
        return try openDirectory(parent)
    }

    private func verify(_ status: stat, is node: Node) throws(Errno) {
        guard UInt64(status.st_ino) == node.inode, status.st_dev == device else { throw .stale }
    }

    /// Whether a program can still write to the file, perhaps through a mapping that has outlived
    /// its handle. A read lease is then refused.
    func isMapped(_ file: SharedDescriptor) -> Bool {
        let real = cl_reopen(file.raw, O_RDONLY | O_NONBLOCK)
        guard real >= 0 else { return false }
        defer { _ = cl_close(real) }
        return cl_probe_writers(real) == -EAGAIN
    }

    // MARK: Attributes

    /// Adjusts the attributes of the item with this name to what programs are shown.
    func present(_ status: inout stat, in directory: Int32, _ name: UnsafePointer<CChar>) {
        var file: SharedDescriptor?
        volume.hydration.present(&status) {
            file = try? SharedDescriptor(pathOf: name, in: directory)
            return file?.raw
        }
        withExtendedLifetime(file) {}
    }

    /// As above, for statx(2).
    func present(_ wire: inout cf_statx, _ file: SharedDescriptor) {
        guard let found = try? file.status() else { return }
        var shown = found
        volume.hydration.present(&shown) { file.raw }
        wire.blocks = UInt64(shown.st_blocks)
        wire.mtime = cf_sx_time(shown.st_mtim)
        wire.ctime = cf_sx_time(shown.st_ctim)
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
