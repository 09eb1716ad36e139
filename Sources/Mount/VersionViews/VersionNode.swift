import CFuse
import CLinux
import Glibc
import Model
import Synchronization
import SystemCalls
import Volume

/// One of the two hidden directories of a directory.
enum VersionSide: Hashable, Sendable {
    /// `.versions`: all recorded versions.
    case all
    /// `.conflicts`: unresolved conflict versions.
    case conflicts

    func shows(_ version: Version) -> Bool { self == .all || version.kind == .conflict }
}

/// A node that is not in the tree: of a `.versions` or `.conflicts` directory, or an owner file.
final class VersionNode: @unchecked Sendable {
    /// What identifies a node. The same item has the same number as long as the kernel knows it.
    enum Place: Hashable, Sendable {
        /// The hidden directory of the directory with this node number.
        case directory(UInt64)
        /// The directory NAME in it.
        case document(UInt64, Name)
        /// A version of a document, a file or a package.
        case version(Identifier)
        /// A part of a package's version, by its index in the manifest.
        case entry(Identifier, Int)
        /// `.versions/@TIME` and the directories in it: a directory by its key in the journal, and
        /// a time.
        case past(Int64, Int64)
        /// An owner file that is answered for another device.
        case ownerFile(OwnerFile)
    }

    /// What was read from the journal for a node.
    final class Facts: Sendable {
        /// Only for a document.
        let history: DocumentHistory?
        /// Only for a version and the entries in it.
        let content: VersionContent?
        /// The entries of a past directory.
        let past: [PastEntry]
        /// How a past directory and those above it were protected.
        let directories: DirectoryProtections
        /// Reads of one version run one after the other, so that the next finds the chunk that one
        /// has unpacked.
        let line = SerialQueue()

        init(
            history: DocumentHistory? = nil, content: VersionContent? = nil, past: [PastEntry] = [],
            directories: DirectoryProtections = .unknown
        ) {
            self.history = history
            self.content = content
            self.past = past
            self.directories = directories
        }
    }

    struct State {
        var status: stat
        var facts: Facts?
        /// The version's access control list, which the kernel checks; empty if the mode says
        /// everything.
        var accessList: [UInt8] = []
        /// When the last version was removed from `.conflicts/NAME` (monotonic nanoseconds).
        var emptied: Int64?
    }

    let id: UInt64
    let side: VersionSide
    let place: Place
    /// The directory of the tree that the history belongs to.
    let directory: Node
    let state: Mutex<State>
    /// Guarded by the lock of `VersionNodes`.
    var lookups: UInt64 = 0
    /// It is one of the nodes whose facts are kept. Guarded by the lock of `VersionNodes`.
    var isRecent = false

    init(id: UInt64, side: VersionSide, place: Place, directory: Node, status: stat) {
        self.id = id
        self.side = side
        self.place = place
        self.directory = directory
        var status = status
        // These inode numbers have a range of their own, so that no program takes one for a file of
        // the tree.
        status.st_ino = ino_t(1 << 62 | id & ~VersionNodes.mark)
        state = Mutex(State(status: status))
    }

    var status: stat { state.withLock { $0.status } }
    var facts: Facts? { state.withLock { $0.facts } }
    var accessList: [UInt8] { state.withLock { $0.accessList } }
    var history: DocumentHistory? { facts?.history }
    var content: VersionContent? { facts?.content }

    /// Replaces the attributes, and the facts if there are new ones.
    fileprivate func update(_ new: State) {
        state.withLock { state in
            let inode = state.status.st_ino
            state.status = new.status
            state.status.st_ino = inode
            state.accessList = new.accessList
            if let facts = new.facts { state.facts = facts }
        }
    }

    /// Whether its facts can be read again when they are needed.
    fileprivate var isRenewable: Bool {
        switch place {
        case .document: true
        case .version: status.st_mode & S_IFMT == S_IFREG
        case .directory, .entry, .past, .ownerFile: false
        }
    }

    fileprivate func drop() { state.withLock { $0.facts = nil } }

    /// Whether the directory was emptied a moment ago. A program that empties it must still find
    /// it, to remove it.
    var isJustEmptied: Bool {
        state.withLock { $0.emptied.map { cl_clock_monotonic_ns() - $0 < 2_000_000_000 } ?? false }
    }

    func setEmptied(_ isEmptied: Bool) {
        state.withLock { state in
            state.emptied = isEmptied ? cl_clock_monotonic_ns() : nil
            if isEmptied { state.facts = nil }
        }
    }

    /// The access control list reduced to what the mode shows: reading, and what directories need.
    /// A past directory has the list of its directory in the tree.
    var readableAccessList: [UInt8] {
        if case .past = place { return accessList }
        let (list, isDirectory) = state.withLock {
            ($0.accessList, $0.status.st_mode & S_IFMT == S_IFDIR)
        }
        var shown = list
        // Entries of eight bytes follow a header of four; the permissions are in their third byte.
        for index in stride(from: 6, to: shown.count, by: 8) {
            let reads = shown[index] & 4
            shown[index] = isDirectory ? shown[index] & 2 | reads | reads >> 2 : reads
        }
        return shown
    }

    /// The names in a directory of a package's version.
    func children(of path: [UInt8]) -> [Name] {
        let slash = UInt8(ascii: "/")
        let prefix = path.isEmpty ? [] : path + [slash]
        return (content?.manifest.entries ?? []).compactMap { entry in
            guard entry.path.count > prefix.count, entry.path.starts(with: prefix) else {
                return nil
            }
            let rest = entry.path.dropFirst(prefix.count)
            return rest.contains(slash) ? nil : Name(bytes: Array(rest))
        }
    }

    /// The index of this entry in the manifest.
    var entryIndex: Int {
        if case .entry(_, let index) = place { index } else { 0 }
    }

    var ownerFile: OwnerFile? {
        if case .ownerFile(let file) = place { file } else { nil }
    }

    func linkTarget() throws(Errno) -> [UInt8] {
        if let ownerFile, ownerFile.isLink { return ownerFile.bytes }
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
        /// The nodes by side and place.
        var places: [Key: UInt64] = [:]
        /// The nodes whose facts are kept, in a ring.
        var recent: [VersionNode] = []
        var oldest = 0
    }

    /// The kernel may know a million versions that programs have looked at, and does not say which
    /// it no longer needs, so only this many keep their facts.
    private static let recentMax = 256

    private struct Key: Hashable {
        var side: VersionSide
        var place: VersionNode.Place
    }

    private let contents = Mutex(Contents())

    static let mark: UInt64 = 1 << 63

    static func isVirtual(_ id: UInt64) -> Bool { id & mark != 0 }

    /// Whether no real file may have this name.
    static func isReserved(_ name: UnsafePointer<CChar>) -> Bool { side(name) != nil }

    /// The hidden directory with this name.
    static func side(_ name: UnsafePointer<CChar>) -> VersionSide? {
        guard name[0] == 46 else { return nil }
        switch UInt8(bitPattern: name[1]) {
        case UInt8(ascii: "v"): return strcmp(name, ".versions") == 0 ? .all : nil
        case UInt8(ascii: "c"): return strcmp(name, ".conflicts") == 0 ? .conflicts : nil
        default: return nil
        }
    }

    func find(_ id: UInt64) throws(Errno) -> VersionNode {
        guard let node = contents.withLock({ $0.nodes[id & ~Self.mark] }) else { throw Errno.stale }
        return node
    }

    func known(_ side: VersionSide, _ place: VersionNode.Place) -> VersionNode? {
        contents.withLock { contents in
            contents.places[Key(side: side, place: place)].flatMap { contents.nodes[$0] }
        }
    }

    /// Counts a lookup of the node at a place, which is created if necessary.
    func enter(
        _ side: VersionSide, _ place: VersionNode.Place, of directory: Node,
        _ state: VersionNode.State
    ) -> VersionNode {
        let node = contents.withLock { contents -> VersionNode in
            let key = Key(side: side, place: place)
            let known = contents.places[key].flatMap { contents.nodes[$0] }
            let node =
                known
                ?? contents.nodes.insert {
                    VersionNode(
                        id: $0 | Self.mark, side: side, place: place, directory: directory,
                        status: state.status)
                }
            contents.places[key] = node.id & ~Self.mark
            node.lookups += 1
            return node
        }
        update(node, state)
        return node
    }

    /// Updates a node. Drops the facts of an older one if too many are kept.
    func update(_ node: VersionNode, _ state: VersionNode.State) {
        node.update(state)
        guard state.facts != nil, node.isRenewable else { return }
        let dropped = contents.withLock { contents -> VersionNode? in
            if node.isRecent { return nil }
            node.isRecent = true
            if contents.recent.count < Self.recentMax {
                contents.recent.append(node)
                return nil
            }
            let dropped = contents.recent[contents.oldest]
            dropped.isRecent = false
            contents.recent[contents.oldest] = node
            contents.oldest = (contents.oldest + 1) % Self.recentMax
            return dropped
        }
        dropped?.drop()
    }

    func forget(_ id: UInt64, _ count: UInt64) {
        contents.withLock { contents in
            guard let node = contents.nodes[id & ~Self.mark] else { return }
            node.lookups -= min(count, node.lookups)
            guard node.lookups == 0 else { return }
            _ = contents.nodes.remove(id & ~Self.mark)
            contents.places[Key(side: node.side, place: node.place)] = nil
        }
    }
}
