import CLinux
import Glibc
import Model
import SystemCalls

// Acting for the program that asked.
extension Driver {
    /// Makes something in the tree with the caller's identity and umask, so that the file system
    /// itself gives it its owner, its group and what its directory's default ACL says.
    func create(for caller: Caller, _ body: () -> Int32) throws(Errno) -> Int32 {
        try withRoom { () throws(Errno) in try createNow(for: caller, body) }
    }

    /// What is refused for want of space is tried again when old versions have given way.
    private func withRoom<Result>(_ bytes: Int = 0, _ body: () throws(Errno) -> Result)
        throws(Errno) -> Result
    {
        do throws(Errno) { return try body() } catch {
            guard error == .noSpace, volume.makeRoom(Int64(bytes)) else { throw error }
            return try body()
        }
    }

    private func createNow(for caller: Caller, _ body: () -> Int32) throws(Errno) -> Int32 {
        _ = cl_umask(caller.umask)
        defer { _ = cl_umask(0) }
        guard actsAsCaller, caller.uid != 0 || caller.gid != 0 else { return try check(body()) }
        let became =
            caller.group >= 0
            ? cl_thread_become_in(caller.uid, caller.gid, gid_t(caller.group))
            : cl_thread_become(caller.uid, caller.gid)
        defer { cl_thread_return() }
        try check(became)
        let result = body()
        guard result == -EACCES else { return try check(result) }
        // The kernel has allowed it by a group of the caller that we do not know.
        try check(cl_thread_override())
        return try check(body())
    }

    /// Changes a file with the caller's rights, so that set-id bits are cleared as a write of his
    /// own would.
    func change(for caller: Caller, writing bytes: Int = 0, _ body: () -> Int64)
        throws(Errno) -> Int64
    {
        try withRoom(bytes) { () throws(Errno) in try changeNow(for: caller, body) }
    }

    private func changeNow(for caller: Caller, _ body: () -> Int64) throws(Errno) -> Int64 {
        guard actsAsCaller, caller.uid != 0 else { return try check(body()) }
        cl_thread_fsids(caller.uid, caller.gid)
        defer { cl_thread_fsids(0, 0) }
        return try check(body())
    }

    func actor(_ caller: Caller) -> Actor {
        Actor(
            process: caller.process, uid: caller.uid, program: programs.name(of: caller.process))
    }
}
