import CFuse
import CLinux
import Glibc
import Logging
import Model
import Synchronization
import SystemCalls
import Volume

/// Answers the kernel's requests. The handlers are in `Operations+*.swift`, one file for each
/// group. Each runs on a worker thread, answers exactly once, and never waits; a request that must
/// wait is parked (`Parking`).
final class Driver: @unchecked Sendable {
    let volume: Volume
    let log: Logger
    let nodes: NodeTable
    let applierGuard: ApplierGuard
    let namespace = NamespaceLock()
    let handles = HandleTable<Handle>()
    let streams = HandleTable<DirectoryStream>()
    let versions: VersionNodes
    let programs = Programs()
    let sessions = ProcessSessions()
    let seen = StaleSaves()
    let staleOpens = Mutex(StaleOpens())
    let parking = Parking()
    let notifier = Notifier()
    let arbitration: Arbitration
    let numbers = FileNumbers()
    let requests = RequestCounters()
    /// The device of the tree's file system; nothing below it may be on another one.
    let device: dev_t
    /// The value of the root's attribute `user.concord.socket`.
    let socketPath: String
    /// Whether this process may act as other users (root).
    let actsAsCaller: Bool
    /// The mount option noatime: reading does not change the access times of files and directories
    /// in the tree.
    let keepsAccessTimes: Bool

    /// Whether kernel passthrough is used: requested by the options, decided by INIT before any
    /// other request, and given up if the kernel refuses a file.
    let passthrough: Atomic<Bool>
    /// The reason why passthrough is not used; nil if it is.
    let whyNotPassthrough: Mutex<String?>
    let negotiation = Negotiation()
    let rings: RingTransport
    /// The descriptor of /dev/fuse, for replies that libfuse does not know. Set once, before
    /// workers start.
    var kernel: Int32 = -1
    /// libfuse's session. Set once, before workers start.
    var session: OpaquePointer?

    init(
        volume: Volume, options: MountOptions, arbitration: Arbitration, socketPath: String,
        log: Logger
    ) throws(Errno) {
        self.volume = volume
        self.arbitration = arbitration
        self.log = log
        self.socketPath = socketPath
        let root = SharedDescriptor(owning: try check(cl_openat(volume.root, ".", Flag.path, 0)))
        let status = try root.status()
        device = status.st_dev
        nodes = NodeTable(root: root, inode: UInt64(status.st_ino))
        let beside = SharedDescriptor(
            owning: try check(cl_openat(volume.arrivals.directory, ".", Flag.path, 0)))
        let besideInode = UInt64(try beside.status().st_ino)
        applierGuard = ApplierGuard(incoming: nodes.enterBeside(beside, inode: besideInode))
        versions = VersionNodes()
        actsAsCaller = geteuid() == 0
        keepsAccessTimes =
            options.kernel.last { ["atime", "noatime"].contains($0) } == "noatime"
        rings = RingTransport(isWanted: options.rings, log: log)
        passthrough = Atomic(options.passthrough && actsAsCaller)
        let why = !options.passthrough ? "the mount option nopassthrough" : "only root may use it"
        whyNotPassthrough = Mutex(passthrough.load(ordering: .relaxed) ? nil : why)
        nodes.closing.set { [parking] descriptors in
            parking.runDetached(on: .disk) { withExtendedLifetime(descriptors) {} }
        }
        volume.openFiles.set { [nodes] inode in
            guard let node = nodes.known(inode) else { return false }
            return nodes.locked { node.opened != nil }
        }
    }

    /// How many seconds the kernel may cache names and attributes. They change only through this
    /// process, which then notifies the kernel.
    static let cacheSeconds = 86400.0

    /// How long the kernel may cache attributes. It may not cache the mode of a set-ID program: the
    /// file below loses these bits when another user writes to it, and the kernel would go on using
    /// the cached mode.
    static func cacheSeconds(_ mode: mode_t, isVolatile: Bool) -> Double {
        let isSetID = mode & S_IFMT == S_IFREG && mode & (S_ISUID | S_ISGID) != 0
        return isVolatile || isSetID ? 0 : cacheSeconds
    }

    /// The node with this number.
    func node(_ id: UInt64) throws(Errno) -> Node {
        guard let node = nodes[id] else {
            throw VersionNodes.isVirtual(id) ? Errno.readOnly : Errno.stale
        }
        return node
    }
}
