import CFuse
import CFuseRing
import CLinux
import Glibc
import Model
import SystemCalls

/// The caller of a request, as the kernel reports it.
struct Caller: Sendable {
    var uid: UInt32
    var gid: UInt32
    /// The id of the calling thread.
    var process: Int32
    var umask: UInt32
    /// The kernel's number of the request.
    var unique: UInt64
    /// One more group of the caller that matters for what is created, or -1.
    var group: Int64
}

/// A request of the kernel. It must be answered exactly once, on any thread.
struct Request: @unchecked Sendable {
    let raw: fuse_req_t

    init(_ raw: fuse_req_t?) { self.raw = raw! }

    var driver: Driver {
        Unmanaged<Driver>.fromOpaque(fuse_req_userdata(raw)).takeUnretainedValue()
    }

    /// Must be read on the worker thread that received the request.
    var caller: Caller {
        let context = fuse_req_ctx(raw)!.pointee
        let serving = cl_thread_request()
        return Caller(
            uid: context.uid, gid: context.gid, process: context.pid, umask: context.umask,
            unique: serving.unique, group: serving.group)
    }

    /// The caller with all its groups, which are those of the thread that waits for the answer.
    /// Must be read on the worker thread that received the request.
    var onlooker: Requester {
        let caller = caller
        var user = Requester(uid: caller.uid, gid: caller.gid)
        guard !user.isRoot else { return user }
        var groups = [gid_t](repeating: 0, count: 256)
        var count = Int(fuse_req_getgroups(raw, Int32(groups.count), &groups))
        if count > groups.count {
            groups = [gid_t](repeating: 0, count: count)
            count = Int(fuse_req_getgroups(raw, Int32(groups.count), &groups))
        }
        // If they cannot be read, only the caller's primary group counts.
        user.groups = Array(groups.prefix(max(0, count)))
        return user
    }

    /// Runs a handler, which must answer as its last step or throw before that.
    func answer(_ body: () throws(Errno) -> Void) {
        do throws(Errno) { try body() } catch { refuse(error) }
    }

    /// Answers with EROFS if the caller may change nothing here, and returns whether it did. A file
    /// that was open for writing before stays so; what is written to it is kept on this device.
    func isRefusedAsReadOnly() -> Bool {
        guard driver.volume.readOnly.isSet, !driver.callers.isApplier(caller) else {
            return false
        }
        refuse(.readOnly)
        return true
    }

    func refuse(_ error: Errno) { fuse_reply_err(raw, error.code) }
    func done() { fuse_reply_err(raw, 0) }

    /// Returns false if the kernel has dropped the request; what the reply would have granted must
    /// be undone.
    func reply(_ entry: fuse_entry_param) -> Bool {
        withUnsafePointer(to: entry) { fuse_reply_entry(raw, $0) } == 0
    }

    func reply(_ status: stat, seconds: Double) {
        _ = withUnsafePointer(to: status) { fuse_reply_attr(raw, $0, seconds) }
    }

    /// A buffer for the data of a reply. It is valid until the calling thread has sent the reply.
    static func buffer(_ size: Int) throws(Errno) -> UnsafeMutableRawPointer {
        // A reply to a request from a ring needs no copy if its data are in place already.
        if let place = fr_reply_buffer(size) { return place }
        guard let buffer = cl_thread_buffer(size) else { throw Errno(ENOMEM) }
        return buffer
    }

    func reply(_ bytes: UnsafeRawBufferPointer) {
        fuse_reply_buf(raw, bytes.baseAddress?.assumingMemoryBound(to: CChar.self), bytes.count)
    }

    /// Replies with the value of an extended attribute; a size of 0 asks only for its length.
    func reply(value: [UInt8], size: Int) throws(Errno) {
        guard size > 0 else {
            fuse_reply_xattr(raw, value.count)
            return
        }
        guard value.count <= size else { throw Errno(ERANGE) }
        value.withUnsafeBytes { reply($0) }
    }

    /// Replies with a wire structure that libfuse does not know. Returns false if the kernel has
    /// dropped the request.
    func reply<Wire: BitwiseCopyable>(wire: Wire) -> Bool {
        withUnsafeBytes(of: wire) {
            fuse_reply_buf(raw, $0.baseAddress!.assumingMemoryBound(to: CChar.self), $0.count)
        } == 0
    }
}
