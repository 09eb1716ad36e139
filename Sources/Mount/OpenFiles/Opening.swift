import CFuse
import CLinux
import Coordination
import Glibc
import Model
import Synchronization
import SystemCalls
import Volume

/// An open in progress, from the descriptor to the reply. It may need a second attempt on a parking
/// thread.
final class Opening: @unchecked Sendable {
    /// The result of an open.
    struct Opened: Sendable {
        let handle: Handle
        let number: UInt64
        let reply: cf_open_out
    }

    let files: OpenFiles
    let node: Node
    let state: OpenState
    let file: SharedDescriptor
    private let flags: Int32
    let caller: Caller
    private let isNew: Bool
    /// Whether the program asked for O_NOATIME.
    private let keepsAccessTime: Bool
    /// The attributes of a file that was just created, which no other program has open yet.
    private let known: stat?
    /// A descriptor left from the creation of the file, or -1.
    private var real: Int32
    /// A handle has been made of it, or it was abandoned.
    private var isSettled = false
    /// The file's attributes when the open was granted.
    private var looked: stat?
    /// Until when it waits for closes that may be on their way; monotonic nanoseconds. Nil before
    /// it has met one.
    private var closesUntil: Int64?
    /// Its implicit lease, once it has one; that of a waiting open is written under the lock of
    /// `OpenState.leases`.
    var lease: UInt64?
    /// The claim that it was granted.
    var claim: ClaimID?
    /// The document that only this device may edit, once the hub has granted it for this open.
    var document: Identifier?
    private var before: ChangeStamp?
    /// Set for a placeholder, which is in use until the open is abandoned or the handle is closed.
    private var contents: PlaceholderFile?
    /// Whether the volume knows of the writer.
    private var isCounted = false
    /// Called when the open has failed.
    var whenAbandoned: (@Sendable () -> Void)?

    init(
        _ files: OpenFiles, _ node: Node, _ file: SharedDescriptor, flags: Int32, caller: Caller,
        isNew: Bool = false, known: stat? = nil, real: Int32 = -1
    ) throws(Errno) {
        self.files = files
        self.node = node
        keepsAccessTime = flags & Flag.noAccessTime != 0
        self.flags = files.keepsAccessTimes ? flags | Flag.noAccessTime : flags
        self.caller = caller
        self.isNew = isNew
        self.known = known
        self.real = real
        (state, self.file) = files.tree.nodes.use(node, file)
    }

    private var volume: Volume { files.volume }
    private var truncates: Bool { flags & O_TRUNC != 0 && !isNew }
    private var writes: Bool { flags & O_ACCMODE != O_RDONLY || truncates }

    /// Ends an open that has failed. Does nothing if it has become a handle.
    func abandon() {
        guard !isSettled else { return }
        isSettled = true
        if real >= 0 { _ = cl_close(real) }
        real = -1
        if let contents { volume.hydration.endUse(contents) }
        if isNew, writes, !isCounted, let known { volume.events.isNotOpened(known) }
        files.leave(state, lease: lease, claim: claim, document: document)
        files.tree.nodes.endUse(of: node, state)
        whenAbandoned?()
    }

    // MARK: Claims and implicit leases

    var kind: ImplicitLeases.Kind {
        if flags & O_ACCMODE == O_RDONLY, flags & O_TRUNC == 0 { return .reader }
        return flags & O_APPEND != 0 && flags & O_TRUNC == 0 ? .appender : .writer
    }

    /// Whether it may wait for another device.
    var isPatient: Bool { flags & O_NONBLOCK == 0 }

    /// The access that it needs, for arbitration with claims.
    var access: Access { kind == .reader ? .read([]) : .write(.update) }

    /// Takes an implicit lease at once, if no other program is in the way. `anyway` is for a file
    /// that was just created.
    func takeLease(anyway: Bool = false) -> Bool {
        guard files.claims.arbitration.settings.isOn else { return true }
        lease = state.leases.withLock {
            $0.take(
                kind, process: caller.process, now: cl_clock_monotonic_ns(),
                anyway: anyway)
        }
        return lease != nil
    }

    /// Begins to open a file that was just created, for which it does not wait.
    func beginNew() throws(Errno) -> Step {
        _ = takeLease(anyway: true)
        // The file exists already and is a placeholder: the kernel looks it up again and opens it.
        if !isNew, case .ready = try lookAtContents() {} else if !isNew { throw Errno.stale }
        return try proceed(.none)
    }

    /// Parked opens of one file run one after the other.
    var line: SerialQueue { state.line }

    /// Where an open stands.
    enum Step: Sendable {
        case opened(Opened)
        /// Call `proceed` again in a moment.
        case moment
        /// Call `proceed` again with this patience, on a thread that has it.
        case needs(Patience)
    }

    func proceed(_ patience: Patience) throws(Errno) -> Step {
        guard patience >= .room else {
            do throws(Errno) { return try attempt(patience) } catch {
                guard error == .noSpace else { throw error }
                return .needs(.room)
            }
        }
        let size = Int64(try file.status().st_size)
        let bytes = truncates ? size : min(size, volume.settings.copiedSizeMax)
        let old = volume.oldContents
        return try old.movingAside(for: bytes) { (patience) throws(Errno) in
            let step = try attempt(patience)
            if case .needs(.room) = step { throw .noSpace }
            return step
        }
    }

    private func attempt(_ patience: Patience) throws(Errno) -> Step {
        guard writes else { return .opened(try open(nil)) }
        try refuseProtected()
        // Before the lock: asking for the caller's session may read files of /proc.
        let actor = files.callers.actor(caller)
        let step = try state.withWriting(mayBlock: patience > .none) {
            (writing) throws(Errno) -> Step in
            let (others, mode) = self.state.life.withLock { ($0.handles, $0.mode) }
            // The applier's rename has begun and soon ends.
            guard try self.isInPlace(others: others) else { return .moment }
            let maps = self.mayMap(in: mode)
            let status = try self.status()
            if self.truncates { self.looked = status }
            let seen =
                self.truncates
                ? self.files.staleSaves.base(
                    of: self.caller, replacing: status, self.file, self.node) : nil
            let access = try self.volume.writing.open(
                &writing, file: self.file.raw, status: status,
                truncates: self.truncates, seen: seen, maps: maps,
                appends: self.kind == .appender, isNew: self.isNew,
                traits: self.files.tree.traits(self.node), others: others,
                unique: self.caller.unique,
                patience: patience, isLastTry: self.hasWaitedForCloses, by: actor)
            self.isCounted = true
            do throws(Errno) {
                switch access {
                case .slow(let needed): return .needs(needed)
                case .early:
                    self.waitForCloses()
                    return .moment
                case .direct: return .opened(try self.open(nil))
                case .guarded(let preImages):
                    let opened = try self.open(preImages, isSecured: maps)
                    if let opened { return .opened(opened) }
                    self.takeBack(&writing)
                    return .needs(max(patience, .brief))
                }
            } catch {
                self.takeBack(&writing)
                throw error
            }
        }
        return step ?? .needs(.brief)
    }

    private func waitForCloses() {
        closesUntil = closesUntil ?? cl_clock_monotonic_ns() + Opening.patience
    }

    private var hasWaitedForCloses: Bool {
        closesUntil.map { cl_clock_monotonic_ns() >= $0 } ?? false
    }

    /// Returns false while the applier is replacing the file. Fails with ESTALE if the file was
    /// replaced or removed while the kernel was resolving the path; it then resolves it once more.
    private func isInPlace(others: Int) throws(Errno) -> Bool {
        guard !isNew else { return true }
        let flags = files.tree.nodes.flags(of: node)
        guard !flags.contains(.beingReplaced) else { return false }
        guard others == 0 else { return true }
        if files.isStale(node.id, for: caller) { throw .stale }
        return true
    }

    /// Nanoseconds for which an open for writing waits for a close that may be on its way.
    private static let patience: Int64 = 100_000_000

    /// Fails for files that chattr(1) has made immutable, and for append-only files unless they are
    /// opened for appending. The kernel checks these bits of the file below only when a descriptor
    /// for writing is opened there.
    private func refuseProtected() throws(Errno) {
        guard !isNew else { return }
        var status = cl_statx()
        try check(cl_statx(file.raw, 0, &status))
        if status.attributes & Flag.immutable != 0 { throw Errno(EPERM) }
        if status.attributes & Flag.appendOnly != 0, truncates || flags & O_APPEND == 0 {
            throw Errno(EPERM)
        }
    }

    private func status() throws(Errno) -> stat {
        if let known { return known }
        return try file.status()
    }

    /// Whether a program may write through a mapping of the file below, without passing through
    /// this process. It can if the inode is in passthrough mode.
    private func mayMap(in mode: OpenState.Mode) -> Bool {
        if case .passthrough = mode { return flags & O_ACCMODE == O_RDWR && !isNew }
        return false
    }

    /// Tells the volume that an open it knows has failed.
    private func takeBack(_ writing: inout Writing) {
        volume.writing.close(
            &writing, file: file.raw, traits: files.tree.traits(node), unique: caller.unique
        )
    }

    // MARK: Contents on demand

    /// What an open needs of a placeholder.
    enum Contents {
        case ready
        /// It is being evicted; ask again.
        case moment
        case need(PlaceholderFile.Need, PlaceholderFile)
    }

    func lookAtContents() throws(Errno) -> Contents {
        guard !isNew, contents == nil else { return .ready }
        let status = try file.status()
        looked = status
        switch try volume.hydration.use(file.raw, FileSnapshot(status)) {
        case .here: return .ready
        case .evicting: return .moment
        case .absent(let found): contents = found
        }
        // Contents that are replaced as a whole need not be fetched.
        guard let contents, !truncates else { return .ready }
        let settings = volume.settings
        if !contents.isComplete {
            let program = files.callers.programs.name(of: caller.process)
            // GLib opens a file with O_NOATIME only to look at its first bytes.
            if settings.noDownloadPrograms.contains(program)
                || keepsAccessTime && settings.sniffingPrograms.contains(program)
            {
                throw .denied
            }
        }
        if writes { return .need(.finish, contents) }
        // A small file is fetched completely first; a large one as it is read through this process.
        if contents.isComplete || contents.size > settings.wholeSizeMax { return .ready }
        return .need(.all, contents)
    }

    private func open(_ preImages: PreImageLog?) throws(Errno) -> Opened {
        try state.life.withLock { (life) throws(Errno) in try open(&life, preImages) }
    }

    /// Returns nil if other programs have opened the file since, so that a mapping could bypass
    /// `preImages`, which does not have all old blocks.
    private func open(_ preImages: PreImageLog, isSecured: Bool) throws(Errno) -> Opened? {
        try state.life.withLock { (life) throws(Errno) -> Opened? in
            if mayMap(in: life.mode), !isSecured { return nil }
            return try open(&life, preImages)
        }
    }

    private func open(_ life: inout OpenState.Life, _ preImages: PreImageLog?) throws(Errno)
        -> Opened
    {
        let mode = mode(life.mode, preImages)
        var reply = cf_open_out()
        var throughDaemon = true
        switch mode {
        case .passthrough(let backing):
            throughDaemon = preImages != nil
            if !throughDaemon, writes { throughDaemon = try isPrivileged() }
            let how =
                UInt32(CF_FOPEN_PASSTHROUGH) | (throughDaemon ? UInt32(CF_FOPEN_DIRECT_IO) : 0)
            reply.open_flags = how
            reply.backing_id = Int32(bitPattern: backing)
        default:
            // Without passthrough all changes of a file pass through the kernel's cache
            // (`Driver.negotiate`).
            if !files.negotiation.has(CF_PASSTHROUGH) {
                reply.open_flags = UInt32(CF_FOPEN_KEEP_CACHE)
            } else if preImages != nil, flags & O_ACCMODE == O_WRONLY {
                // A write-only file cannot be mapped, and for writes that pass through this process
                // the kernel's cache costs more than it gains.
                reply.open_flags = UInt32(CF_FOPEN_DIRECT_IO)
            }
        }
        // A program can map a file that it reads and writes. What such a mapping changes in the
        // kernel's cache arrives here as writes to which nobody waits for an answer. The answer to
        // a flush tells the program at its close what became of them.
        let cached = reply.open_flags & UInt32(CF_FOPEN_PASSTHROUGH | CF_FOPEN_DIRECT_IO) == 0
        if !(cached && flags & O_ACCMODE == O_RDWR) {
            reply.open_flags |= UInt32(CF_FOPEN_NOFLUSH)
        }
        do throws(Errno) {
            if throughDaemon, real < 0 || preImages != nil {
                if real >= 0 { _ = cl_close(real) }
                real = -1
                real = try Handle.reopen(file, flags, isGuarded: preImages != nil)
            }
            if writes, !files.claims.arbitration.isQuiet { before = ChangeStamp(try file.status()) }
            if truncates { try truncate() }
        } catch {
            release(mode, life)
            throw error
        }
        if !throughDaemon, real >= 0 {
            _ = cl_close(real)
            real = -1
        }
        life.mode = mode
        life.handles += 1
        return register(&reply, isShared: !throughDaemon, preImages)
    }

    private func register(_ reply: inout cf_open_out, isShared: Bool, _ preImages: PreImageLog?)
        -> Opened
    {
        let handle = Handle(
            node: node, state: state, file: file, flags: flags, caller: caller, writes: writes,
            sight: noteSeen(), isShared: isShared, isCreator: isNew, preImages: preImages,
            lease: lease,
            claim: claim, document: document,
            before: before, contents: contents, real: real)
        contents = nil
        real = -1
        isSettled = true
        if handle.isSharedWriter { files.tree.nodes.countSharedWriter(state, by: 1) }
        let number = files.handles.insert(handle)
        if writes { files.ownerFileReaders.handlesChanged() }
        reply.fh = number
        return Opened(handle: handle, number: number, reply: reply)
    }

    /// Notes which contents its process sees.
    private func noteSeen() -> SeenVersions.Sight {
        if isNew { return writes ? files.staleSaves.created(node.inode, by: caller) : .full }
        guard var status = looked else { return .full }
        if contents != nil { volume.hydration.present(&status) { file.raw } }
        return files.staleSaves.noteOpened(
            node, status, by: caller, reads: flags & O_ACCMODE != O_WRONLY && !truncates,
            writes: writes, truncates: truncates)
    }

    /// The first open decides the mode of all handles until the last is closed.
    private func mode(_ current: OpenState.Mode, _ preImages: PreImageLog?) -> OpenState.Mode {
        guard case .closed = current else { return current }
        guard preImages == nil, contents?.isComplete ?? true,
            files.passthrough.isOn,
            // Only writes that pass through this process can wait for space to be freed.
            !(writes && volume.room.isTight)
        else { return .daemon }
        let backing = files.passthrough.open(file)
        if backing > 0 { return .passthrough(backing: UInt32(backing)) }
        if backing == -EPERM || backing == -ENOTTY || backing == -EOPNOTSUPP {
            files.passthrough.disable("the kernel refuses it (\(Errno(-backing)))")
        }
        return .daemon
    }

    /// After a failure, unregisters a backing file that was registered for this open only.
    private func release(_ mode: OpenState.Mode, _ life: OpenState.Life) {
        guard case .closed = life.mode, case .passthrough(let backing) = mode else { return }
        files.passthrough.close(backing)
    }

    private func truncate() throws(Errno) {
        let target = SharedDescriptor(
            owning: real >= 0 && flags & O_ACCMODE != O_RDONLY
                ? try check(dup(real)) : try check(cl_reopen(file.raw, O_WRONLY | O_NONBLOCK)))
        if contents != nil { volume.hydration.willEmpty(inode: node.inode) }
        _ = try files.callers.change(for: caller) { Int64(cl_ftruncate(target.raw, 0)) }
        if contents != nil { try PlaceholderMark.remove(from: file.raw) }
    }

    /// Whether writes must pass through this process so that set-ID bits and capabilities are
    /// handled. The kernel leaves clearing them to us and says for each write whether to; root's
    /// writes keep the bits. What the kernel writes by itself it writes with our rights, and then
    /// they are always cleared.
    private func isPrivileged() throws(Errno) -> Bool {
        guard files.negotiation.has(CF_HANDLE_KILLPRIV_V2) else { return false }
        if try status().st_mode & (S_ISUID | S_ISGID) != 0 { return true }
        return !isNew && cl_getxattr_fd(file.raw, "security.capability", nil, 0) > 0
    }
}
