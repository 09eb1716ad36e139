import CLinux
import Glibc
import Model
import SystemCalls

/// The content of an open file. It does not own the descriptor, and moves its file position.
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
                "The content cannot be read at byte \(offset): \(error). Check the disk below it.")
        }
    }

    /// A file system that does not know holes answers that all is data, and so is every error: then
    /// the read that follows tells. Blocks that were set aside and never written are a hole.
    package func extent(at offset: Int64) -> ContentExtent {
        var end: Int64 = 0
        let data = cl_next_data(descriptor, offset, &end)
        if data == -Int64(ENXIO) { return lastHole(at: offset) }
        if data < 0 { return .data(until: .max) }
        return data > offset ? .hole(until: data) : .data(until: end)
    }

    /// The kernel gives one answer for a hole up to the end of the file and for an offset behind
    /// it.
    private func lastHole(at offset: Int64) -> ContentExtent {
        var status = stat()
        guard cl_fstat(descriptor, &status) == 0 else { return .data(until: .max) }
        return .hole(until: Int64(status.st_size))
    }
}
