import ArgumentParser
import CLinux
import Control
import Glibc
import Model
import SystemCalls

struct UnmountCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "unmount",
        abstract: "Unmount a volume and wait until its daemon has ended.",
        discussion: "A volume in use stays mounted, and the programs that use it are listed.")

    @Flag(help: "Detach it now; its daemon ends when no program uses it any more.")
    var lazy = false

    @Argument(help: "Where the volume is mounted.", completion: .directory)
    var mountPoint: String

    func run() throws {
        let given = RawArgument.path(mountPoint).absolute
        let path: FilePath
        do throws(Errno) { path = try given.resolvedParent() } catch {
            throw VolumeError(.notFound, "cannot examine \(given): \(error)")
        }
        let entry = try MountTable().top(at: path) ?? MountTable().top(at: resolved(path))
        guard let entry else { throw VolumeError(.notFound, "nothing is mounted on \(path)") }
        guard entry.isConcord else {
            throw VolumeError(
                .invalid,
                "what is mounted on \(path) is not a Concord volume (\(entry.type)); use umount")
        }
        let daemon = (try? ControlClient(socket: MountedPath(entry.mountPoint).socket))?.process
        // The descriptor is opened before unmounting, so that the process number cannot be reused
        // meanwhile.
        let watch = daemon.map { cl_pidfd_open($0) } ?? -1
        defer { _ = cl_close(watch) }
        try end(entry.mountPoint, daemon)
        if watch >= 0, let daemon, !lazy { try awaitEnd(watch, daemon, path) }
    }

    /// A symlink to a mount point is accepted, too.
    private func resolved(_ path: FilePath) -> FilePath { (try? path.resolved()) ?? path }

    private func end(_ path: FilePath, _ daemon: Int32?) throws(VolumeError) {
        do throws(VolumeError) { try concord.unmount(path, lazily: lazy) } catch {
            guard error.code == .busy else { throw error }
            let users = MountUsers.of(path, except: daemon)
            let who = users.isEmpty ? "some program" : users.prefix(8).joined(separator: ", ")
            throw VolumeError(
                .busy,
                "\(path) is in use by \(who)\(users.count > 8 ? ", …" : ""); end that first, "
                    + "or unmount with --lazy"
            )
        }
    }

    private func awaitEnd(_ watch: Int32, _ daemon: Int32, _ path: FilePath) throws(VolumeError) {
        var (descriptor, wanted, ready) = (watch, Int16(POLLIN), Int16(0))
        if cl_poll(&descriptor, &wanted, &ready, 1, 60_000) == 0 {
            throw VolumeError(
                .timeout,
                "\(path) is unmounted, but its daemon (process \(daemon)) is still putting the "
                    + "store in order; wait for it before you mount again"
            )
        }
    }
}
