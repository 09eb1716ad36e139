import CLinux
import Glibc
import Model
import SystemCalls

/// The programs that make requests: acts with their identity, and says who they are.
final class Callers: Sendable {
    let programs = Programs()
    let sessions = ProcessSessions()
    let applierGuard: ApplierGuard
    /// Whether this process may act as other users (root).
    let canAct = geteuid() == 0

    init(_ applierGuard: ApplierGuard) { self.applierGuard = applierGuard }

    /// Creates something in the tree with the caller's identity and umask, so that the file system
    /// itself sets owner, group and what the directory's default ACL says.
    func create(for caller: Caller, _ body: () -> Int32) throws(Errno) -> Int32 {
        _ = cl_umask(caller.umask)
        defer { _ = cl_umask(0) }
        guard canAct, caller.uid != 0 || caller.gid != 0 else { return try check(body()) }
        let became =
            caller.group >= 0
            ? cl_thread_become_in(caller.uid, caller.gid, gid_t(caller.group))
            : cl_thread_become(caller.uid, caller.gid)
        defer { cl_thread_return() }
        try check(became)
        let result = body()
        guard result == -EACCES else { return try check(result) }
        // The kernel has allowed it because of a supplementary group of the caller that is unknown
        // here.
        try check(cl_thread_override())
        return try check(body())
    }

    /// Changes a file with the caller's rights, so that set-ID bits are cleared as by a write of
    /// the caller's own.
    func change(for caller: Caller, _ body: () -> Int64) throws(Errno) -> Int64 {
        guard canAct, caller.uid != 0 else { return try check(body()) }
        cl_thread_fsids(caller.uid, caller.gid)
        defer { cl_thread_fsids(0, 0) }
        return try check(body())
    }

    func actor(_ caller: Caller) -> Actor {
        Actor(
            process: caller.process, uid: caller.uid, program: programs.name(of: caller.process),
            session: applierGuard.isApplier(caller.process)
                ? nil : sessions.session(of: caller.process, uid: caller.uid))
    }

    func isApplier(_ caller: Caller) -> Bool { applierGuard.isApplier(caller.process) }

    /// The process ancestry for which a claim counts. The applier acts for no other process, not
    /// even for the one that has started the daemon.
    func line(of process: Int32) -> [Int32] {
        applierGuard.isApplier(process) ? [process] : ProcessAncestry.line(of: process)
    }
}
