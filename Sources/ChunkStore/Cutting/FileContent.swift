import CLinux
import Glibc
import Model
import SystemCalls

/// The content of an open file. It does not own the descriptor. Asking for extents moves the
/// descriptor's file position.
package struct FileContent: ContentSource {
    private let descriptor: Int32

    package init(descriptor: Int32) { self.descriptor = descriptor }

    package func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64)
        throws(VolumeError) -> Int
    {
        do throws(Errno) {
            return try readFully(descriptor, into: buffer, at: offset)
        } catch {
            throw VolumeError(
                .system,
                "The content cannot be read at byte \(offset): \(error). "
                    + "Check the disk that it is on.")
        }
    }

    /// Everything is data where the file system does not support holes and after every error; an
    /// error then shows when the data is read. Allocated blocks that were never written count as a
    /// hole.
    package func extent(at offset: Int64) -> ContentExtent {
        var end: Int64 = 0
        let data = cl_next_data(descriptor, offset, &end)
        if data == -Int64(ENXIO) { return lastHole(at: offset) }
        if data < 0 { return .data(until: .max) }
        return data > offset ? .hole(until: data) : .data(until: end)
    }

    /// The kernel gives the same answer (ENXIO) for a hole up to the end of the file and for an
    /// offset behind the end.
    private func lastHole(at offset: Int64) -> ContentExtent {
        var status = stat()
        guard cl_fstat(descriptor, &status) == 0 else { return .data(until: .max) }
        return .hole(until: Int64(status.st_size))
    }
}
