import CFuse
import CLinux
import Glibc
import Logging
import Model
import Synchronization
import SystemCalls
import Volume

/// Everything that answers the kernel's requests. The handlers are in `Operations+*.swift`, a file
/// a family; each runs on a worker thread, answers exactly once, and never waits: what must wait is
/// parked (`Parking`).
final class Driver: @unchecked Sendable {
    let volume: Volume
    let log: Logger
    let nodes: NodeTable
    let gate: Gate
    let namespace = NamespaceLock()
    let handles = HandleTable<Handle>()
    let streams = HandleTable<DirectoryStream>()
    let versions: VersionNodes
    let programs = Programs()
    let seen = StaleSaves()
    let parking = Parking()
    let notifier = Notifier()
    let turns: Turns
    let numbers = FileNumbers()
    let requests = RequestCounters()
    /// The file system the tree is on; nothing below it may be on another.
    let device: dev_t
    /// What `user.concord.socket` of the root tells.
    let socketPath: String
    /// Whether this process may act as other users (root).
    let actsAsCaller: Bool
    /// The mount option noatime: the files and directories below keep their access times when
    /// programs read.
    let keepsAccessTimes: Bool

    /// Kernel passthrough: wished by the options, settled by INIT before the first other request,
    /// and given up for files that the kernel refuses.
    let passthrough: Atomic<Bool>
    /// Why not, if not.
    let whyNotPassthrough: Mutex<String?>
    let negotiation = Negotiation()
    /// /dev/fuse, for replies that libfuse does not know. Set once, before workers start.
    var kernel: Int32 = -1

    init(
        volume: Volume, options: MountOptions, turns: Turns, socketPath: String, log: Logger
    ) throws(Errno) {
        self.volume = volume
        self.turns = turns
        self.log = log
        self.socketPath = socketPath
        let root = SharedDescriptor(owning: try check(cl_openat(volume.root, ".", Flag.path, 0)))
        let status = try root.status()
        device = status.st_dev
        nodes = NodeTable(root: root, inode: UInt64(status.st_ino))
        let beside = SharedDescriptor(
            owning: try check(cl_openat(volume.incomingDirectory, ".", Flag.path, 0)))
        let besideInode = UInt64(try beside.status().st_ino)
        gate = Gate(incoming: nodes.enterBeside(beside, inode: besideInode))
        versions = VersionNodes()
        actsAsCaller = geteuid() == 0
        keepsAccessTimes =
            options.kernel.last { ["atime", "noatime"].contains($0) } == "noatime"
        passthrough = Atomic(options.passthrough && actsAsCaller)
        let why = !options.passthrough ? "the mount option nopassthrough" : "only root may"
        whyNotPassthrough = Mutex(passthrough.load(ordering: .relaxed) ? nil : why)
        volume.watchOpenFiles { [nodes] inode in
            guard let node = nodes.known(inode) else { return false }
            return nodes.locked { node.opened != nil }
        }
    }

    /// Names and attributes change only through us, and then the kernel knows: seconds it may
    /// remember them.
    static let cacheSeconds = 86400.0

    /// How long the kernel may remember attributes. The mode of a set-ID program it may not: the
    /// file below loses the bits when somebody else writes, and the kernel would go on to run the
    /// program by the mode that it remembers.
    static func cacheSeconds(_ mode: mode_t, isVolatile: Bool) -> Double {
        let isSetID = mode & S_IFMT == S_IFREG && mode & (S_ISUID | S_ISGID) != 0
        return isVolatile || isSetID ? 0 : cacheSeconds
    }

    /// A node by the kernel's number.
    func node(_ id: UInt64) throws(Errno) -> Node {
        guard let node = nodes[id] else {
            throw VersionNodes.isVirtual(id) ? Errno.readOnly : Errno.stale
        }
        return node
    }
}
