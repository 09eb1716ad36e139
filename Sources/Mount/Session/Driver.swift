import Glibc
import Logging
import Model
import SystemCalls
import Volume

/// Answers the kernel's requests: a thin adapter between libfuse, whose table of handlers is in
/// `Operations.swift`, and the types that carry them out, one for each group of requests. Each
/// handler runs on a worker thread, answers exactly once, and never waits; a request that must wait
/// is parked (`Parking`).
final class Driver: RequestGroup, @unchecked Sendable {
    let parts: RequestParts
    let applierGuard: ApplierGuard
    let arbitration: Arbitration
    let passthrough: Passthrough

    // The groups of requests.
    let names: NameOperations
    let removals: RemovalOperations
    let renames: RenameOperations
    let attributes: AttributeOperations
    let xattrs: XattrOperations
    let directories: DirectoryOperations
    let opens: OpenFiles
    let creation: FileCreation
    let files: FileOperations
    let versions: VersionDirectories
    let resolution: ConflictResolution
    let ownerFiles: OwnerFiles

    // The connection to the kernel.
    let requests = RequestCounters()
    let negotiation = Negotiation()
    let rings: RingTransport
    /// The descriptor of /dev/fuse, for replies that libfuse does not know. Set once, before
    /// workers start.
    private(set) var kernel: Int32 = -1
    /// libfuse's session. Set once, before workers start.
    var session: OpaquePointer?

    init(
        volume: Volume, options: MountOptions, arbitration: Arbitration, socketPath: String,
        log: Logger
    ) throws(Errno) {
        self.arbitration = arbitration
        let keepsAccessTimes =
            options.kernel.last { ["atime", "noatime"].contains($0) } == "noatime"
        let tree = try Tree(of: volume)
        applierGuard = try ApplierGuard(tree)
        let (parking, callers) = (Parking(), Callers(applierGuard))
        let claims = RequestClaims(arbitration, tree: tree, callers: callers, parking: parking)
        passthrough = Passthrough(options: options, keepsAccessTimes: keepsAccessTimes, log: log)
        rings = RingTransport(isWanted: options.rings, log: log)
        let ownerFileReaders = OwnerFileReaders(tree)
        parts = RequestParts(
            tree: tree, callers: callers, claims: claims,
            grantGate: GrantGate(arbitration, tree: tree, callers: callers, parking: parking),
            parking: parking, notifier: Notifier(),
            fetcher: ContentFetcher(volume, parking: parking, timers: arbitration.timers),
            staleSaves: StaleSaves(tree, incoming: applierGuard.incoming),
            madeOwnerFiles: MadeOwnerFiles(tree, readers: ownerFileReaders),
            ownerFileReaders: ownerFileReaders)
        opens = OpenFiles(
            parts, passthrough: passthrough, negotiation: negotiation,
            keepsAccessTimes: keepsAccessTimes, log: log)
        creation = FileCreation(opens)
        files = FileOperations(parts, handles: opens.handles)
        names = NameOperations(parts)
        removals = RemovalOperations(parts)
        renames = RenameOperations(parts)
        attributes = AttributeOperations(parts, handles: opens.handles)
        xattrs = XattrOperations(parts, socketPath: socketPath)
        versions = VersionDirectories(parts)
        directories = DirectoryOperations(
            parts, versions: versions, keepsAccessTimes: keepsAccessTimes)
        resolution = ConflictResolution(parts, versions, renames: renames)
        ownerFiles = OwnerFiles(parts, names: names, nodes: versions.nodes)
        tree.nodes.closing.set { [parking] descriptors in
            parking.runDetached(on: .disk) { withExtendedLifetime(descriptors) {} }
        }
        volume.openFiles.set { [nodes = tree.nodes] inode in
            guard let node = nodes.known(inode) else { return false }
            return nodes.locked { node.opened != nil }
        }
        volume.changedFiles.set { [nodes = tree.nodes, notifier = parts.notifier] inode in
            if let node = nodes.known(inode) { notifier.tell(.contents(node.id)) }
        }
    }

    /// The session is mounted by this descriptor of /dev/fuse.
    func mounted(by kernel: Int32) {
        self.kernel = kernel
        passthrough.kernel = kernel
    }

    func lookup(_ request: Request, in parent: UInt64, _ name: UnsafePointer<CChar>) {
        if VersionNodes.isVirtual(parent) || VersionNodes.isReserved(name) {
            versions.lookup(request, in: parent, name)
        } else if parent == tree.nodes.root.id, ApplierGuard.isName(name) {
            applierGuard.lookup(request)
        } else if OwnerFileName.format(of: name) != nil {
            ownerFiles.lookup(request, in: parent, name)
        } else {
            names.lookup(request, in: parent, name)
        }
    }

    func unlink(_ request: Request, in parent: UInt64, _ name: UnsafePointer<CChar>) {
        remove(request, in: parent, name) { self.removals.unlink(request, in: parent, $0) }
    }

    /// Creates a name by calling `body`, which answers the request, when it need not wait any more.
    /// The request's own string may not be valid any more by then.
    func make(
        _ request: Request, in parent: UInt64, _ name: UnsafePointer<CChar>,
        _ body: @escaping @Sendable (UnsafePointer<CChar>) -> Void
    ) {
        grantGate.pass(request, in: parent, name) { [claims] in
            claims.make(request, in: parent, $0, body)
        }
    }

    /// Removes a name in the same way.
    func remove(
        _ request: Request, in parent: UInt64, _ name: UnsafePointer<CChar>,
        _ body: @escaping @Sendable (UnsafePointer<CChar>) -> Void
    ) {
        grantGate.pass(request, in: parent, name) { [claims] in
            claims.remove(request, in: parent, $0, body)
        }
    }

    func forget(_ id: UInt64, _ count: UInt64) {
        if VersionNodes.isVirtual(id) {
            versions.nodes.forget(id, count)
        } else {
            tree.nodes.forget(id, count: count)
        }
    }
}
