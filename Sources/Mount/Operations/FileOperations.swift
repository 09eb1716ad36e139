import CFuse
import CLinux
import Glibc
import SystemCalls
import Volume

/// The contents of open files: read, write, flush, fsync, fallocate, lseek, copy_file_range, ioctl.
/// With passthrough most reads and writes never arrive here; the other calls always do.
final class FileOperations: RequestGroup {
    let parts: RequestParts
    private let handles: HandleTable<Handle>

    init(_ parts: RequestParts, handles: HandleTable<Handle>) {
        self.parts = parts
        self.handles = handles
    }

    func read(_ request: Request, _ number: UInt64, size: Int, offset: Int64) {
        request.answer { () throws(Errno) in
            let handle = try handles.find(number)
            guard let range = handle.absentRange(offset, size), let file = handle.contents else {
                return try answerRead(request, handle, size: size, offset: offset)
            }
            volume.hydration.willRead(range, of: file)
            fetcher.awaitContents(request, .bytes(range), of: file) { request in
                request.answer { () throws(Errno) in
                    try self.answerRead(request, handle, size: size, offset: offset)
                }
            }
        }
    }

    private func answerRead(_ request: Request, _ handle: Handle, size: Int, offset: Int64)
        throws(Errno)
    {
        let bytes = UnsafeMutableRawBufferPointer(
            start: try Request.buffer(size), count: size)
        let count = try readFully(try handle.descriptor(), into: bytes, at: offset)
        request.reply(UnsafeRawBufferPointer(rebasing: bytes[..<count]))
    }

    /// The position of a write.
    enum WritePosition {
        case offset(Int64)
        /// The offset of what a mapping has changed. No program waits for the answer.
        case page(Int64)
        /// The end of the file at the moment of the write, which the kernel may not know yet.
        case end
    }

    func write(
        _ request: Request, _ number: UInt64, _ bytes: UnsafeRawBufferPointer,
        at position: WritePosition
    ) {
        request.answer { () throws(Errno) in
            let handle = try handles.find(number)
            let offset = try offset(of: position, handle)
            let (caller, count) = (request.caller, Int64(bytes.count))
            if handle.preImages?.mustSync(offset: offset, length: count) == true {
                // The old blocks must be on the disk first.
                return park(request, on: .disk, handle, [UInt8](bytes), at: position)
            }
            let written: Int64
            do throws(Errno) {
                written = try writeNow(handle, bytes, at: position, for: caller)
            } catch {
                guard error == .noSpace else { throw noted(error, handle, position) }
                // Other requests are served while space is freed.
                return park(request, on: .room, handle, [UInt8](bytes), at: position)
            }
            fuse_reply_write(request.raw, Int(written))
        }
    }

    private func park(
        _ request: Request, on lane: Parking.Lane, _ handle: Handle, _ bytes: [UInt8],
        at position: WritePosition
    ) {
        let caller = request.caller
        parking.carryOut(
            request, on: lane,
            { () throws(Errno) -> Int64 in
                let written = bytes.withUnsafeBytes { bytes in
                    Result { () throws(Errno) in
                        try self.volume.oldContents.overwriting(
                            handle.preImages, offset: self.offset(of: position, handle),
                            length: Int64(bytes.count)
                        ) { () throws(Errno) in
                            try self.writeNow(handle, bytes, at: position, for: caller)
                        }
                    }
                }
                return try written.mapError { self.noted($0, handle, position) }.get()
            },
            answer: { request, count in fuse_reply_write(request.raw, Int(count)) })
    }

    /// Keeps the error of a write to whose answer no program waits, for `flush`.
    private func noted(_ error: Errno, _ handle: Handle, _ position: WritePosition) -> Errno {
        if case .page = position { handle.state.unwrittenPages.withLock { $0.note(error) } }
        return error
    }

    /// A program closes a file that it may have mapped.
    func flush(_ request: Request, _ number: UInt64) {
        request.answer { () throws(Errno) in
            if let failure = try handles.find(number).untoldFailure() { throw failure }
            request.done()
        }
    }

    private func writeNow(
        _ handle: Handle, _ bytes: UnsafeRawBufferPointer, at position: WritePosition,
        for caller: Caller
    ) throws(Errno) -> Int64 {
        let descriptor = try handle.descriptor()
        let offset = try offset(of: position, handle)
        try willWrite(handle, offset: offset, length: bytes.count)
        return try callers.change(for: caller) {
            switch position {
            case .offset, .page:
                Int64(cl_pwrite(descriptor, bytes.baseAddress, bytes.count, offset))
            case .end: Int64(cl_pwrite_end(descriptor, bytes.baseAddress, bytes.count))
            }
        }
    }

    /// The offset of the bytes as of now. The end of the file is looked up only if old blocks must
    /// be saved.
    private func offset(of position: WritePosition, _ handle: Handle) throws(Errno) -> Int64 {
        switch position {
        case .offset(let offset), .page(let offset): offset
        case .end: handle.preImages == nil ? 0 : Int64(try handle.file.status().st_size)
        }
    }

    func fsync(_ request: Request, _ number: UInt64, dataOnly: Int32) {
        request.answer { () throws(Errno) in
            let handle = try handles.find(number)
            parking.carryOut(
                request, on: .disk,
                { () throws(Errno) in
                    // The old contents must be on the disk before the new ones.
                    let old = handle.state.writing.withLock { $0.unsyncedContents }
                    try self.volume.writing.sync(old)
                    let descriptor = try handle.descriptor()
                    try check(cl_fsync(descriptor, dataOnly))
                    let synced = handle.state.writing.withLock {
                        self.volume.writing.didSync(&$0, old, file: descriptor)
                    }
                    self.volume.openContents.didSync(synced, self.volume.journal)
                    // A program that syncs a file wants to keep it, even while it is still open.
                    self.tree.nodes.remove(.unsaved, from: handle.node)
                },
                answer: { request, _ in request.done() })
        }
    }

    func fallocate(
        _ request: Request, _ number: UInt64, mode: Int32, offset: Int64, length: Int64
    ) {
        request.answer { () throws(Errno) in
            let handle = try handles.find(number)
            let caller = request.caller
            parking.carryOut(
                request, on: .disk,
                { () throws(Errno) in
                    let descriptor = try handle.descriptor()
                    try self.volume.oldContents.overwriting(
                        mode & ~Flag.keepSize == 0 ? nil : handle.preImages,
                        offset: offset, length: length
                    ) { () throws(Errno) in
                        try self.willWrite(handle, offset: offset, length: Int(length))
                        _ = try self.callers.change(for: caller) {
                            Int64(cl_fallocate(descriptor, mode, offset, length))
                        }
                    }
                },
                answer: { request, _ in request.done() })
        }
    }

    func lseek(_ request: Request, _ number: UInt64, offset: Int64, whence: Int32) {
        request.answer { () throws(Errno) in
            let handle = try handles.find(number)
            if let file = handle.contents, !file.isComplete,
                whence == SEEK_DATA || whence == SEEK_HOLE
            {
                // Contents at the hub are not shown as holes.
                guard offset >= 0, offset < file.size else { throw Errno(ENXIO) }
                fuse_reply_lseek(request.raw, off_t(whence == SEEK_DATA ? offset : file.size))
                return
            }
            let descriptor = try handle.descriptor()
            guard try handle.file.status().st_size > SharedDescriptor.shortSize else {
                let found = try check(cl_lseek(descriptor, offset, whence))
                fuse_reply_lseek(request.raw, off_t(found))
                return
            }
            // The file system looks through all extents up to the next hole or data.
            parking.carryOut(
                request, on: .disk,
                { () throws(Errno) -> Int64 in
                    // The handle keeps its descriptor open.
                    try check(cl_lseek(try handle.descriptor(), offset, whence))
                },
                answer: { request, found in fuse_reply_lseek(request.raw, off_t(found)) })
        }
    }

    func copy(
        _ request: Request, _ from: (number: UInt64, offset: Int64),
        _ to: (number: UInt64, offset: Int64), length: Int
    ) {
        request.answer { () throws(Errno) in
            // The caller repeats the call for the rest. So the end of the session waits for no more
            // than this.
            let length = min(length, 256 << 20)
            let source = try handles.find(from.number)
            let target = try handles.find(to.number)
            if let range = source.absentRange(from.offset, length), let file = source.contents {
                let caller = request.caller
                return fetcher.awaitContents(request, .bytes(range), of: file) { request in
                    cl_thread_serve(caller.unique, caller.group)
                    self.copy(request, from, to, length: length)
                }
            }
            let caller = request.caller
            parking.carryOut(
                request, on: .disk,
                { () throws(Errno) -> Int64 in
                    let (input, descriptor) = (try source.descriptor(), try target.descriptor())
                    return try self.volume.oldContents.overwriting(
                        target.preImages, offset: to.offset, length: Int64(length)
                    ) { () throws(Errno) in
                        try self.willWrite(target, offset: to.offset, length: length)
                        return try self.callers.change(for: caller) {
                            cl_copy_file_range(
                                input, from.offset, descriptor, to.offset, length)
                        }
                    }
                },
                answer: { request, count in fuse_reply_write(request.raw, Int(count)) })
        }
    }

    /// Saves old blocks before they are overwritten, if the volume has asked for it.
    private func willWrite(_ handle: Handle, offset: Int64, length: Int) throws(Errno) {
        guard let preImages = handle.preImages else { return }
        try preImages.willWrite(try handle.descriptor(), offset: offset, length: Int64(length))
    }

    /// Handles the ioctls for the attribute bits of chattr(1) and of FS_IOC_FSGETXATTR, and no
    /// others.
    func ioctl(
        _ request: Request, _ id: UInt64, command: UInt32, _ input: UnsafeRawBufferPointer,
        outCount: Int
    ) {
        var argument = [UInt8](repeating: 0, count: 64)
        for (index, byte) in input.prefix(64).enumerated() { argument[index] = byte }
        parking.changing(request) { [self, argument] request throws(Errno) in
            var argument = argument
            let known: [UInt32] = [0x8008_6601, 0x4008_6602, 0x801c_581f, 0x401c_5820]
            guard known.contains(command), !VersionNodes.isVirtual(id) else { throw Errno(ENOTTY) }
            let file = try tree.descriptor(try tree.node(id))
            let real = SharedDescriptor(
                owning: try check(cl_reopen(file.raw, O_RDONLY | O_NONBLOCK)))
            _ = try callers.change(for: request.caller) {
                Int64(cl_ioctl(real.raw, UInt(command), &argument))
            }
            let answer: @Sendable () -> Void = { [argument] in
                fuse_reply_ioctl(request.raw, 0, argument, min(outCount, argument.count))
            }
            let setting: [UInt32] = [0x4008_6602, 0x401c_5820]
            guard setting.contains(command) else { return answer() }
            // Setting the bits has changed the file's change time, so the kernel must drop the
            // cached one before the program goes on. The kernel holds no lock here that the
            // invalidation needs.
            notifier.tell(.attributes(id))
            notifier.tell(.then(answer))
        }
    }
}
