import CLinux
import Glibc
import SystemCalls

/// A file's extents by FIEMAP (linux/fiemap.h).
enum FileExtents {
    static let unwritten: UInt32 = 0x800
    private static let request: UInt = 0xc020_660b

    struct Extent {
        var logical: UInt64 = 0
        var physical: UInt64 = 0
        var length: UInt64 = 0
        var reserved64: (UInt64, UInt64) = (0, 0)
        var flags: UInt32 = 0
        var reserved: (UInt32, UInt32, UInt32) = (0, 0, 0)
    }

    private struct Header {
        var start: UInt64 = 0
        var length = UInt64.max
        var flags: UInt32 = 0
        var mappedExtents: UInt32 = 0
        var extentCount: UInt32 = 0
        var reserved: UInt32 = 0
    }

    /// The extents, if there are fewer than 64; a file with more has certainly been written. Empty
    /// if the file system does not support this.
    static func first(of file: Int32) -> [Extent] {
        let count = 64
        let size = MemoryLayout<Header>.size + count * MemoryLayout<Extent>.stride
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: size, alignment: 8)
        defer { buffer.deallocate() }
        buffer.initializeMemory(as: UInt8.self, repeating: 0)
        var header = Header()
        header.extentCount = UInt32(count)
        buffer.storeBytes(of: header, as: Header.self)
        guard cl_ioctl(file, request, buffer.baseAddress) == 0 else { return [] }
        let mapped = Int(buffer.load(as: Header.self).mappedExtents)
        guard mapped < count else { return [] }
        return (0..<mapped).map {
            buffer.load(
                fromByteOffset: MemoryLayout<Header>.size + $0 * MemoryLayout<Extent>.stride,
                as: Extent.self)
        }
    }

    /// Waits until a file's blocks have places on the disk and are written there
    /// (FIEMAP_FLAG_SYNC). On Btrfs it also waits for the metadata that refers to them, as
    /// sync_file_range(2) does not.
    static func write(of file: Int32) throws(Errno) {
        var header = Header()
        header.length = 1
        header.flags = 1
        try check(cl_ioctl(file, request, &header))
    }
}
