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
            Returns when the volume is there, and says in one line what was mounted; the \
            daemon goes on in the background until the volume is unmounted (concord unmount, \
            umount) or it gets SIGTERM. It writes STORE/log.

            OPTIONS OF -o
              allow_other          all users may enter, not only you (the default for root;
                                   noallow_other: nobody but root)
              default_permissions  the kernel judges permissions by mode bits
              nopassthrough        all reads and writes go through the daemon (slower)
              list_conflicts       .conflicts is listed while it is not empty
              name=NAME            the volume's name, when its store is made
              cache=SIZE           of documents that the hub has, too, keep so many bytes here at
                                   most (500M, 20G): what was not used for longest goes first
              free=SIZE            let go of more of these while less of the disk is free
              suspend_timeout=SECONDS
                                   when the daemon is stopped (SIGSTOP) for longer (60), programs
                                   that wait for it get an error; it mounts again when it goes
                                   on (0: they wait)
              limit_up=KB, limit_down=KB
                                   kilobytes a second to the hub and from it, at most
              suid, dev            set-id programs and device files work; without these
                                   options they do not (for mount(8), which drops
                                   these words, also: allow_suid, allow_dev)
              ro, noexec, noatime, sync, … as for mount(8)
            """)

    @Option(
        help:
            """
            The directory that keeps the volume; made if it is not there. Default: \
            ~/.local/share/concord/NAME, NAME being the mount point's.
            """,
        completion: .directory)
    var store: String?

    @Option(name: .customShort("o"), help: "Mount options between commas; may be repeated.")
    var options: [String] = []

    @Flag(help: "Stay in the foreground, and log on standard error.")
    var foreground = false

    @Flag(
        help: """
            Go on although a part of the store (its working tree, journal or chunks) is missing or \
            is not its own: it is made again from the others, and nothing is erased.
            """)
    var rebuild = false

    @Option(help: .hidden)
    var readyDescriptor: Int32?

    @Argument(help: "An empty directory.", completion: .directory)
    var mountPoint: String

    func run() throws {
        let options = try MountOptions(self.options.joined(separator: ","))
        let point = RawArgument.path(mountPoint).absolute
        let store =
            try self.store.map { RawArgument.path($0).absolute } ?? StorePlace.usual(for: point)
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
        // Whoever started us waits until it is closed, so no program of ours may have it.
        if let readyDescriptor { _ = fcntl(readyDescriptor, F_SETFD, FD_CLOEXEC) }
        let announcement = Announcement(descriptor: readyDescriptor)
        let daemon = Daemon(
            mountPoint: point, store: store, isUsualStore: self.store == nil, options: options,
            rebuilds: rebuild, announcement: announcement)
        do throws(VolumeError) {
            if try daemon.run() { try mountAgain(store: store, at: point) }
        } catch {
            announcement.fail(error)
            throw error
        }
    }

    /// Replaces this process by one that mounts as it did.
    private func mountAgain(store: FilePath, at point: FilePath) throws(VolumeError) {
        var words = ["concord", "mount", "--foreground"].map(FilePath.init(_:))
        if readyDescriptor != nil {
            // Nobody waits for the word any more, but a daemon of the background writes its log.
            let nowhere = open("/dev/null", O_WRONLY)
            words += [FilePath("--ready-descriptor"), FilePath("\(nowhere)")]
        }
        words += [FilePath("--store"), store] + options.flatMap { [FilePath("-o"), FilePath($0)] }
        words += [FilePath("--"), point]
        withArguments(words) { _ = execv("/proc/self/exe", $0) }
        throw VolumeError(.system, "cannot mount again: \(Errno(errno))")
    }
}
