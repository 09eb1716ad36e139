import ArgumentParser
import CLinux
import Control
import Glibc
import SystemCalls

/// What the mount's daemon starts for itself: when the daemon is stopped (SIGSTOP) for too long, it
/// ends the connection of the mount, so that the programs that wait for an answer get an error.
struct WatchdogCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "watchdog",
        abstract: "End a mount whose daemon is stopped for too long.",
        shouldDisplay: false)

    /// The exit status that tells the daemon that its mount was taken away.
    static let hasEndedMount: Int32 = 75

    @Argument var mountPoint: String
    @Argument var seconds: Double

    /// Ends when standard input does, which is with the daemon.
    func run() throws {
        cl_die_with_parent()
        let daemon = getppid()
        guard daemon != 1 else { return }
        _ = chdir("/")
        let allowed = Int64(seconds * 1000)
        // In milliseconds of the monotonic clock, which stands still while the machine sleeps.
        var stoppedAt: Int64?
        while true {
            var (input, wanted, ready) = (Int32(0), Int16(POLLIN | POLLHUP), Int16(0))
            // Seldom while the daemon runs; what is left of its time once it was found stopped.
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

    /// Stopped by a signal. A debugger's stop is another state, and is left alone.
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

    /// Aborts the connection, then takes the mount away. Who may not unmount by force asks
    /// fusermount3, which can only hide the mount from those who come later.
    private func end() -> Bool {
        let path = FilePath(mountPoint)
        let forced = path.withCString { umount2($0, Int32(MNT_FORCE)) } == 0
        if forced { return true }
        return (try? unmount(path, lazily: true)) != nil
    }
}
