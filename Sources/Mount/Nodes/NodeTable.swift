import CFuse
import CLinux
import Glibc
import Model
import Synchronization
import SystemCalls

/// All nodes that the kernel knows, by number and by inode.
///
/// Locks are taken in this order: the namespace (`Tree.namespace`), an `OpenState.life`, the
/// table. No system call is made under the table's lock; descriptors that are no longer needed are
/// passed out and closed after it is released.
final class NodeTable: Sendable {
    /// A class only because nodes and descriptors are passed into and out of the lock. Nothing else
    /// refers to it.
    private final class Contents: @unchecked Sendable {
        var nodes: Slab<Node>
        var index: InodeIndex
        var clock: DirectoryClock

        init(nodes: Slab<Node>, index: InodeIndex, clock: DirectoryClock) {
            self.nodes = nodes
            self.index = index
            self.clock = clock
        }
    }

    private let contents: Mutex<Contents>
    let root: Node
    /// Closes the descriptors of nodes without names on another thread. The last descriptor of a
    /// removed file frees its blocks.
    let closing = CallbackSlot<@Sendable ([SharedDescriptor]) -> Void>()

    init(root descriptor: SharedDescriptor, inode: UInt64, directoriesMax: Int = 2048) {
        var nodes = Slab<Node>()
        let root = nodes.insert {
            Node(id: $0, inode: inode, parent: nil, name: [0], flags: .directory)
        }
        root.lookups = 1
        root.descriptor = descriptor
        var index = InodeIndex()
        index.set(inode, to: root.id)
        self.root = root
        contents = Mutex(
            Contents(nodes: nodes, index: index, clock: DirectoryClock(capacity: directoriesMax)))
    }

    var count: Int { contents.withLock { $0.nodes.count } }

    subscript(id: UInt64) -> Node? { contents.withLock { $0.nodes[id] } }

    // MARK: Adding and removing nodes

    struct Entered: Sendable {
        let node: Node
        /// The kernel must not cache its attributes.
        let isVolatile: Bool
        let isStashed: Bool
    }

    /// Counts a lookup of a name's node, which is created if the inode is new. `fresh` has the
    /// flags of a file that a program has just created.
    func enter(
        _ name: UnsafePointer<CChar>, in parent: Node, status: stat, fresh: Node.Flags? = nil
    ) -> Entered {
        var spare: SharedDescriptor?
        let entered = contents.withLock { contents -> Entered in
            let inode = UInt64(status.st_ino)
            let isDirectory = status.st_mode & S_IFMT == S_IFDIR
            if let id = contents.index[inode], let node = contents.nodes[id] {
                if fresh == nil, node.flags.contains(.directory) == isDirectory {
                    node.lookups += 1
                    if node !== root { spare = relocate(node, to: parent, name) }
                    return Entered(
                        node: node, isVolatile: node.isVolatile,
                        isStashed: node.flags.contains(.stashed))
                }
                // The tree was changed without the mount, and the inode number belongs to something
                // else now.
                contents.index.remove(inode)
                node.flags.insert(.orphan)
            }
            var flags = fresh ?? []
            if isDirectory { flags.insert(.directory) }
            let node = contents.nodes.insert {
                Node(id: $0, inode: inode, parent: parent, name: terminated(name), flags: flags)
            }
            node.lookups = 1
            parent.children += 1
            contents.index.set(inode, to: node.id)
            return Entered(node: node, isVolatile: false, isStashed: false)
        }
        _ = spare
        return entered
    }

    /// Adds a file without a name (O_TMPFILE).
    func enterOrphan(_ descriptor: SharedDescriptor, status: stat, fresh: Node.Flags) -> Node {
        contents.withLock { contents in
            let node = contents.nodes.insert {
                Node(
                    id: $0, inode: UInt64(status.st_ino), parent: nil, name: [0],
                    flags: fresh.union(.orphan))
            }
            node.lookups = 1
            node.descriptor = descriptor
            return node
        }
    }

    /// Adds a directory beside the tree, which is never removed.
    func enterBeside(_ descriptor: SharedDescriptor, inode: UInt64) -> Node {
        contents.withLock { contents in
            let node = contents.nodes.insert {
                Node(id: $0, inode: inode, parent: nil, name: [0], flags: .directory)
            }
            node.lookups = 1
            node.descriptor = descriptor
            contents.index.set(inode, to: node.id)
            return node
        }
    }

    func countLookup(of node: Node) { contents.withLock { _ in node.lookups += 1 } }

    /// Updates a node's place. Returns a descriptor that it no longer needs, which the caller
    /// closes after releasing the lock.
    private func relocate(_ node: Node, to parent: Node, _ name: UnsafePointer<CChar>)
        -> SharedDescriptor?
    {
        if node.parent !== parent {
            node.parent?.children -= 1
            parent.children += 1
            node.parent = parent
            node.name = terminated(name)
        } else if !node.isNamed(name) {
            node.name = terminated(name)
        }
        return node.descriptorNotNeeded()
    }

    /// Handles FORGET.
    func forget(_ forgotten: UnsafeBufferPointer<(id: UInt64, count: UInt64)>) {
        var gone: [AnyObject] = []
        contents.withLock { contents in
            for (id, count) in forgotten {
                guard let node = contents.nodes[id], node !== root else { continue }
                node.lookups -= min(node.lookups, count)
                Self.collect(node, from: contents, into: &gone)
            }
        }
        close(gone)
    }

    private func close(_ gone: [AnyObject]) {
        let large = gone.compactMap { ($0 as? SharedDescriptor)?.ifLargeAndRemoved }
        if !large.isEmpty { closing.current?(large) }
    }

    func forget(_ id: UInt64, count: UInt64 = 1) {
        var one = (id: id, count: count)
        withUnsafePointer(to: &one) { forget(UnsafeBufferPointer(start: $0, count: 1)) }
    }

    /// Removes a node that is no longer needed, and then ancestors that were needed only for it.
    private static func collect(
        _ start: Node, from contents: Contents, into gone: inout [AnyObject]
    ) {
        var next: Node? = start
        while let node = next, node.id != 1, node.lookups == 0, node.children == 0,
            node.opened == nil, contents.nodes.remove(node.id) != nil
        {
            if contents.index[node.inode] == node.id { contents.index.remove(node.inode) }
            gone.append(node)
            // The clock may still refer to the node, which must not keep its descriptor open.
            if let descriptor = node.descriptor.take() { gone.append(descriptor) }
            next = node.parent
            next?.children -= 1
            node.parent = nil
        }
    }

    // MARK: For extensions in other files

    func locked<Result: Sendable>(_ body: () -> Result) -> Result {
        contents.withLock { _ in body() }
    }

    func find(_ inode: UInt64) -> Node? {
        contents.withLock { contents in contents.index[inode].flatMap { contents.nodes[$0] } }
    }

    /// Runs `body` under the lock, and removes the node if it is not needed any more.
    func collecting<Result: Sendable>(_ node: Node, _ body: (inout InodeIndex) -> Result) -> Result
    {
        var gone: [AnyObject] = []
        let result = contents.withLock { contents in
            let result = body(&contents.index)
            Self.collect(node, from: contents, into: &gone)
            return result
        }
        close(gone)
        return result
    }

    // MARK: Positions

    struct Position: Sendable {
        var descriptor: SharedDescriptor?
        var parent: Node?
        var parentDescriptor: SharedDescriptor?
        var name: [UInt8]
        var isVolatile: Bool
        var isStashed: Bool
    }

    func position(of node: Node) -> Position {
        contents.withLock { _ in
            node.flags.insert(.used)
            node.parent?.flags.insert(.used)
            return Position(
                descriptor: node.descriptor, parent: node.parent,
                parentDescriptor: node.parent?.descriptor, name: node.name,
                isVolatile: node.isVolatile,
                isStashed: node.flags.contains(.stashed))
        }
    }

    /// The descriptor that the node has, if any.
    func descriptor(of node: Node) -> SharedDescriptor? {
        contents.withLock { _ in
            node.flags.insert(.used)
            return node.descriptor
        }
    }

    /// Keeps a directory's descriptor until the clock takes it. Returns the descriptor to use,
    /// which may be an earlier one.
    func keep(_ descriptor: SharedDescriptor, ofDirectory node: Node) -> SharedDescriptor {
        var spare: SharedDescriptor?
        let kept = contents.withLock { contents in
            if let already = node.descriptor { return already }
            node.descriptor = descriptor
            node.flags.insert(.used)
            spare = contents.clock.insert(node)
            return descriptor
        }
        withExtendedLifetime(spare) {}
        return kept
    }

    /// The path from the root to a node; nil if it has no name.
    func path(of node: Node) -> [Name]? {
        contents.withLock { _ in
            var path: [Name] = []
            var next = node
            while next !== root {
                guard let parent = next.parent, !next.flags.contains(.orphan) else { return nil }
                path.append(Name(bytes: Array(next.name.dropLast())))
                next = parent
            }
            return path.reversed()
        }
    }

    func flags(of node: Node) -> Node.Flags { contents.withLock { _ in node.flags } }

    func insert(_ flag: Node.Flags, into node: Node) {
        contents.withLock { _ in node.flags.formUnion(flag) }
    }

    func remove(_ flag: Node.Flags, from node: Node) {
        contents.withLock { _ in node.flags.subtract(flag) }
    }

    /// The number of descriptors that nodes hold.
    var descriptorCount: Int {
        contents.withLock { contents in
            contents.nodes.reduce(0) { $0 + ($1.descriptor == nil ? 0 : 1) }
        }
    }
}
