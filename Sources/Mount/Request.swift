import CFuse
import CLinux
import Glibc
import Model
import SystemCalls

/// Who asks, as the kernel says.
struct Caller: Sendable {
    var uid: UInt32
    var gid: UInt32
    /// A thread's id.
    var process: Int32
    var umask: UInt32
    /// The kernel's number of the request.
    var unique: UInt64
    /// One more group of the caller that matters for what is created, or -1.
    var group: Int64
}

/// A request of the kernel, to be answered exactly once, on any thread.
struct Request: @unchecked Sendable {
    let raw: fuse_req_t

    init(_ raw: fuse_req_t?) { self.raw = raw! }

    var driver: Driver {
        Unmanaged<Driver>.fromOpaque(fuse_req_userdata(raw)).takeUnretainedValue()
    }

    /// Only on the worker thread that was given the request.
    var caller: Caller {
        let context = fuse_req_ctx(raw)!.pointee
        let serving = cl_thread_request()
        return Caller(
            uid: context.uid, gid: context.gid, process: context.pid, umask: context.umask,
            unique: serving.unique, group: serving.group)
    }

    /// Who asks, with all groups: those of a thread that waits for this request's answer. Only on
    /// the worker thread that was given the request.
    var onlooker: Onlooker {
        let caller = caller
        var user = Onlooker(uid: caller.uid, gid: caller.gid)
        guard !user.isRoot else { return user }
        var groups = [gid_t](repeating: 0, count: 256)
        var count = Int(fuse_req_getgroups(raw, Int32(groups.count), &groups))
        if count > groups.count {
            groups = [gid_t](repeating: 0, count: count)
            count = Int(fuse_req_getgroups(raw, Int32(groups.count), &groups))
        }
        // Where they are not told, the caller has those of the process alone.
        user.groups = Array(groups.prefix(max(0, count)))
        return user
    }

    /// Runs a handler that answers as its last step, or throws before it has.
    func answer(_ body: () throws(Errno) -> Void) {
        do throws(Errno) { try body() } catch { refuse(error) }
    }

    func refuse(_ error: Errno) { fuse_reply_err(raw, error.code) }
    func done() { fuse_reply_err(raw, 0) }

    /// False: the kernel has dropped the request, and what it would have been told must be undone.
    func reply(_ entry: fuse_entry_param) -> Bool {
        withUnsafePointer(to: entry) { fuse_reply_entry(raw, $0) } == 0
    }

    func reply(_ status: stat, seconds: Double) {
        _ = withUnsafePointer(to: status) { fuse_reply_attr(raw, $0, seconds) }
    }

    func reply(_ bytes: UnsafeRawBufferPointer) {
        fuse_reply_buf(raw, bytes.baseAddress?.assumingMemoryBound(to: CChar.self), bytes.count)
    }

    /// Replies with a structure of the wire that libfuse does not know.
    func reply<Wire: BitwiseCopyable>(wire: Wire) -> Bool {
        withUnsafeBytes(of: wire) {
            fuse_reply_buf(raw, $0.baseAddress!.assumingMemoryBound(to: CChar.self), $0.count)
        } == 0
    }
}
