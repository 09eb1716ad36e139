import CFuse
import CFuseRing
import CLinux
import Glibc
import SystemCalls
import Volume

// What the session needs from the driver besides the request handlers.
extension Driver {
    /// Called by libfuse while it handles INIT.
    func negotiate(_ connection: UnsafeMutablePointer<fuse_conn_info>) {
        if !negotiation.isOffered(CF_PASSTHROUGH) {
            passthrough.disable("this kernel does not offer it (6.9 and later do)")
        }
        var wanted = connection.pointee.want
        let offered = connection.pointee.capable
        // Splicing gains nothing with passthrough. HANDLE_KILLPRIV is replaced by its second
        // version.
        wanted &= ~UInt32(
            FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE
                | FUSE_CAP_WRITEBACK_CACHE | FUSE_CAP_HANDLE_KILLPRIV | FUSE_CAP_AUTO_INVAL_DATA)
        // Without passthrough all contents pass through the kernel's cache, so the cache is right,
        // and it must not be dropped at each new modification time: if that happens while a write
        // is on its way here, a read can bring the old contents back into the cache.
        let invalidation =
            passthrough.isOn ? FUSE_CAP_AUTO_INVAL_DATA : FUSE_CAP_EXPLICIT_INVAL_DATA
        let useful =
            FUSE_CAP_ASYNC_READ | FUSE_CAP_ATOMIC_O_TRUNC | FUSE_CAP_ASYNC_DIO
            | invalidation | FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO
            | FUSE_CAP_IOCTL_DIR | FUSE_CAP_POSIX_ACL | FUSE_CAP_DONT_MASK | FUSE_CAP_CACHE_SYMLINKS
        wanted |= UInt32(useful) & offered
        connection.pointee.want = wanted
        connection.pointee.max_background = 128
        connection.pointee.congestion_threshold = 96
    }

    /// Serves a request as it was read from /dev/fuse or brought by a ring. The memory belongs to
    /// the caller and may be changed.
    func serve(_ memory: UnsafeMutableRawPointer, _ count: Int) {
        if intercept(UnsafeRawBufferPointer(start: memory, count: count)) { return }
        var buffer = fuse_buf()
        buffer.mem = memory
        buffer.size = count
        fuse_session_process_buf(session, &buffer)
    }

    /// Serves requests that libfuse 3.14 does not know. Returns false for a request that libfuse
    /// must handle.
    private func intercept(_ message: UnsafeRawBufferPointer) -> Bool {
        let header = message.loadUnaligned(as: cf_in_header.self)
        requests.count(header.opcode)
        cl_thread_serve(header.unique, group(header, message))
        let body = UnsafeRawBufferPointer(rebasing: message[MemoryLayout<cf_in_header>.size...])
        switch header.opcode {
        case UInt32(CF_OP_TMPFILE): serveTemporary(header, body)
        case UInt32(CF_OP_STATX): serveStatx(header, body)
        case UInt32(CF_OP_SYNCFS): serveSync(header)
        default: return false
        }
        return true
    }

    private func serveTemporary(_ header: cf_in_header, _ body: UnsafeRawBufferPointer) {
        let caller = Caller(
            uid: header.uid, gid: header.gid, process: Int32(bitPattern: header.pid), umask: 0,
            unique: header.unique, group: cl_thread_request().group)
        guard !volume.readOnly.isSet || callers.isApplier(caller) else {
            return send(header.unique, error: EROFS)
        }
        let message = body.loadUnaligned(as: cf_create_in.self)
        let make: @Sendable () throws(Errno) -> Void = { [self] () throws(Errno) in
            let made = try creation.temporary(header.nodeid, message, caller)
            if !send(header.unique, made.reply) { made.revert() }
        }
        do throws(Errno) { try make() } catch {
            guard error == .noSpace else { return send(header.unique, error: error.code) }
            parking.runDetached(on: .room) { [self] in
                do throws(Errno) {
                    try volume.room.withRoom { () throws(Errno) in try make() }
                } catch {
                    send(header.unique, error: error.code)
                }
            }
        }
    }

    private func serveStatx(_ header: cf_in_header, _ body: UnsafeRawBufferPointer) {
        do throws(Errno) {
            let answer =
                try VersionNodes.isVirtual(header.nodeid)
                ? cf_statx_out(versions.nodes.find(header.nodeid).status)
                : attributes.statx(header.nodeid, body.loadUnaligned(as: cf_statx_in.self))
            send(header.unique, answer)
        } catch {
            send(header.unique, error: error.code)
        }
    }

    private func serveSync(_ header: cf_in_header) {
        parking.runDetached(on: .disk) { [self] in
            let descriptor = cl_openat(volume.root, ".", O_RDONLY | O_DIRECTORY, 0)
            guard descriptor >= 0 else { return send(header.unique, error: -descriptor) }
            let result = cl_syncfs(descriptor)
            if result == 0 { volume.writing.didSyncAll() }
            send(header.unique, error: -result)
            _ = cl_close(descriptor)
        }
    }

    /// The group that the kernel adds to a request that creates something; -1 if none.
    private func group(_ header: cf_in_header, _ message: UnsafeRawBufferPointer) -> Int64 {
        let length = Int(header.extlen) * 8
        let start = message.count - length
        // The layout: struct fuse_ext_header, the number of groups, the first group.
        guard length >= 16, start >= MemoryLayout<cf_in_header>.size,
            message.loadUnaligned(fromByteOffset: start + 4, as: UInt32.self)
                == UInt32(CF_EXT_GROUPS),
            message.loadUnaligned(fromByteOffset: start + 8, as: UInt32.self) > 0
        else { return -1 }
        return Int64(message.loadUnaligned(fromByteOffset: start + 12, as: UInt32.self))
    }

    // MARK: Replies

    /// Sends a reply where its request came from. Returns its length, or -1 with errno.
    func send(_ pieces: UnsafePointer<iovec>, _ count: Int32) -> Int {
        let unique = pieces[0].iov_base!.loadUnaligned(as: cf_out_header.self).unique
        if let ring = rings.ring, fr_is_ours(unique) != 0 { return fr_reply(ring, pieces, count) }
        guard !negotiation.isDone else { return writev(kernel, pieces, count) }
        negotiation.sending(
            pieces, count: count, passthrough: passthrough.isOn
        ) { payload in
            rings.prepare(
                for: self, isOffered: negotiation.isOffered(CF_OVER_IO_URING), payload: payload)
        }
        let result = writev(kernel, pieces, count)
        rings.begin(result >= 0)
        return result
    }

    // MARK: Replies that bypass libfuse

    @discardableResult
    private func send<Wire: BitwiseCopyable>(_ unique: UInt64, _ wire: Wire) -> Bool {
        var header = cf_out_header()
        header.len = UInt32(MemoryLayout<cf_out_header>.size + MemoryLayout<Wire>.size)
        header.unique = unique
        var wire = wire
        return withUnsafeMutableBytes(of: &header) { header in
            withUnsafeMutableBytes(of: &wire) { wire in
                var pieces = [
                    iovec(iov_base: header.baseAddress, iov_len: header.count),
                    iovec(iov_base: wire.baseAddress, iov_len: wire.count),
                ]
                return send(&pieces, 2) >= 0
            }
        }
    }

    private func send(_ unique: UInt64, error: Int32) {
        var header = cf_out_header()
        header.len = UInt32(MemoryLayout<cf_out_header>.size)
        header.error = -error
        header.unique = unique
        withUnsafeMutableBytes(of: &header) {
            var piece = iovec(iov_base: $0.baseAddress, iov_len: $0.count)
            _ = send(&piece, 1)
        }
    }
}
