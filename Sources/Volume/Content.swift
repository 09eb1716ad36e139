import CLinux
import ChunkStore
import Glibc
import Model
import SystemCalls

/// A content as it was cut: what a version of it would be.
struct CutContent {
    var manifest: Manifest
    /// The digest of the manifest's content form: equal bytes, equal digests.
    var digest: Digest

    init(_ manifest: Manifest) {
        self.manifest = manifest
        digest = .sha256(manifest.contentForm)
    }
}

/// What a large file held before it was written in place: saved blocks from the undo file, the
/// others from the file.
struct OverlayContent: ContentSource {
    let undo: Int32
    /// What the file held after that.
    let base: AnySource

    func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) throws(VolumeError)
        -> Int
    {
        var done = 0
        while done < buffer.count {
            let count = try readRun(
                into: UnsafeMutableRawBufferPointer(rebasing: buffer[done...]),
                at: offset + Int64(done))
            if count == 0 { break }
            done += count
        }
        return done
    }

    /// As many bytes as lie together in one of the two.
    private func readRun(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64)
        throws(VolumeError) -> Int
    {
        let data = cl_lseek(undo, offset, SEEK_DATA)
        guard data == offset else {
            // A hole in the undo file: not overwritten up to the next saved block.
            let end = data < 0 ? Int64.max : data
            let count = Int(min(Int64(buffer.count), end - offset))
            return try base.read(
                into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<count]), at: offset)
        }
        do throws(Errno) {
            let hole = try check(cl_lseek(undo, offset, SEEK_HOLE))
            let count = min(buffer.count, Int(hole - offset))
            return try readFully(
                undo, into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<count]), at: offset)
        } catch {
            throw VolumeError(.system, "Old contents could not be read from the stash: \(error).")
        }
    }
}

extension OverlayContent {
    /// What the file held after that is the same wherever no block was saved.
    func like(_ later: [ChunkReference]) -> SimilarContent {
        SimilarContent(later) { [undo] range in
            let data = cl_lseek(undo, range.lowerBound, SEEK_DATA)
            return data == -Int64(ENXIO) ? false : data < range.upperBound
        }
    }
}

extension Trace {
    var permissions: UInt16 { UInt16(truncatingIfNeeded: mode & 0o7777) }
}

/// The references of a file's bytes; `body` sees each chunk while it is in memory.
func cutFile(
    _ descriptor: Int32, size: Int64,
    _ body: (ChunkReference, UnsafeRawBufferPointer) throws(VolumeError) -> Void = { _, _ in }
) throws(VolumeError) -> [ChunkReference] {
    guard AbsentMark(of: descriptor, size: size) == nil else {
        throw VolumeError(.busy, "The bytes are on the hub: here there are only zeros.")
    }
    return try cutContent(of: FileContent(descriptor: descriptor), size: UInt64(size), body)
}
