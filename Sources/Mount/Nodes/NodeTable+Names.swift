import Glibc
import Synchronization
import SystemCalls

// Updates nodes after a name was changed. Called with the namespace locked for writing, after the
// system call.
extension NodeTable {
    /// The node of an inode, if the kernel knows it.
    func known(_ inode: UInt64) -> Node? { find(inode) }

    /// Gives a descriptor to a node that is about to lose its name, and keeps it until `unpin`.
    func pin(_ node: Node, _ open: () throws(Errno) -> SharedDescriptor) throws(Errno) {
        let hasDescriptor = locked {
            node.flags.insert(.pinned)
            return node.descriptor != nil
        }
        guard !hasDescriptor else { return }
        do throws(Errno) {
            let descriptor = try open()
            locked { if node.descriptor == nil { node.descriptor = descriptor } }
        } catch {
            remove(.pinned, from: node)
            throw error
        }
    }

    /// The removal or replacement of the node's name has ended, successfully or not. A node that
    /// still has a name is found by that again, so it needs no descriptor.
    func unpin(_ node: Node) {
        let spare = locked { () -> SharedDescriptor? in
            node.flags.subtract([.pinned, .beingReplaced])
            return node.descriptorNotNeeded()
        }
        withExtendedLifetime(spare) {}
    }

    /// A name of the node was removed. `isGone`: it was the last one, or the file was moved to the
    /// stash.
    func unnamed(
        _ node: Node, _ name: UnsafePointer<CChar>, in parent: Node, isGone: Bool, isStashed: Bool
    ) {
        let old = locked { node.parent }
        collecting(node) { index in
            if isStashed { node.flags.insert(.stashed) }
            if isGone {
                node.flags.insert(.orphan)
                if index[node.inode] == node.id { index.remove(node.inode) }
            }
            guard isGone || (node.parent === parent && node.isNamed(name)) else { return }
            node.parent?.children -= 1
            node.parent = nil
            node.name = [0]
        }
        if let old { collecting(old) { _ in } }
    }

    /// The node has another name now. `isLocal`: the name is that of a temporary or lock file.
    func renamed(
        _ node: Node, to name: UnsafePointer<CChar>, in parent: Node, isLocal: Bool
    ) {
        let old = locked { node.parent }
        locked {
            parent.children += 1
            node.parent?.children -= 1
            node.parent = parent
            node.name = terminated(name)
            // A draft that gets its final name counts as saved, although its creator may still have
            // it open.
            if !isLocal { node.flags.subtract([.local, .unsaved]) }
        }
        if let old { collecting(old) { _ in } }
    }

    /// The node has got another name, or its first one (O_TMPFILE). Counts a lookup.
    func linked(
        _ node: Node, _ name: UnsafePointer<CChar>, in parent: Node, isLocal: Bool
    ) {
        collecting(node) { index in
            node.lookups += 1
            if node.flags.remove(.orphan) != nil { index.set(node.inode, to: node.id) }
        }
        renamed(node, to: name, in: parent, isLocal: isLocal)
    }
}
