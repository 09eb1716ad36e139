import CLinux
import Control
import Coordination
import Glibc
import Logging
import Model
import Mount
import Sync
import Synchronization
import Volume

/// One mount, from its checks to its clean end, in this process.
struct Daemon {
    let mountPoint: FilePath
    let store: FilePath
    /// Whether the store's path is the default. Only then missing directories above it are created.
    let isDefaultStore: Bool
    let options: MountOptions
    /// Whether missing parts of the store are rebuilt (`--rebuild`).
    let rebuilds: Bool
    let announcement: StartupReport

    /// Returns when the volume is unmounted and its journal closed. The result is true when the
    /// watchdog took the mount away because this process was stopped for too long; it should then
    /// be mounted again.
    func run() throws(VolumeError) -> Bool {
        // This must come before any thread starts, because threads inherit the blocked signals.
        cl_hold_signals()
        // Most threads wait most of the time, and small blocks are cached for each thread.
        cl_limit_heaps(4, 1 << 20)
        cl_raise_descriptor_limit()
        cl_give_up_reserves()
        let (place, point) = try checked()
        try place.makeParents()
        guard chdir("/") == 0 else {
            throw VolumeError(.system, "cannot change to the directory /")
        }
        let file = LogFile(path: announcement.isForeground ? nil : place.text + "/log")
        let log = file.logger("concord")

        let volume = try open(place, for: point, file)
        let wasTakenAway: Bool
        do throws(VolumeError) {
            wasTakenAway = try serve(volume, at: point, file)
        } catch {
            volume.stop()
            throw error
        }
        volume.stop()
        log.info("unmounted \(point.path)")
        if wasTakenAway {
            log.warning(
                "This process was stopped for too long, so programs got errors. Mounting again.")
        }
        return wasTakenAway
    }

    /// Opens the store. After umount(8) has returned, the old daemon still needs a moment to close
    /// the store. This waits up to 10 seconds for it.
    private func open(_ place: StorePath, for point: MountPoint, _ file: LogFile)
        throws(VolumeError) -> Volume
    {
        let patience = cl_clock_monotonic_ns() + Timestamp.span(seconds: 10)
        var isWaiting = false
        while true {
            do throws(VolumeError) {
                return try Volume.open(
                    store: place.text, name: options.name,
                    owner: "process \(getpid()), mounted at \(point.path)", settings: settings,
                    log: file.logger("volume"))
            } catch {
                let isOver = cl_clock_monotonic_ns() > patience
                guard error.code == .busy, !isOver, try !isMounted(place) else { throw error }
            }
            if !isWaiting {
                file.logger("concord").info("waiting for the previous daemon of this store to end")
            }
            isWaiting = true
            usleep(20_000)
        }
    }

    private func isMounted(_ place: StorePath) throws(VolumeError) -> Bool {
        // In the mount's options commas separate the options, so the source appears there without
        // its commas.
        let source = place.text.filter { $0 != "," }
        return try MountTable().entries.contains { $0.isConcord && $0.source == source }
    }

    private func checked() throws(VolumeError) -> (StorePath, MountPoint) {
        let place = try StorePath(store, createsParents: isDefaultStore)
        let point = try MountPoint(mountPoint, store: place.path)
        try place.check(against: point.path)
        try FuseDevice.check(allowOther: options.allowOther)
        return (place, point)
    }

    private var settings: Settings {
        var settings = Settings()
        settings.listConflicts = options.listConflicts
        settings.cacheBytesMax = options.cache
        settings.freeBytesMin = options.free
        settings.rebuilds = rebuilds
        return settings
    }

    private var syncSettings: SyncSettings {
        var settings = SyncSettings()
        settings.uploadRate = options.limitUp
        settings.downloadRate = options.limitDown
        return settings
    }

    private func serve(_ volume: Volume, at point: MountPoint, _ file: LogFile)
        throws(VolumeError) -> Bool
    {
        let log = file.logger("concord")
        let servesAll = options.allowOther && geteuid() == 0
        let socket = try ControlSocket(
            volume: volume.identity.volume, audience: servesAll ? .everyone : .owner)
        let arbiter = Arbiter(clock: { cl_clock_realtime_ns() })
        let session = try MountSession(
            volume: volume, source: volume.identity.store, mountPoint: point.text,
            options: Mount.MountOptions(options), arbiter: arbiter, socketPath: socket.path,
            log: file.logger("mount"))
        let applier = Applier(
            session: session, volume: volume, socketPath: socket.path, log: file.logger("applier"))
        let membership = Membership(
            volume: volume, tree: applier, settings: syncSettings, log: file.logger("sync")
        ) { [weak session] spots in session?.changed(spots) }
        let autoMerger = AutoMerger(volume: volume, tree: applier, log: file.logger("merge"))
        let inhibitor = Inhibitor(log: file.logger("inhibitor"))
        membership.onUnsafe { [weak inhibitor] isUnsafe in inhibitor?.set(isUnsafe) }
        let ending = EndingWatch(log: log)
        session.beforeEnd { ending.end([("the synchronization", membership.stop)]) }
        let desk = ClaimService(arbiter: arbiter, session: session, volume: volume)
        TransferWatch.start(desk, volume, membership)
        volume.eviction.obstacle.set { [weak desk] names in
            desk.flatMap { $0.evictions.obstacle(toEvicting: names, $0) }
        }
        volume.eviction.claim.set { [weak desk] names in
            desk.flatMap { EvictionQuestions.claim(on: names, $0) }
        }
        let server: ControlServer
        do throws(VolumeError) {
            server = try ControlServer(
                at: socket,
                service: Service(
                    volume: volume, session: session, mountPoint: point.path,
                    desk: desk,
                    membership: membership,
                    tree: applier, autoMerger: autoMerger),
                log: file.logger("control")
            ) { volume.mayAccess($0, $1, write: $2) }
        } catch {
            session.stop()
            throw error
        }
        let notices = Notifications(
            volume: volume, mountPoint: point.text, log: file.logger("notice"))
        reportVersions(of: volume, session, desk, autoMerger, notices)
        volume.start()
        server.start()
        autoMerger.start()
        notices.start()
        do throws(VolumeError) { try membership.start() } catch {
            log.error("The volume is not synchronized with its hub: \(error)")
        }
        endOnSignals(session, log)
        announce(session, volume, point, log)
        let watchdog =
            options.suspendTime > 0
            ? Watchdog(mountPoint: point.text, seconds: options.suspendTime, log: log) : nil
        session.run()
        let wasTakenAway = watchdog?.end() ?? false
        // What waits for the hub is given up first, because the others may wait for it.
        ending.end([
            ("the synchronization", membership.stop), ("merges", autoMerger.stop),
            ("notices", notices.stop), ("the inhibitor", inhibitor.stop),
            ("the applier", applier.stop), ("answers to commands", server.stop),
        ])
        return wasTakenAway
    }

    private func reportVersions(
        of volume: Volume, _ session: MountSession, _ desk: ClaimService, _ autoMerger: AutoMerger,
        _ notices: Notifications
    ) {
        volume.openDocuments.connect(to: session, desk, notices.editors)
        let arbiter = desk.arbiter
        volume.conflicts.onVersions {
            [weak session, weak desk, autoMerger, notices] change, versions, names in
            autoMerger.poke()
            notices.conflicts.poke()
            if change == .gained { desk?.tell(conflictOf: names) }
            guard let session, !arbiter.isQuiet else { return }
            desk?.tell(ubiquityOf: names)
            for version in versions {
                arbiter.step(.version(session.path(names), change, id: version.description))
            }
        }
    }

    private func endOnSignals(_ session: MountSession, _ log: Logger) {
        let thread = ThreadHandle("signals") {
            while true {
                let number = cl_await_end()
                log.info("ending on \(number == SIGTERM ? "SIGTERM" : "SIGINT")")
                session.stop()
            }
        }
        thread?.detach()
    }

    /// Announces the mount when the kernel's first request has been answered, because only then it
    /// is known whether passthrough works.
    private func announce(
        _ session: MountSession, _ volume: Volume, _ point: MountPoint, _ log: Logger
    ) {
        let thread = ThreadHandle("announce") {
            var tries = 0
            while !session.facts.passthrough, session.facts.reason.isEmpty, tries < 1000 {
                usleep(10_000)
                tries += 1
            }
            let facts = session.facts
            let reason = facts.reason.isEmpty ? "" : ": \(facts.reason)"
            let line = """
                mounted volume \(volume.identity.name) at \(point.path) \
                (store \(volume.identity.store), \
                passthrough \(facts.passthrough ? "on" : "off\(reason)"))
                """
            log.info("\(line)")
            // The starting process was interrupted, so nobody wants this mount any more.
            if !announcement.succeed(line) { session.stop() }
        }
        thread?.detach()
    }
}

extension Mount.MountOptions {
    init(_ options: MountOptions) {
        self.init()
        allowOther = options.allowOther
        passthrough = options.passthrough
        rings = options.rings
        kernel = options.generic
        arbitration.isOn = options.coordination
        for (time, seconds) in options.arbitration {
            switch time {
            case .timeout: arbitration.timeout = seconds
            case .names: arbitration.namesTimeout = seconds
            case .idle: arbitration.breakTime = seconds
            case .reader: arbitration.readerTime = seconds
            case .writer: arbitration.writerTime = seconds
            case .editor: arbitration.editorTimeout = seconds
            }
        }
    }
}
