import ArgumentParser
import Control
import Glibc
import Model
import SystemCalls

struct MountCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "mount",
        abstract: "Mount a volume on an empty directory.",
        discussion: """
            Returns when the volume is mounted, and prints in one line what was mounted. The \
            daemon runs in the background until the volume is unmounted (concord unmount, \
            umount) or it gets SIGTERM. It logs to STORE/log.

            OPTIONS OF -o
              allow_other          all users may enter, not only you (the default for root;
                                   noallow_other: only root)
              default_permissions  the kernel checks permissions by mode bits
              nopassthrough        all reads and writes go through the daemon (slower)
              uring                requests come over io_uring, where the kernel offers that
                                   (Linux 6.14 and later); as root this switches the
                                   kernel's parameter fuse.enable_uring on
              list_conflicts       directory listings show .conflicts while it is not empty
              name=NAME            the volume's name, used when its store is created
              cache=SIZE           keep at most so many bytes (500M, 20G) of documents that the
                                   hub has, too: the least recently used are evicted first
              free=SIZE            evict more of them while less than this of the disk is free
              suspend_timeout=SECONDS
                                   when the daemon is stopped (SIGSTOP) for longer (default 60),
                                   programs that wait for it get an error, and it mounts again
                                   when it goes on (0: they wait)
              limit_up=KB, limit_down=KB
                                   at most so many kilobytes a second to and from the hub
              suid, dev            set-id programs and device files work; without these
                                   options they do not (mount(8) drops these words, so
                                   there write allow_suid, allow_dev)
              ro, noexec, noatime, sync, … as for mount(8)
            """)

    @Option(
        help:
            """
            The directory that keeps the volume; created if missing. Default: \
            ~/.local/share/concord/NAME, where NAME is the mount point's name.
            """,
        completion: .directory)
    var store: String?

    @Option(name: .customShort("o"), help: "Mount options separated by commas; may be repeated.")
    var options: [String] = []

    @Flag(help: "Stay in the foreground and log on standard error.")
    var foreground = false

    @Flag(
        help: """
            Mount although a part of the store (its working tree, journal or chunks) is missing \
            or belongs to another store: it is rebuilt from the other parts. Nothing is erased.
            """)
    var rebuild = false

    @Option(help: .hidden)
    var readyDescriptor: Int32?

    @Argument(help: "An empty directory to mount on.", completion: .directory)
    var mountPoint: String

    func run() throws {
        let options = try MountOptions(self.options.joined(separator: ","))
        let point = RawArgument.path(mountPoint).absolute
        let store =
            try self.store.map { RawArgument.path($0).absolute }
            ?? StorePath.defaultPath(for: point)
        guard foreground else {
            let arguments =
                ["mount", "--foreground", "--ready-descriptor", "3"].map(FilePath.init(_:))
                + (self.store == nil ? [] : [FilePath("--store"), store])
                + (rebuild ? [FilePath("--rebuild")] : [])
                + self.options.flatMap { [FilePath("-o"), FilePath($0)] } + [FilePath("--"), point]
            let sentence = try Background.start(arguments: arguments, store: store)
            print("concord: \(sentence)")
            return
        }
        // The starting process waits until this descriptor is closed, so programs that we start
        // must not inherit it.
        if let readyDescriptor { _ = fcntl(readyDescriptor, F_SETFD, FD_CLOEXEC) }
        let announcement = StartupReport(descriptor: readyDescriptor)
        let daemon = Daemon(
            mountPoint: point, store: store, isDefaultStore: self.store == nil, options: options,
            rebuilds: rebuild, announcement: announcement)
        do throws(VolumeError) {
            if try daemon.run() { try mountAgain(store: store, at: point) }
        } catch {
            announcement.fail(error)
            throw error
        }
    }

    /// Replaces this process by one that mounts the same store again.
    private func mountAgain(store: FilePath, at point: FilePath) throws(VolumeError) {
        var words = ["concord", "mount", "--foreground"].map(FilePath.init(_:))
        if readyDescriptor != nil {
            // Nobody reads the announcement any more. The option still says that this daemon runs
            // in the background and writes a log file.
            let nowhere = open("/dev/null", O_WRONLY)
            words += [FilePath("--ready-descriptor"), FilePath("\(nowhere)")]
        }
        words += [FilePath("--store"), store] + options.flatMap { [FilePath("-o"), FilePath($0)] }
        words += [FilePath("--"), point]
        withArguments(words) { _ = execv("/proc/self/exe", $0) }
        throw VolumeError(.system, "cannot mount again: \(Errno(errno))")
    }
}
