import CLinux
import Foundation
import Glibc
import SystemCalls

/// A file that a test has open, with the calls that programs make on open files. Failures are
/// thrown.
package final class OpenFile {
    package let descriptor: Int32
    private var isOpen = true

    package init(
        _ path: String, _ flags: Int32, mode: mode_t = 0o644
    ) throws(Errno) {
        descriptor = try check(cl_openat(AT_FDCWD, path, flags, mode))
    }

    /// Creates a file, or truncates it.
    package static func creating(_ path: String, _ flags: Int32 = O_RDWR) throws(Errno) -> OpenFile
    {
        try OpenFile(path, flags | O_CREAT | O_TRUNC)
    }

    deinit { close() }

    /// Returns the error of close(2).
    @discardableResult package func close() -> Errno? {
        guard isOpen else { return nil }
        isOpen = false
        return refusal { () throws(Errno) in try check(cl_close(descriptor)) }
    }

    package func status() throws(Errno) -> FileStatus {
        var status = stat()
        try check(cl_fstat(descriptor, &status))
        return FileStatus(status)
    }

    /// Writes at the file position.
    package func write(_ text: String) throws(Errno) {
        let bytes = Array(text.utf8)
        let count = Glibc.write(descriptor, bytes, bytes.count)
        guard count == bytes.count else { throw Errno(count < 0 ? errno : EIO) }
    }

    package func write(_ text: String, at offset: Int) throws(Errno) {
        try write(Array(text.utf8), at: offset)
    }

    package func write(_ bytes: [UInt8], at offset: Int) throws(Errno) {
        var done = 0
        while done < bytes.count {
            // A full disk may accept a part first.
            done += try check(
                bytes.withUnsafeBytes {
                    cl_pwrite(
                        descriptor, $0.baseAddress! + done, bytes.count - done,
                        Int64(offset + done))
                })
        }
    }

    /// Returns fewer bytes than requested only at the end.
    package func bytes(_ count: Int, at offset: Int = 0) throws(Errno) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        var done = 0
        while done < count {
            let got = try check(
                bytes.withUnsafeMutableBytes {
                    cl_pread(
                        descriptor, $0.baseAddress! + done, count - done, Int64(offset + done))
                })
            if got == 0 { break }
            done += got
        }
        return Array(bytes[..<done])
    }

    package func text(_ count: Int = 4096, at offset: Int = 0) throws(Errno) -> String {
        String(decoding: try bytes(count, at: offset), as: UTF8.self)
    }

    package func truncate(to size: Int) throws(Errno) {
        try check(cl_ftruncate(descriptor, Int64(size)))
    }

    package func sync() throws(Errno) { try check(cl_fsync(descriptor, 0)) }

    package func allocate(_ mode: Int32, _ offset: Int, _ length: Int) throws(Errno) {
        try check(cl_fallocate(descriptor, mode, Int64(offset), Int64(length)))
    }

    package func seek(_ offset: Int, _ whence: Int32) throws(Errno) -> Int {
        Int(try check(cl_lseek(descriptor, Int64(offset), whence)))
    }

    /// Gives the file a name, which may be its first one (O_TMPFILE).
    package func link(to path: String) throws(Errno) {
        try check(cl_link_fd(descriptor, AT_FDCWD, path))
    }

    /// A shared mapping of the file from its beginning.
    package func map(
        _ length: Int, _ protection: Int32 = PROT_READ | PROT_WRITE
    ) throws(Errno) -> Mapping {
        try Mapping(descriptor, length, protection)
    }
}

/// Memory that is mapped from a file.
package final class Mapping {
    package let bytes: UnsafeMutableRawBufferPointer

    init(_ descriptor: Int32, _ length: Int, _ protection: Int32) throws(Errno) {
        let start = mmap(nil, length, protection, MAP_SHARED, descriptor, 0)
        guard let start, start != MAP_FAILED else { throw Errno(errno) }
        bytes = UnsafeMutableRawBufferPointer(start: start, count: length)
    }

    deinit { munmap(bytes.baseAddress, bytes.count) }

    package func write(_ text: String, at offset: Int) {
        for (index, byte) in text.utf8.enumerated() { bytes[offset + index] = byte }
    }

    package func text(_ count: Int, at offset: Int = 0) -> String {
        String(decoding: bytes[offset..<(offset + count)], as: UTF8.self)
    }

    package func flush() { msync(bytes.baseAddress, bytes.count, Int32(MS_SYNC)) }
}

/// The errno with which `body` fails; nil when it succeeds.
package func refusal(_ body: () throws(Errno) -> Void) -> Errno? {
    do throws(Errno) {
        try body()
        return nil
    } catch { return error }
}

/// Checks a call that returns -1 and sets errno.
package func call(_ result: Int32) throws(Errno) {
    if result < 0 { throw Errno(errno) }
}
