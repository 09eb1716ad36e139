import Glibc
import Synchronization

// What a changed name means for nodes. Called with the namespace locked for writing, after the
// system call.
extension NodeTable {
    /// The node of an inode, if the kernel knows it.
    func known(_ inode: UInt64) -> Node? { find(inode) }

    /// Gives a node whose name is about to go away a descriptor to live by.
    func pin(_ node: Node, _ descriptor: SharedDescriptor) {
        locked { if node.descriptor == nil { node.descriptor = descriptor } }
    }

    /// A name of the node went away: `isGone` when it was the last one, or its bytes went to the
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

    /// The node stands at another name now. `isLocal`: whether that name is a temporary or lock
    /// file's.
    func renamed(
        _ node: Node, to name: UnsafePointer<CChar>, in parent: Node, isLocal: Bool
    ) {
        let old = locked { node.parent }
        locked {
            parent.children += 1
            node.parent?.children -= 1
            node.parent = parent
            node.name = terminated(name)
            // A draft that gets its final name is saved, although its maker has it open still.
            if !isLocal { node.flags.subtract([.local, .unsaved]) }
        }
        if let old { collecting(old) { _ in } }
    }

    /// The node got another name, or its first (O_TMPFILE); counts a lookup.
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
