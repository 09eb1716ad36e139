import CFuse
import Glibc

/// Serves a disk as the one file of a FUSE file system.
final class DiskServer: @unchecked Sendable {
    let disk: MemoryDisk
    private var session: OpaquePointer?

    static let file: fuse_ino_t = 2
    static let name = "image"

    init(disk: MemoryDisk) { self.disk = disk }

    func mount(at directory: String) -> Bool {
        var arguments = fuse_args()
        defer { fuse_opt_free_args(&arguments) }
        for word in ["disk-program", "-o", "fsname=disk-program"] {
            fuse_opt_add_arg(&arguments, word)
        }
        var table = Self.operations()
        session = fuse_session_new(
            &arguments, &table, MemoryLayout<fuse_lowlevel_ops>.size,
            Unmanaged.passUnretained(self).toOpaque())
        guard let session else { return false }
        return fuse_session_mount(session, directory) == 0
    }

    /// Returns when the file system was unmounted.
    func run() {
        _ = fuse_session_loop(session)
        fuse_session_destroy(session)
    }

    func stop() { fuse_session_unmount(session) }

    fileprivate static func of(_ request: fuse_req_t?) -> DiskServer {
        Unmanaged.fromOpaque(fuse_req_userdata(request)!).takeUnretainedValue()
    }

    fileprivate func status(of inode: fuse_ino_t) -> stat {
        var status = stat()
        status.st_ino = ino_t(inode)
        if inode == Self.file {
            status.st_mode = S_IFREG | 0o600
            status.st_nlink = 1
            status.st_size = off_t(disk.size)
        } else {
            status.st_mode = S_IFDIR | 0o700
            status.st_nlink = 2
        }
        return status
    }

    private static func operations() -> fuse_lowlevel_ops {
        var table = fuse_lowlevel_ops()
        table.lookup = { request, _, name in
            guard String(cString: name!) == DiskServer.name else {
                fuse_reply_err(request, ENOENT)
                return
            }
            var entry = fuse_entry_param()
            entry.ino = DiskServer.file
            entry.attr = DiskServer.of(request).status(of: DiskServer.file)
            (entry.attr_timeout, entry.entry_timeout) = (3600, 3600)
            fuse_reply_entry(request, &entry)
        }
        table.getattr = { request, inode, _ in
            var status = DiskServer.of(request).status(of: inode)
            fuse_reply_attr(request, &status, 3600)
        }
        // mkfs empties what it is given.
        table.setattr = { request, inode, _, _, _ in
            var status = DiskServer.of(request).status(of: inode)
            fuse_reply_attr(request, &status, 3600)
        }
        table.open = { request, _, info in
            info!.pointee.keep_cache = 1
            fuse_reply_open(request, info)
        }
        table.read = { request, _, count, offset, _ in
            let bytes = DiskServer.of(request).disk.read(count, at: Int(offset))
            _ = bytes.withUnsafeBytes {
                fuse_reply_buf(request, $0.bindMemory(to: CChar.self).baseAddress, $0.count)
            }
        }
        table.write = { request, _, bytes, count, offset, _ in
            let buffer = Array(UnsafeRawBufferPointer(start: bytes, count: count))
            fuse_reply_write(request, DiskServer.of(request).disk.write(buffer, at: Int(offset)))
        }
        table.fsync = { request, _, _, _ in
            DiskServer.of(request).disk.flush()
            fuse_reply_err(request, 0)
        }
        table.flush = { request, _, _ in fuse_reply_err(request, 0) }
        table.release = { request, _, _ in fuse_reply_err(request, 0) }
        return table
    }
}
