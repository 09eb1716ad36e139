import CFuse
import CLinux
import Glibc
import Model
import SystemCalls
import Volume

/// Attributes: getattr, setattr, readlink, statfs, statx. The kernel asks when it has none cached,
/// or when a write or read through it has made them stale.
final class AttributeOperations: RequestGroup {
    let parts: RequestParts
    let handles: HandleTable<Handle>

    init(_ parts: RequestParts, handles: HandleTable<Handle>) {
        self.parts = parts
        self.handles = handles
    }

    func getattr(_ request: Request, _ id: UInt64) {
        request.answer { () throws(Errno) in
            let node = try tree.node(id)
            if tree.nodes.flags(of: node).contains(.mapped),
                !tree.isMapped(try tree.descriptor(node))
            {
                tree.nodes.remove(.mapped, from: node)
            }
            var (status, seconds) = try tree.status(of: node)
            tree.numbers.show(&status)
            request.reply(status, seconds: seconds)
        }
    }

    func setattr(
        _ request: Request, _ id: UInt64, _ values: stat, which: Int32, handle: UInt64?
    ) {
        request.answer { () throws(Errno) in
            let node = try tree.node(id)
            let found = try tree.descriptor(node)
            let caller = request.caller
            if callers.isApplier(caller) { try callers.applierGuard.admitChange(of: node) }
            guard which & FUSE_SET_ATTR_SIZE != 0 else {
                return try finishSetattr(request, node, found, values, which)
            }
            let size = Int64(values.st_size)
            let again: @Sendable (Request) -> Void = { request in
                cl_thread_serve(caller.unique, caller.group)
                self.setattr(request, id, values, which: which, handle: handle)
            }
            // The file's bytes must not be evicted until it has been truncated.
            guard volume.hydration.preventEviction(node.inode) else {
                return fetcher.retry(request, else: {}, again)
            }
            defer { volume.hydration.allowEviction(node.inode) }
            if size > 0 { guard try fetcher.haveWhole(request, found, again) else { return } }
            let truncation = Truncation(
                operations: self, node: node, file: found, size: size, handle: handle,
                caller: caller)
            try truncation.run(request) { request throws(Errno) in
                try self.finishSetattr(request, node, found, values, which)
            }
        }
    }

    private func finishSetattr(
        _ request: Request, _ node: Node, _ file: SharedDescriptor, _ values: stat, _ which: Int32
    ) throws(Errno) {
        let known = which & FUSE_SET_ATTR_MTIME != 0 ? staleSaves.known(try file.status()) : nil
        // The kernel has checked the caller's permission. The owner is set before the mode, because
        // a change of owner clears bits.
        if which & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID) != 0 {
            try check(
                cl_chown_fd(
                    file.raw, which & FUSE_SET_ATTR_UID != 0 ? values.st_uid : uid_t.max,
                    which & FUSE_SET_ATTR_GID != 0 ? values.st_gid : gid_t.max))
        }
        if which & FUSE_SET_ATTR_MODE != 0 { try check(cl_chmod_fd(file.raw, values.st_mode)) }
        if which & (FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME) != 0 {
            var times = [values.st_atim, values.st_mtim]
            times[0].tv_nsec = nanoseconds(
                times[0], which, set: FUSE_SET_ATTR_ATIME, now: FUSE_SET_ATTR_ATIME_NOW)
            times[1].tv_nsec = nanoseconds(
                times[1], which, set: FUSE_SET_ATTR_MTIME, now: FUSE_SET_ATTR_MTIME_NOW)
            try check(cl_utimens_fd(file.raw, times))
        }
        let noted = FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID | FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_MTIME
        var status = try file.status()
        if which & (noted & ~FUSE_SET_ATTR_MTIME) != 0, status.st_mode & S_IFMT == S_IFDIR {
            volume.events.protectionChanged(ofDirectory: node.inode, file: file.raw)
        } else if which & noted != 0 {
            volume.events.attributesChanged(inode: node.inode)
        }
        if let known { staleSaves.retimed(known, as: status) }
        volume.hydration.attributesSet(
            on: file.raw, status: status,
            modified: which & (FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_MTIME_NOW) != 0)
        volume.hydration.present(&status) { file.raw }
        let position = tree.nodes.position(of: node)
        if position.isStashed { status.st_nlink = 0 }
        tree.numbers.show(&status)
        request.reply(
            status,
            seconds: KernelCache.seconds(status.st_mode, isVolatile: position.isVolatile))
    }

    private func nanoseconds(_ time: timespec, _ which: Int32, set: Int32, now: Int32) -> Int {
        if which & now != 0 { return 0x3fff_ffff }  // UTIME_NOW
        return which & set != 0 ? time.tv_nsec : 0x3fff_fffe  // UTIME_OMIT
    }

    func readlink(_ request: Request, _ id: UInt64) {
        request.answer { () throws(Errno) in
            var target = [CChar](repeating: 0, count: Int(PATH_MAX) + 1)
            let file = try tree.descriptor(try tree.node(id))
            try check(cl_readlinkat(file.raw, "", &target, Int(PATH_MAX)))
            fuse_reply_readlink(request.raw, target)
        }
    }

    func statfs(_ request: Request) {
        request.answer { () throws(Errno) in
            var status = statvfs()
            guard fstatvfs(volume.root, &status) == 0 else { throw Errno(errno) }
            // Space that can be freed for programs counts as free.
            let more = fsblkcnt_t(max(0, volume.freeableBytes)) / max(1, status.f_frsize)
            let blocks = status.f_blocks
            status.f_bfree = min(blocks, DiskSpace.checked(status.f_bfree, of: blocks) + more)
            status.f_bavail = min(
                status.f_bfree, DiskSpace.checked(status.f_bavail, of: blocks) + more)
            _ = withUnsafePointer(to: status) { fuse_reply_statfs(request.raw, $0) }
        }
    }

    /// Handles FUSE_STATX, which libfuse does not know: statx(2) with the birth time. Returns the
    /// wire structure.
    func statx(_ id: UInt64, _ message: cf_statx_in) throws(Errno) -> cf_statx_out {
        let node = try tree.node(id)
        let position = tree.nodes.position(of: node)
        let file = try tree.descriptor(node)
        var reply = cf_statx_out()
        let flags = Flag.emptyPath | Flag.noFollow | Int32(bitPattern: message.sx_flags) & 0x6000
        try check(cl_statx_whole(file.raw, "", flags, message.sx_mask | 0x7ff, &reply.stat))
        reply.stat.mask &= 0xfff
        tree.present(&reply.stat, file)
        reply.stat.ino = tree.numbers.shown(reply.stat.ino)
        if position.isStashed { reply.stat.nlink = 0 }
        // The remaining fields of statx(2) describe mounts and direct I/O of the tree, not of this
        // file system.
        reply.stat.spare2 = cf_statx().spare2
        reply.attr_valid = UInt64(
            KernelCache.seconds(mode_t(reply.stat.mode), isVolatile: position.isVolatile))
        return reply
    }
}

extension cf_statx_out {
    /// The fields of stat(2), which may be cached for long; there is no birth time.
    init(_ status: stat) {
        self.init()
        attr_valid = UInt64(KernelCache.seconds)
        stat.mask = 0x7ff  // STATX_BASIC_STATS
        stat.blksize = 4096
        (stat.nlink, stat.uid) = (UInt32(status.st_nlink), status.st_uid)
        (stat.gid, stat.mode) = (status.st_gid, UInt16(status.st_mode))
        (stat.ino, stat.size) = (UInt64(status.st_ino), UInt64(status.st_size))
        stat.blocks = UInt64(status.st_blocks)
        stat.atime = cf_sx_time(status.st_atim)
        stat.mtime = cf_sx_time(status.st_mtim)
        stat.ctime = cf_sx_time(status.st_ctim)
    }
}

extension cf_sx_time {
    init(_ time: timespec) {
        self.init(tv_sec: Int64(time.tv_sec), tv_nsec: UInt32(time.tv_nsec), reserved: 0)
    }
}
