import CFuse
import CLinux
import Glibc
import Logging
import Synchronization
import SystemCalls

/// Kernel passthrough: files that the kernel reads and writes itself. Whether it is used is
/// requested by the options, decided by INIT before any other request, and given up if the kernel
/// refuses a file.
final class Passthrough: @unchecked Sendable {
    private let isWanted: Atomic<Bool>
    private let reason: Mutex<String?>
    private let keepsAccessTimes: Bool
    private let log: Logger
    /// The descriptor of /dev/fuse. Set once, before workers start.
    var kernel: Int32 = -1

    init(options: MountOptions, keepsAccessTimes: Bool, log: Logger) {
        let isRoot = geteuid() == 0
        isWanted = Atomic(options.passthrough && isRoot)
        let why = !options.passthrough ? "the mount option nopassthrough" : "only root may use it"
        reason = Mutex(options.passthrough && isRoot ? nil : why)
        self.keepsAccessTimes = keepsAccessTimes
        self.log = log
    }

    var isOn: Bool { isWanted.load(ordering: .relaxed) }
    /// The reason why it is not used; nil if it is.
    var whyNot: String? { reason.withLock { $0 } }

    /// It is not available: from now on contents pass through this process.
    func disable(_ why: String) {
        guard isWanted.exchange(false, ordering: .relaxed) else { return }
        reason.withLock { $0 = why }
        log.notice("No passthrough: \(why). Reads and writes pass through this process.")
    }

    /// Registers a file. Returns an id above 0, or a negative errno. The kernel writes with the
    /// rights that this thread has now, whichever program writes, so these are nobody's: the file
    /// system below clears set-ID bits, also those that are set later, and gives no blocks that it
    /// reserves for root. On a plain file system a write by root would not clear the bits, and may
    /// use the blocks; here it does neither.
    func open(_ file: SharedDescriptor) -> Int32 {
        guard keepsAccessTimes else { return open(file.raw) }
        // The kernel reads with the program's own flags, so only the mount below can keep access
        // times.
        let clone = cl_clone_without_atime(file.raw)
        guard clone >= 0 else { return open(file.raw) }
        defer { _ = cl_close(clone) }
        return open(clone)
    }

    private func open(_ file: Int32) -> Int32 {
        cl_thread_fsuid(Self.nobody)
        defer { cl_thread_fsuid(0) }
        return cf_backing_open(kernel, file)
    }

    func close(_ backing: UInt32) { cf_backing_close(kernel, backing) }

    private static let nobody: UInt32 = 65_534
}
