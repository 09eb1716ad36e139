import CFuse
import CLinux
import Glibc
import Model
import Synchronization
import SystemCalls
import Volume

/// Where the applier's system calls pass: the one process that sees what was prepared, and that may
/// change only what its present step says, while it is as the step expects.
package final class Gate: Sendable {
    /// In the root, for the applier alone; to anybody else it is not there.
    package static let name = ".concord-incoming"

    struct State {
        var step: ApplierStep?
        /// Why the driver refused it.
        var refusal: ApplierResult?
        /// It was carried out.
        var isDone = false
    }

    /// The applier's process, 0 while there is none.
    private let process = Atomic<Int32>(0)
    private let state = Mutex(State())
    /// STORE/incoming.
    let incoming: Node

    init(incoming: Node) { self.incoming = incoming }

    static func isName(_ name: UnsafePointer<CChar>) -> Bool {
        name[0] == 46 && name[1] == 99 && strcmp(name, Gate.name) == 0
    }

    func isApplier(_ process: Int32) -> Bool {
        process != 0 && process == self.process.load(ordering: .relaxed)
    }

    func become(_ process: Int32) { self.process.store(process, ordering: .sequentiallyConsistent) }

    // MARK: Steps

    func begin(_ step: ApplierStep) { state.withLock { $0 = State(step: step) } }

    func end() -> State {
        state.withLock { state in
            defer { state = State() }
            return state
        }
    }

    var step: ApplierStep? { state.withLock { $0.step } }

    func carriedOut() { state.withLock { $0.isDone = true } }

    /// What a refused call of the applier ends with; why is known here.
    func refuse(_ reason: ApplierResult) -> Errno {
        state.withLock { $0.refusal = reason }
        return Errno(ECANCELED)
    }
}

// What the applier's calls are compared with, at the moment of acting.
extension Driver {
    /// The names from the root to what a call is about; nil in `Gate.incoming`.
    private func place(_ parent: Node, _ name: UnsafePointer<CChar>) -> [Name]? {
        nodes.path(of: parent).map { $0 + [Name(cString: name)] }
    }

    private func isThere(_ place: TreePlace, _ parent: Node, _ name: UnsafePointer<CChar>) -> Bool {
        (place.directory == 0 || place.directory == parent.inode)
            && self.place(parent, name) == place.path
    }

    /// Called with the namespace locked for writing. True: two items change places.
    func admitRename(
        _ from: (parent: Node, name: UnsafePointer<CChar>), _ moved: Victim,
        _ to: (parent: Node, name: UnsafePointer<CChar>), _ replaced: Victim?, flags: UInt32
    ) throws(Errno) -> Bool {
        let comesIn = from.parent === gate.incoming
        if comesIn, to.parent === gate.incoming { return false }
        let isExchange = flags & Flag.renameExchange != 0
        switch gate.step {
        case .make(_, let place) where comesIn && !isExchange:
            guard isThere(place, to.parent, to.name) else { throw gate.refuse(.gone) }
            guard replaced == nil else { throw gate.refuse(.taken) }
            if Trace(moved.status).isFile { try admitBesideLogs(to.parent, to.name) }
            return false
        case .replace(_, let place, let expected) where comesIn && !isExchange:
            guard let replaced else { throw gate.refuse(.gone) }
            guard isThere(place, to.parent, to.name) else { throw gate.refuse(.changed) }
            try admit(replaced, expected)
            try admitBesideLogs(to.parent, to.name)
            return false
        case .replacePackage(_, let place, let inode, _) where comesIn && isExchange:
            guard let replaced else { throw gate.refuse(.gone) }
            guard isThere(place, to.parent, to.name), replaced.status.st_ino == inode else {
                throw gate.refuse(.changed)
            }
            return false
        case .move(let old, let inode, let new) where !comesIn && !isExchange:
            guard isThere(old, from.parent, from.name), moved.status.st_ino == inode else {
                throw gate.refuse(.changed)
            }
            guard isThere(new, to.parent, to.name) else { throw gate.refuse(.gone) }
            guard replaced == nil else { throw gate.refuse(.taken) }
            guard Trace(moved.status).isFile else { return false }
            try admitBesideLogs(from.parent, from.name)
            try admitBesideLogs(to.parent, to.name)
            return false
        case .swap(let a, let inode, let b, let other) where !comesIn && isExchange:
            guard isThere(a, from.parent, from.name), isThere(b, to.parent, to.name),
                UInt64(moved.status.st_ino) == inode,
                replaced.map({ UInt64($0.status.st_ino) }) == other
            else { throw gate.refuse(.changed) }
            try admitBesideLogs(from.parent, from.name)
            try admitBesideLogs(to.parent, to.name)
            return true
        case .removePackage(let place, let inode, _, _)
        where !comesIn && !isExchange && to.parent === gate.incoming:
            guard isThere(place, from.parent, from.name), moved.status.st_ino == inode else {
                throw gate.refuse(.changed)
            }
            return false
        default: throw gate.refuse(.changed)
        }
    }

    /// Called with the namespace locked for writing.
    func admitRemoval(_ parent: Node, _ name: UnsafePointer<CChar>, _ found: Victim) throws(Errno) {
        // What was put aside, or not needed.
        guard place(parent, name) != nil else { return }
        guard case .remove(let place, let expected) = gate.step,
            isThere(place, parent, name)
        else { throw gate.refuse(.changed) }
        if !expected.isFile {
            guard found.status.st_ino == expected.inode else { throw gate.refuse(.changed) }
        } else {
            try admit(found, expected)
            try admitBesideLogs(parent, name)
        }
    }

    func admitChange(of node: Node) throws(Errno) {
        guard case .change(let place, let inode, _) = gate.step, node.inode == inode,
            // A node with several names is known by the last one that was used.
            nodes.path(of: node) == place.path || volume.inode(at: place.path) == node.inode
        else { throw gate.refuse(.changed) }
    }

    /// What stands there is what was expected, and nobody writes to it.
    private func admit(_ found: Victim, _ expected: Trace) throws(Errno) {
        guard !Trace(found.status).differs(from: expected) else { throw gate.refuse(.changed) }
        guard let node = found.node else { return }
        if let state = nodes.locked({ node.opened }) {
            let writers = try state.withContent(mayBlock: false) { (content) throws(Errno) in
                content.writing.writers
            }
            guard writers == 0 else { throw gate.refuse(.open) }
        }
        if nodes.flags(of: node).contains(.mapped), isMapped(try descriptor(node)) {
            throw gate.refuse(.open)
        }
    }

    /// A log beside a database belongs to these contents under this name, and to no others.
    private func admitBesideLogs(_ parent: Node, _ name: UnsafePointer<CChar>) throws(Errno) {
        let directory = try directory(parent)
        let main = cl_openat(
            directory.raw, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOATIME, 0)
        defer { if main >= 0 { _ = cl_close(main) } }
        let name = Name(cString: name)
        if let log = DatabaseLog.hot(beside: name, in: directory.raw, main: main) {
            throw gate.refuse(.logged(log))
        }
    }

    // MARK: The hidden directory

    func lookupIncoming(_ request: Request) {
        request.answer { () throws(Errno) in
            // Never remembered by the kernel: the next who asks may be somebody else.
            guard gate.isApplier(request.caller.process) else { throw .notFound }
            let status = try gate.incoming.descriptor!.status()
            nodes.countLookup(of: gate.incoming)
            var entry = fuse_entry_param()
            entry.ino = gate.incoming.id
            entry.attr = status
            if !request.reply(entry) { nodes.forget(gate.incoming.id) }
        }
    }
}
