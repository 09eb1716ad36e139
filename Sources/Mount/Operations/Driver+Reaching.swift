import CFuse
import CLinux
import Glibc
import SystemCalls

// Finding a node in the tree again: by its descriptor, or by its name in its parent with the inode
// verified.
extension Driver {
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
                status, Driver.cacheSeconds(status.st_mode, isVolatile: position.isVolatile)
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
}
