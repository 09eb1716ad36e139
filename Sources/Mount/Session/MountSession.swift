import CFuse
import CLinux
import Coordination
import Glibc
import Logging
import Model
import Synchronization
import SystemCalls
import Volume

/// A mounted volume: from `init`, when it becomes visible to programs, to the end of `run`.
package final class MountSession: @unchecked Sendable {
    /// The absolute path, without symlinks.
    package let mountPoint: String
    let driver: Driver
    private let session: OpaquePointer
    private let workerCount: Int
    private let log: Logger
    /// Set when the session is to end; workers then return.
    private let isStopping = Atomic(false)
    private let running = Mutex<[Thread]>([])
    private let reserve: WorkerReserve
    /// Set when libfuse's session was destroyed, because `stop` may be called later.
    private let isOver = Mutex(false)
    /// Closures to run before unmounting, which end everything of ours that uses the mount.
    private let ends = Mutex<[@Sendable () -> Void]>([])

    /// Mounts the volume. `source` is the store, which mount(8) shows as the device. `socketPath`
    /// is the value of an attribute of the root.
    package init(
        volume: Volume, source: String, mountPoint: String, options: MountOptions,
        arbiter: Arbiter = Arbiter(), socketPath: String = "", workers: Int = 4,
        log: Logger = Logger(label: "concord.mount")
    ) throws(VolumeError) {
        self.log = log
        workerCount = workers
        reserve = WorkerReserve(workers: workers)
        _ = cl_raise_descriptor_limit()
        _ = cl_wake_prepare()
        self.mountPoint = try MountPoint.check(mountPoint, tree: volume.root)
        do throws(Errno) {
            driver = try Driver(
                volume: volume, options: options,
                arbitration: Arbitration(
                    arbiter: arbiter, settings: options.arbitration, mountPoint: self.mountPoint),
                socketPath: socketPath, log: log)
        } catch {
            throw VolumeError(.system, "Cannot open the working tree of \(source): \(error).")
        }
        session = try MountSession.open(driver, source: source, options: options)
        driver.session = session
        driver.rings.switchOn()
        guard fuse_session_mount(session, self.mountPoint) == 0 else {
            fuse_session_destroy(session)
            throw MountPoint.failure(self.mountPoint, options)
        }
        driver.mounted(by: fuse_session_fd(session))
        var hooks = MountSession.hooks
        guard fuse_session_custom_io(session, &hooks, driver.kernel) == 0 else {
            fuse_session_unmount(session)
            fuse_session_destroy(session)
            throw VolumeError(.system, "libfuse does not accept custom I/O on /dev/fuse.")
        }
    }

    private static func open(_ driver: Driver, source: String, options: MountOptions)
        throws(VolumeError) -> OpaquePointer
    {
        var words = [
            "default_permissions", "fsname=\(source.filter { $0 != "," })", "subtype=concord",
        ]
        if options.allowOther { words.append("allow_other") }
        // libfuse mounts with nosuid and nodev by default: a set-ID program sent by another device
        // must not get rights that it has nowhere else.
        words += options.kernel
        var arguments = fuse_args()
        for word in ["concord", "-o", words.joined(separator: ",")] {
            fuse_opt_add_arg(&arguments, word)
        }
        defer { fuse_opt_free_args(&arguments) }
        var table = operations()
        let owner = Unmanaged.passUnretained(driver).toOpaque()
        guard
            let session = fuse_session_new(
                &arguments, &table, MemoryLayout<fuse_lowlevel_ops>.size, owner)
        else {
            throw VolumeError(.invalid, "libfuse does not accept the mount options \(words).")
        }
        return session
    }

    /// All data between libfuse and the kernel passes here; INIT is completed on the way.
    private static var hooks: fuse_custom_io {
        var hooks = fuse_custom_io()
        hooks.read = { descriptor, buffer, size, owner in
            let count = Glibc.read(descriptor, buffer, size)
            let driver = Unmanaged<Driver>.fromOpaque(owner!).takeUnretainedValue()
            if count > 0, !driver.negotiation.isDone {
                driver.negotiation.received(buffer!, count: count)
            }
            return count
        }
        hooks.writev = { _, pieces, count, owner in
            let driver = Unmanaged<Driver>.fromOpaque(owner!).takeUnretainedValue()
            return driver.send(pieces!, count)
        }
        return hooks
    }

    // MARK: Serving

    /// Serves requests until the volume is unmounted or `stop` was called. Call it once.
    package func run() {
        driver.rings.failed.set { [weak self] in
            guard let session = self else { return }
            Thread("stop") { session.stop() }.detach()
        }
        let notifier = Thread("notifier") { self.driver.notifier.run(self.session) }
        let timers = Thread("turns") { self.driver.arbitration.timers.run() }
        let workers = (0..<workerCount).map { number in
            Thread("fuse \(number)") { self.serve() }
        }
        running.withLock { $0 = workers }
        let watch = Thread("reserve") {
            self.reserve.watch { number in
                self.running.withLock { $0.append(Thread("fuse \(number)") { self.serve() }) }
            }
        }
        for worker in workers { worker.join() }
        reserve.end()
        watch.join()
        for worker in running.withLock({ $0.dropFirst(workerCount) }) { worker.join() }
        driver.rings.end()
        driver.volume.prepareToStop()
        running.withLock { $0 = [] }
        driver.arbitration.endWaiting()
        driver.arbitration.timers.close()
        timers.join()
        driver.parking.stop()
        driver.opens.closeRemaining()
        driver.notifier.stop()
        notifier.join()
        isOver.withLock { $0 = true }
        driver.rings.close()
        // Closes /dev/fuse: programs that still wait for an answer get ECONNABORTED.
        fuse_session_unmount(session)
        fuse_session_destroy(session)
        driver.rings.destroy()
    }

    private func serve() {
        let result = cl_thread_unshare()
        guard result >= 0 else {
            log.critical(
                "A thread cannot get its own umask: \(Errno(-result)). It serves no requests.")
            return
        }
        var buffer = fuse_buf()
        while fuse_session_exited(session) == 0 {
            let count = fuse_session_receive_buf(session, &buffer)
            if count == -EINTR || count == -EAGAIN { continue }
            guard count > 0 else { break }
            let message = UnsafeMutableRawBufferPointer(start: buffer.mem, count: Int(count))
            reserve.serve {
                if driver.rings.translate(message) { driver.serve(buffer.mem, Int(count)) }
            }
        }
        free(buffer.mem)
        fuse_session_exit(session)
    }

    /// Ends the session from another thread; `run` returns soon after. Open files of programs fail
    /// from then on.
    package func stop() {
        guard !isStopping.exchange(true, ordering: .acquiringAndReleasing) else { return }
        driver.volume.prepareToStop()
        for end in ends.withLock({ $0 }) { end() }
        driver.arbitration.endWaiting()
        // Unmounts while requests are still served, so that mapped pages are written back.
        let isUnmounted = MountPoint.unmount(mountPoint, lazily: false)
        if !isUnmounted { MountPoint.unmount(mountPoint, lazily: true) }
        // A busy mount was detached from the namespace. Programs that write through this process
        // get a moment to end.
        if isUnmounted || !isPassthrough { awaitEnd(milliseconds: 2000) }
        isOver.withLock { isOver in
            if !isOver { fuse_session_exit(session) }
        }
        while true {
            let sleepers = running.withLock { $0 }
            if sleepers.isEmpty { return }
            for worker in sleepers { worker.wake() }
            usleep(10_000)
        }
    }

    // MARK: Changes without the mount

    /// Invalidates these entries, which were changed in the tree without the mount. Must not be
    /// called while a request waits for the caller. Returns at once; the kernel is notified a
    /// little later. Directories that the kernel does not know cost nothing.
    package func changed(_ spots: [DirectoryEntry]) {
        var listings: Set<UInt64> = []
        for spot in spots {
            guard let directory = driver.tree.nodes.known(spot.directory) else { continue }
            driver.notifier.tell(.name(spot.name.bytes + [0], in: directory.id))
            // This invalidates the cached listing.
            if listings.insert(directory.id).inserted {
                driver.notifier.tell(.contents(directory.id))
            }
        }
    }

    /// Adds a closure that is called when the session is to end, before it unmounts.
    package func beforeEnd(_ body: @escaping @Sendable () -> Void) {
        ends.withLock { $0.append(body) }
    }

    private func awaitEnd(milliseconds: Int) {
        for _ in 0..<(milliseconds / 10) where !running.withLock({ $0.isEmpty }) { usleep(10_000) }
    }

    // MARK: Status

    /// Whether the kernel reads and writes files directly.
    package var isPassthrough: Bool {
        driver.passthrough.isOn && driver.negotiation.has(CF_PASSTHROUGH)
    }

    /// The same with the reason why not; the reason is empty before the kernel has sent its first
    /// request.
    package var facts: (passthrough: Bool, reason: String) {
        guard driver.negotiation.isDone else { return (false, "") }
        if isPassthrough { return (true, "") }
        return (false, whyNotPassthrough ?? "the kernel does not offer it")
    }
    /// Why passthrough is not used, in a few words; nil if it is used.
    package var whyNotPassthrough: String? { driver.passthrough.whyNot }

    /// What carries requests: "io_uring", or "/dev/fuse" with the reason why not io_uring.
    package var transport: (name: String, reason: String) {
        if driver.rings.isUsed { return ("io_uring", "") }
        return ("/dev/fuse", driver.rings.whyNot.withLock { $0 } ?? "")
    }

    /// The number of kernel requests since the mount, by name.
    package var requestCounts: [String: Int] { driver.requests.byName }

    /// The number of files and directories that the kernel knows.
    package var nodeCount: Int { driver.tree.nodes.count }

    /// The number of descriptors held for nodes and open files.
    package var descriptorCount: Int {
        driver.tree.nodes.descriptorCount + driver.opens.handles.count
            + driver.directories.streams.count
    }
}
