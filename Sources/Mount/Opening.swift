import CFuse
import CLinux
import Glibc
import Model
import Synchronization
import SystemCalls
import Volume

/// One open in progress, from the descriptor to the reply. It may need a second try on a parking thread.
final class Opening: @unchecked Sendable {
    /// What an open has become.
    struct Opened: Sendable {
        let handle: Handle
        let number: UInt64
        let reply: cf_open_out
    }

    private let driver: Driver
    private let node: Node
    private let state: OpenState
    private let file: SharedDescriptor
    private let flags: Int32
    private let caller: Caller
    private let isNew: Bool
    /// A descriptor that the making of the file has left, or -1.
    private var real: Int32

    init(
        _ driver: Driver, _ node: Node, _ file: SharedDescriptor, flags: Int32, caller: Caller,
        isNew: Bool = false, real: Int32 = -1
    ) throws(Errno) {
        self.driver = driver
        self.node = node
        self.flags = flags
        self.caller = caller
        self.isNew = isNew
        self.real = real
        (state, self.file) = driver.nodes.use(node, file)
    }

    private var truncates: Bool { flags & O_TRUNC != 0 && !isNew }
    private var writes: Bool { flags & O_ACCMODE != O_RDONLY || truncates }

    /// Gives up, after a failure.
    func abandon() {
        if real >= 0 { _ = cl_close(real) }
        real = -1
        driver.nodes.endUse(of: node, state)
    }

    /// For a file that was just made, which nothing has to be saved of.
    func finish() throws(Errno) -> Opened {
        do throws(Errno) {
            guard let opened = try proceed(mayBlock: true) else { throw Errno.io }
            return opened
        } catch {
            abandon()
            throw error
        }
    }

    /// Nil: to be called again from a parking thread, with `mayBlock`.
    func proceed(mayBlock: Bool) throws(Errno) -> Opened? {
        let opened = try state.withLife(mayBlock: mayBlock) {
            (life) throws(Errno) -> Opened? in
            let status = try self.file.status()
            var undo: Undo?
            if self.writes {
                let access = try self.driver.volume.openForWriting(
                    &life.writing, file: self.file.raw, status: status, truncates: self.truncates,
                    isNew: self.isNew, traits: self.driver.traits(self.node),
                    others: life.handles, unique: self.caller.unique, mayBlock: mayBlock,
                    by: self.driver.actor(self.caller))
                switch access {
                case .direct: break
                case .slow: return nil
                case .guarded(let old): undo = old
                }
            }
            do throws(Errno) { return try self.open(&life, status, undo) } catch {
                if self.writes {
                    self.driver.volume.closeWriter(
                        &life.writing, file: self.file.raw,
                        traits: self.driver.traits(self.node), unique: self.caller.unique)
                }
                throw error
            }
        }
        return opened ?? nil
    }

    private func open(_ life: inout OpenState.Life, _ status: stat, _ undo: Undo?) throws(Errno)
        -> Opened
    {
        let mode = mode(life.mode, undo)
        if let undo { life.undo = undo }
        var reply = cf_open_out()
        var throughUs = true
        switch mode {
        case .passthrough(let backing):
            throughUs = undo != nil || (writes && !isNew && isPrivileged(status))
            let how = UInt32(CF_FOPEN_PASSTHROUGH) | (throughUs ? UInt32(CF_FOPEN_DIRECT_IO) : 0)
            reply.open_flags = how
            reply.backing_id = Int32(bitPattern: backing)
        default:
            // Without passthrough all that changes a file passes through the kernel's cache.
            let isCacheTrue = !driver.passthrough.load(ordering: .relaxed)
            reply.open_flags = isCacheTrue ? UInt32(CF_FOPEN_KEEP_CACHE) : 0
        }
        reply.open_flags |= UInt32(CF_FOPEN_NOFLUSH)
        do throws(Errno) {
            if throughUs, real < 0 || undo != nil {
                if real >= 0 { _ = cl_close(real) }
                real = -1
                real = try Handle.reopen(file, flags, isGuarded: undo != nil)
            }
            if truncates { try truncate() }
        } catch {
            release(mode, life)
            throw error
        }
        if !throughUs, real >= 0 {
            _ = cl_close(real)
            real = -1
        }
        life.mode = mode
        life.handles += 1
        return register(&reply, isShared: !throughUs, undo)
    }

    private func register(_ reply: inout cf_open_out, isShared: Bool, _ undo: Undo?) -> Opened {
        let handle = Handle(
            node: node, state: state, file: file, flags: flags, caller: caller, writes: writes,
            isShared: isShared, isCreator: isNew, undo: undo, real: real)
        real = -1
        if handle.isSharedWriter { driver.nodes.countSharedWriter(state, by: 1) }
        let number = driver.handles.insert(handle)
        reply.fh = number
        return Opened(handle: handle, number: number, reply: reply)
    }

    /// The first open decides how all handles read and write, until the last is closed.
    private func mode(_ current: OpenState.Mode, _ undo: Undo?) -> OpenState.Mode {
        guard case .closed = current else { return current }
        guard undo == nil, driver.passthrough.load(ordering: .relaxed) else { return .daemon }
        let backing = cf_backing_open(driver.kernel, file.raw)
        if backing > 0 { return .passthrough(backing: UInt32(backing)) }
        if backing == -EPERM || backing == -ENOTTY || backing == -EOPNOTSUPP {
            driver.giveUpPassthrough(Errno(-backing))
        }
        return .daemon
    }

    /// After a failure: a backing file that was registered for this open alone.
    private func release(_ mode: OpenState.Mode, _ life: OpenState.Life) {
        guard case .closed = life.mode, case .passthrough(let backing) = mode else { return }
        cf_backing_close(driver.kernel, backing)
    }

    private func truncate() throws(Errno) {
        let target = SharedDescriptor(
            owning: real >= 0 && flags & O_ACCMODE != O_RDONLY
                ? try check(dup(real)) : try check(cl_reopen(file.raw, O_WRONLY | O_NONBLOCK)))
        _ = try driver.change(for: caller) { Int64(cl_ftruncate(target.raw, 0)) }
    }

    /// Set-id bits and capabilities must be cleared by a write, and the kernel leaves that to us.
    private func isPrivileged(_ status: stat) -> Bool {
        guard driver.negotiation.has(CF_HANDLE_KILLPRIV_V2) else { return false }
        return status.st_mode & (S_ISUID | S_ISGID) != 0
            || cl_getxattr_fd(file.raw, "security.capability", nil, 0) > 0
    }
}
