import CFuse
import CLinux
import Glibc
import Model
import Synchronization
import SystemCalls
import Volume

/// Checks the applier's system calls. Only that process sees prepared items, and it may change only
/// what its present step names, and only while that is as the step expects.
package final class ApplierGuard: Sendable {
    /// The name of the hidden directory in the root, which exists only for the applier.
    package static let name = ".concord-incoming"

    struct State {
        var step: ApplierStep?
        /// Databases whose logs hold nothing, by path.
        var logs: [[Name]: DatabaseLog.State] = [:]
        /// Why the driver has refused the step.
        var refusal: ApplierResult?
        /// The step was carried out.
        var isDone = false
    }

    /// The applier's process id; 0 while it is not running.
    private let process = Atomic<Int32>(0)
    private let state = Mutex(State())
    /// The node of STORE/incoming.
    let incoming: Node
    private let tree: Tree
    private let volume: Volume

    init(_ tree: Tree) throws(Errno) {
        self.tree = tree
        volume = tree.volume
        let incoming = SharedDescriptor(
            owning: try check(cl_openat(volume.arrivals.directory, ".", Flag.path, 0)))
        self.incoming = tree.nodes.enterBeside(
            incoming, inode: UInt64(try incoming.status().st_ino))
    }

    static func isName(_ name: UnsafePointer<CChar>) -> Bool {
        name[0] == 46 && name[1] == 99 && strcmp(name, ApplierGuard.name) == 0
    }

    func isApplier(_ process: Int32) -> Bool {
        process != 0 && process == self.process.load(ordering: .relaxed)
    }

    func become(_ process: Int32) { self.process.store(process, ordering: .sequentiallyConsistent) }

    // MARK: Steps

    func begin(_ step: ApplierStep, logs: [[Name]: DatabaseLog.State] = [:]) {
        state.withLock { $0 = State(step: step, logs: logs) }
    }

    func end() -> State {
        state.withLock { state in
            defer { state = State() }
            return state
        }
    }

    var step: ApplierStep? { state.withLock { $0.step } }

    func areEmpty(_ logs: DatabaseLog.State, at path: [Name]?) -> Bool {
        guard let path else { return false }
        return state.withLock { $0.logs[path] == logs }
    }

    func carriedOut() { state.withLock { $0.isDone = true } }

    /// Notes why a call of the applier is refused, and returns the error for it.
    func refuse(_ reason: ApplierResult) -> Errno {
        state.withLock { $0.refusal = reason }
        return Errno(ECANCELED)
    }
}

// The checks of the applier's calls, made at the moment of the change.
extension ApplierGuard {
    /// The path of the item that a call concerns; nil in `incoming`.
    private func place(_ parent: Node, _ name: UnsafePointer<CChar>) -> [Name]? {
        tree.nodes.path(of: parent).map { $0 + [Name(cString: name)] }
    }

    private func isThere(_ place: TreePlace, _ parent: Node, _ name: UnsafePointer<CChar>) -> Bool {
        (place.directory == 0 || place.directory == parent.inode)
            && self.place(parent, name) == place.path
    }

    /// Called with the namespace locked for writing. Returns true if two items are exchanged.
    func admitRename(
        _ from: (parent: Node, name: UnsafePointer<CChar>), _ moved: NamedFile,
        _ to: (parent: Node, name: UnsafePointer<CChar>), _ replaced: NamedFile?, flags: UInt32
    ) throws(Errno) -> Bool {
        let comesIn = from.parent === incoming
        if comesIn, to.parent === incoming { return false }
        let isExchange = flags & Flag.renameExchange != 0
        switch step {
        case .make(_, let place) where comesIn && !isExchange:
            guard isThere(place, to.parent, to.name) else { throw refuse(.gone) }
            guard replaced == nil else { throw refuse(.taken) }
            if FileSnapshot(moved.status).isFile { try admitBesideLogs(to.parent, to.name) }
            return false
        case .replace(_, let place, let expected) where comesIn && !isExchange:
            guard let replaced else { throw refuse(.gone) }
            guard isThere(place, to.parent, to.name) else { throw refuse(.changed) }
            try admit(replaced, expected)
            try admitBesideLogs(to.parent, to.name)
            return false
        case .replacePackage(_, let place, let inode, _) where comesIn && isExchange:
            guard let replaced else { throw refuse(.gone) }
            guard isThere(place, to.parent, to.name), replaced.status.st_ino == inode else {
                throw refuse(.changed)
            }
            return false
        case .move(let old, let inode, let new) where !comesIn && !isExchange:
            guard isThere(old, from.parent, from.name), moved.status.st_ino == inode else {
                throw refuse(.changed)
            }
            guard isThere(new, to.parent, to.name) else { throw refuse(.gone) }
            guard replaced == nil else { throw refuse(.taken) }
            guard FileSnapshot(moved.status).isFile else { return false }
            try admitBesideLogs(from.parent, from.name)
            try admitBesideLogs(to.parent, to.name)
            return false
        case .swap(let a, let inode, let b, let other) where !comesIn && isExchange:
            guard isThere(a, from.parent, from.name), isThere(b, to.parent, to.name),
                UInt64(moved.status.st_ino) == inode,
                replaced.map({ UInt64($0.status.st_ino) }) == other
            else { throw refuse(.changed) }
            try admitBesideLogs(from.parent, from.name)
            try admitBesideLogs(to.parent, to.name)
            return true
        case .removePackage(let place, let inode, _, _)
        where !comesIn && !isExchange && to.parent === incoming:
            guard isThere(place, from.parent, from.name), moved.status.st_ino == inode else {
                throw refuse(.changed)
            }
            return false
        default: throw refuse(.changed)
        }
    }

    /// Called with the namespace locked for writing.
    func admitRemoval(_ parent: Node, _ name: UnsafePointer<CChar>, _ found: NamedFile)
        throws(Errno)
    {
        // Items in the hidden directory may always be removed.
        guard place(parent, name) != nil else { return }
        guard case .remove(let place, let expected) = step,
            isThere(place, parent, name)
        else { throw refuse(.changed) }
        if !expected.isFile {
            guard found.status.st_ino == expected.inode else { throw refuse(.changed) }
        } else {
            try admit(found, expected)
            try admitBesideLogs(parent, name)
        }
    }

    func admitChange(of node: Node) throws(Errno) {
        guard case .change(let place, let inode, let change) = step else {
            throw refuse(.changed)
        }
        if change.includesContents, tree.nodes.path(of: node)?.starts(with: place.path) ?? false {
            return
        }
        guard node.inode == inode,
            // A node with several names has the path that was used last.
            tree.nodes.path(of: node) == place.path
                || volume.items.inode(at: place.path) == node.inode
        else { throw refuse(.changed) }
    }

    /// Checks that the file is the expected one and that no program writes to it. No open for
    /// writing begins until the caller unpins the node.
    private func admit(_ found: NamedFile, _ expected: FileSnapshot) throws(Errno) {
        guard !FileSnapshot(found.status).differs(from: expected) else {
            throw refuse(.changed)
        }
        guard let node = found.node else { return }
        // Before the look at the writers: an open looks at this flag with the contents locked.
        tree.nodes.insert(.beingReplaced, into: node)
        if let state = tree.nodes.locked({ node.opened }) {
            let writers = try state.withWriting(mayBlock: false) { (writing) throws(Errno) in
                writing.writers
            }
            guard writers == 0 else { throw refuse(.open) }
        }
        if tree.nodes.flags(of: node).contains(.mapped), tree.isMapped(try tree.descriptor(node)) {
            throw refuse(.open)
        }
        // A program may have written and closed since the first look, which came before the flag.
        guard !FileSnapshot(try tree.descriptor(node).status()).differs(from: expected) else {
            throw refuse(.changed)
        }
    }

    /// Checks that there is no log beside the name, other than those that are known to hold
    /// nothing. What a log holds belongs to these contents under this name, and to no others. Logs
    /// are not read here, where all names are locked.
    private func admitBesideLogs(_ parent: Node, _ name: UnsafePointer<CChar>) throws(Errno) {
        let logs = DatabaseLog.State(
            beside: Name(cString: name), in: try tree.directory(parent).raw)
        guard let log = logs.log, !areEmpty(logs, at: place(parent, name)) else {
            return
        }
        throw refuse(.logged(log))
    }

    // MARK: The hidden directory

    func lookup(_ request: Request) {
        request.answer { () throws(Errno) in
            // The kernel must not cache this entry, because the next caller may be another program.
            guard isApplier(request.caller.process) else { throw .notFound }
            let status = try incoming.descriptor!.status()
            tree.nodes.countLookup(of: incoming)
            var entry = fuse_entry_param()
            entry.ino = incoming.id
            entry.attr = status
            if !request.reply(entry) { tree.nodes.forget(incoming.id) }
        }
    }
}
