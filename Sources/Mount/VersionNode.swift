import CFuse
import CLinux
import Glibc
import Model
import Synchronization
import SystemCalls
import Volume

/// Something in a `.versions` directory, as the kernel knows it.
final class VersionNode: @unchecked Sendable {
    /// What tells one from another; the same thing has the same number as long as the kernel knows
    /// it.
    enum Place: Hashable, Sendable {
        /// `.versions` in the directory with that node number.
        case directory(UInt64)
        /// `.versions/NAME` there.
        case document(UInt64, Name)
        /// A version of a document, a file or a package.
        case version(Identifier)
        /// A part of a package's version, by its index in the manifest.
        case entry(Identifier, Int)
    }

    struct State {
        var status: stat
        var history: DocumentHistory?
        var content: VersionContent?
    }

    let id: UInt64
    let place: Place
    /// The directory of the tree that the history belongs to.
    let directory: Node
    let state: Mutex<State>
    /// Reads of one version take turns: what one has unpacked the next one finds.
    let line = Line()
    /// Guarded by the lock of `VersionNodes`.
    var lookups: UInt64 = 0

    init(id: UInt64, place: Place, directory: Node, state: State) {
        self.id = id
        self.place = place
        self.directory = directory
        var state = state
        // A range of their own, so that no program takes one for a file of the tree.
        state.status.st_ino = ino_t(1 << 62 | id & ~VersionNodes.mark)
        self.state = Mutex(state)
    }

    var status: stat { state.withLock { $0.status } }
    var history: DocumentHistory? { state.withLock { $0.history } }
    var content: VersionContent? { state.withLock { $0.content } }

    /// What was found anew.
    func update(_ new: State) {
        state.withLock { state in
            let inode = state.status.st_ino
            state.status = new.status
            state.status.st_ino = inode
            if let history = new.history { state.history = history }
            if let content = new.content { state.content = content }
        }
    }

    /// Which entry of the manifest this is.
    var entryIndex: Int {
        if case .entry(_, let index) = place { index } else { 0 }
    }

    func linkTarget() throws(Errno) -> [UInt8] {
        guard let content, content.manifest.entries.indices.contains(entryIndex),
            content.manifest.entries[entryIndex].kind == .symlink
        else { throw .invalid }
        return content.manifest.entries[entryIndex].target
    }
}

/// The virtual nodes that the kernel knows. Their numbers have the highest bit set.
final class VersionNodes: Sendable {
    private struct Contents {
        var nodes = Slab<VersionNode>()
        var places: [VersionNode.Place: UInt64] = [:]
    }

    private let contents = Mutex(Contents())

    static let mark: UInt64 = 1 << 63

    static func isVirtual(_ id: UInt64) -> Bool { id & mark != 0 }

    /// Whether no real file may have that name.
    static func isReserved(_ name: UnsafePointer<CChar>) -> Bool {
        name[0] == 46 && name[1] == 118 && strcmp(name, ".versions") == 0
    }

    func find(_ id: UInt64) throws(Errno) -> VersionNode {
        guard let node = contents.withLock({ $0.nodes[id & ~Self.mark] }) else { throw Errno.stale }
        return node
    }

    /// Counts a lookup of what stands at a place.
    func enter(_ place: VersionNode.Place, of directory: Node, _ state: VersionNode.State)
        -> VersionNode
    {
        let node = contents.withLock { contents -> VersionNode in
            let known = contents.places[place].flatMap { contents.nodes[$0] }
            let node =
                known
                ?? contents.nodes.insert {
                    VersionNode(
                        id: $0 | Self.mark, place: place, directory: directory, state: state)
                }
            contents.places[place] = node.id & ~Self.mark
            node.lookups += 1
            return node
        }
        node.update(state)
        return node
    }

    func forget(_ id: UInt64, _ count: UInt64) {
        contents.withLock { contents in
            guard let node = contents.nodes[id & ~Self.mark] else { return }
            node.lookups -= min(count, node.lookups)
            guard node.lookups == 0 else { return }
            _ = contents.nodes.remove(id & ~Self.mark)
            contents.places[node.place] = nil
        }
    }
}
