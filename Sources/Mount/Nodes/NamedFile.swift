import CLinux
import Glibc
import SystemCalls

/// An item as it is found under a name that is about to be changed.
struct NamedFile {
    var status: stat
    /// Nil if the kernel does not know it.
    var node: Node?
}

// Called with the namespace locked for writing.
extension Tree {
    func item(_ name: UnsafePointer<CChar>, in directory: SharedDescriptor) throws(Errno)
        -> NamedFile
    {
        var status = stat()
        try check(cl_fstatat(directory.raw, name, &status, Flag.noFollow))
        return NamedFile(status: status, node: nodes.known(UInt64(status.st_ino)))
    }

    /// The item that is about to lose its name. Its node gets a descriptor, which also keeps the
    /// file system from reusing the inode number before the kernel has forgotten the node.
    func pinnedItem(_ name: UnsafePointer<CChar>, in directory: SharedDescriptor) throws(Errno)
        -> NamedFile
    {
        let item = try item(name, in: directory)
        if let node = item.node {
            try nodes.pin(node) { () throws(Errno) in
                try SharedDescriptor(pathOf: name, in: directory.raw)
            }
        }
        return item
    }

    /// Ends what `pinnedItem`, and `ApplierGuard.admit` for a step of the applier, have begun.
    func unpin(_ file: NamedFile) {
        if let node = file.node { nodes.unpin(node) }
    }

    /// Updates the node of an item that has lost its name.
    func vanished(
        _ file: NamedFile, _ name: UnsafePointer<CChar>, in parent: Node, isStashed: Bool
    ) {
        guard let node = file.node else { return }
        let isDirectory = file.status.st_mode & S_IFMT == S_IFDIR
        let isGone = isStashed || isDirectory || file.status.st_nlink <= 1
        if isGone { numbers.forget(node.inode) }
        nodes.unnamed(node, name, in: parent, isGone: isGone, isStashed: isStashed)
    }

    /// Refuses to create names that are reserved for hidden directories.
    func refuseReserved(_ name: UnsafePointer<CChar>) throws(Errno) {
        if VersionNodes.isReserved(name) || ApplierGuard.isName(name) { throw .readOnly }
    }
}
