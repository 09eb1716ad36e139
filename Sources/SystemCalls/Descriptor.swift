import CLinux
import Glibc

/// An open file descriptor. It is closed when the value ends.
package struct Descriptor: ~Copyable, Sendable {
    package let raw: Int32

    package init(owning raw: Int32) { self.raw = raw }

    package init(
        opening path: String, in directory: Int32 = AT_FDCWD, flags: Int32, mode: mode_t = 0
    ) throws(Errno) {
        raw = try check(cl_openat(directory, path, flags, mode))
    }

    deinit { _ = cl_close(raw) }

    /// Hands the descriptor to the caller without closing it.
    package consuming func release() -> Int32 {
        let raw = raw
        discard self
        return raw
    }

    package func status() throws(Errno) -> stat {
        var status = stat()
        try check(cl_fstat(raw, &status))
        return status
    }

    /// Returns the number of bytes read. It is less than the buffer's length only at the end of the
    /// file.
    package func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) throws(Errno)
        -> Int
    {
        try readFully(raw, into: buffer, at: offset)
    }

    package func write(_ bytes: UnsafeRawBufferPointer, at offset: Int64) throws(Errno) {
        try writeFully(raw, bytes, at: offset)
    }

    package func sync(dataOnly: Bool = true) throws(Errno) {
        try check(cl_fsync(raw, dataOnly ? 1 : 0))
    }
}

/// Calls pread(2) until the buffer is full or the file ends. Returns the number of bytes read.
package func readFully(
    _ descriptor: Int32, into buffer: UnsafeMutableRawBufferPointer, at offset: Int64
) throws(Errno) -> Int {
    var done = 0
    while done < buffer.count {
        let count = cl_pread(
            descriptor, buffer.baseAddress! + done, buffer.count - done, offset + Int64(done))
        if count == -Int(EINTR) { continue }
        if try check(count) == 0 { break }
        done += count
    }
    return done
}

/// Calls pwrite(2) until everything is written.
package func writeFully(_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer, at offset: Int64)
    throws(Errno)
{
    var done = 0
    while done < bytes.count {
        let count = cl_pwrite(
            descriptor, bytes.baseAddress! + done, bytes.count - done, offset + Int64(done))
        if count == -Int(EINTR) { continue }
        done += try check(count)
    }
}

package func writeFully(_ descriptor: Int32, _ bytes: [UInt8], at offset: Int64) throws(Errno) {
    try bytes.withUnsafeBytes { all in
        Result { () throws(Errno) in try writeFully(descriptor, all, at: offset) }
    }.get()
}

/// Writes into a new file or into a hole. If all bytes are zero, nothing is written and the hole
/// stays; the caller sets the file's length afterwards.
package func writeSparsely(_ descriptor: Int32, _ bytes: [UInt8], at offset: Int64) throws(Errno) {
    if !isZero(bytes) { try writeFully(descriptor, bytes, at: offset) }
}

package func isZero(_ bytes: [UInt8]) -> Bool {
    guard let first = bytes.first, first == 0 else { return bytes.isEmpty }
    return bytes.withUnsafeBytes { bytes in
        memcmp(bytes.baseAddress!, bytes.baseAddress! + 1, bytes.count - 1) == 0
    }
}

/// The absolute path by which the kernel knows an open file; nil if it has none. A removed file has
/// one that ends in " (deleted)".
package func pathOfDescriptor(_ descriptor: Int32) -> [UInt8]? {
    withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(PATH_MAX)) { buffer in
        let count = cl_readlinkat(
            AT_FDCWD, "/proc/self/fd/\(descriptor)", buffer.baseAddress, buffer.count)
        guard count > 0, count < buffer.count else { return nil }
        return buffer[..<count].map { UInt8(bitPattern: $0) }
    }
}
