import ArgumentParser
import CLinux
import Control
import Glibc
import SystemCalls

/// The hidden command that a mount's daemon starts as its watchdog. When the daemon is stopped
/// (SIGSTOP) for too long, the watchdog aborts the FUSE connection, so that waiting programs get an
/// error.
struct WatchdogCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "watchdog",
        abstract: "End a mount whose daemon is stopped for too long.",
        shouldDisplay: false)

    /// The exit status that tells the daemon that its mount was taken away.
    static let hasEndedMount: Int32 = 75

    @Argument var mountPoint: String
    @Argument var seconds: Double

    /// Runs until standard input is closed, which happens when the daemon ends.
    func run() throws {
        cl_die_with_parent()
        let daemon = getppid()
        guard daemon != 1 else { return }
        _ = chdir("/")
        let allowed = Int64(seconds * 1000)
        // The time in milliseconds on the monotonic clock, which stands still while the machine
        // sleeps.
        var stoppedAt: Int64?
        while true {
            var (input, wanted, ready) = (Int32(0), Int16(POLLIN | POLLHUP), Int16(0))
            // While the daemon runs, the watchdog looks seldom. Once it is found stopped, the next
            // look is when its time is over.
            let left = stoppedAt.map { $0 + allowed - cl_clock_monotonic_ns() / 1_000_000 }
            let pause = Int32(clamping: max(50, min(allowed / 4, left ?? .max)))
            let count = cl_poll(&input, &wanted, &ready, 1, pause)
            if count > 0 { return }
            let now = cl_clock_monotonic_ns() / 1_000_000
            guard Self.isStopped(daemon) else {
                stoppedAt = nil
                continue
            }
            let since = stoppedAt ?? now
            stoppedAt = since
            if now - since >= allowed, end() { Glibc.exit(Self.hasEndedMount) }
        }
    }

    /// Whether a signal has stopped the process. A debugger's stop is another state and does not
    /// count.
    static func isStopped(_ process: Int32) -> Bool {
        var bytes = [UInt8](repeating: 0, count: 512)
        let file = cl_openat(AT_FDCWD, "/proc/\(process)/stat", O_RDONLY, 0)
        guard file >= 0 else { return false }
        defer { _ = cl_close(file) }
        let count = read(file, &bytes, bytes.count)
        guard count > 0, let end = bytes[..<count].lastIndex(of: UInt8(ascii: ")")),
            end + 2 < count
        else { return false }
        return bytes[end + 2] == UInt8(ascii: "T")
    }

    /// Aborts the connection, then unmounts. Without the privilege to force this, fusermount3 can
    /// only detach the mount, which hides it from programs that come later. Those that wait already
    /// get an error only where FUSE's control file system is mounted; systemd mounts it.
    private func end() -> Bool {
        let path = FilePath(mountPoint)
        let forced = path.withCString { umount2($0, Int32(MNT_FORCE)) } == 0
        if forced { return true }
        abortConnection(at: path)
        return (try? unmount(path, lazily: true)) != nil
    }

    /// Aborts the connection through FUSE's control file system, as the user who mounted it may
    /// (Documentation/filesystems/fuse.rst in Linux).
    private func abortConnection(at path: FilePath) {
        guard let mount = try? MountTable().top(at: path), mount.isConcord else { return }
        // A connection has the minor number of its mount. The major number is 0.
        let file = cl_openat(
            AT_FDCWD, "/sys/fs/fuse/connections/\(mount.minor)/abort", O_WRONLY | O_CLOEXEC, 0)
        guard file >= 0 else { return }
        _ = write(file, "1", 1)
        _ = cl_close(file)
    }
}
