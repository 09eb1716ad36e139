import Glibc
import Model
import SystemCalls
import Volume

/// Removes names: unlink and rmdir. The namespace is locked for writing during the system call and
/// the update of the nodes.
final class RemovalOperations: RequestGroup {
    let parts: RequestParts

    init(_ parts: RequestParts) { self.parts = parts }

    func unlink(_ request: Request, in id: UInt64, _ name: UnsafePointer<CChar>) {
        parking.changingNames(request, name) { [self] (request, name, _) throws(Errno) in
            let parent = try tree.node(id)
            let caller = request.caller
            try remove(name, in: parent, by: caller) {
                [self] (file, directory, actor) throws(Errno) in
                staleSaves.noteVacated(
                    file.status, name, in: parent, isGone: file.status.st_nlink <= 1, by: caller)
                tree.nodes.displacing(file.node, unique: caller.unique)
                return try volume.names.unlink(
                    Place(descriptor: directory.raw, inode: parent.inode, name: name),
                    status: file.status, traits: tree.traits(file.node), by: actor)
            }
            request.done()
            madeOwnerFiles.removed(name)
        }
    }

    func rmdir(_ request: Request, in id: UInt64, _ name: UnsafePointer<CChar>) {
        request.answer { () throws(Errno) in
            let parent = try tree.node(id)
            try remove(name, in: parent, by: request.caller) {
                [self] (file, directory, actor) throws(Errno) in
                try volume.names.rmdir(
                    Place(descriptor: directory.raw, inode: parent.inode, name: name),
                    status: file.status, by: actor)
                return false
            }
            request.done()
        }
    }

    /// Removes a name by calling `body`, which returns whether the file was moved to the stash.
    private func remove(
        _ name: UnsafePointer<CChar>, in parent: Node, by caller: Caller,
        _ body: (NamedFile, SharedDescriptor, Actor) throws(Errno) -> Bool
    ) throws(Errno) {
        try tree.refuseReserved(name)
        let directory = try tree.directory(parent)
        let actor = callers.actor(caller)
        let isApplier = callers.isApplier(caller)
        try tree.namespace.writing { () throws(Errno) in
            let file = try tree.pinnedItem(name, in: directory)
            defer { tree.unpin(file) }
            if isApplier { try callers.applierGuard.admitRemoval(parent, name, file) }
            let isStashed = try body(file, directory, actor)
            tree.vanished(file, name, in: parent, isStashed: isStashed)
            if isApplier { callers.applierGuard.carriedOut() }
        }
    }
}
