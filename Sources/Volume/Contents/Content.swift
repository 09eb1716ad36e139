import CLinux
import ChunkStore
import Glibc
import Model
import SystemCalls

/// A content that was cut into chunks.
struct CutContent {
    var manifest: Manifest
    /// The digest of the manifest's content form; equal contents have equal digests.
    var digest: Digest

    init(_ manifest: Manifest) {
        self.manifest = manifest
        digest = .sha256(manifest.contentForm)
    }
}

/// The contents of a large file before it was written in place: saved blocks are read from the
/// pre-image log, all others from the file.
struct OverlayContent: ContentSource {
    let preImages: Int32
    /// The contents that the file held next.
    let base: AnySource
    private let zeros: ZeroBlockMark

    /// - Parameter name: The stash file's name.
    init(preImages: Int32, name: String, base: AnySource) {
        self.preImages = preImages
        self.base = base
        zeros = ZeroBlockMark(log: name)
    }

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

    /// Reads up to the next boundary between saved and unsaved blocks, or within a block.
    private func readRun(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64)
        throws(VolumeError) -> Int
    {
        let block = OverlayContent.block(at: offset)
        var data = cl_lseek(preImages, block, SEEK_DATA)
        do throws(Errno) {
            if data == block, try zeros.isPut(in: preImages, at: block) {
                return try readZeros(into: buffer, at: offset, of: block)
            }
            if data >= 0, data < offset { data = cl_lseek(preImages, offset, SEEK_DATA) }
            if data == offset {
                // The next block may begin with a mark.
                let hole = try check(cl_lseek(preImages, offset, SEEK_HOLE))
                let end = min(hole, block + PreImageLog.blockSize)
                let count = min(buffer.count, Int(end - offset))
                return try readFully(
                    preImages, into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<count]),
                    at: offset)
            }
        } catch {
            throw VolumeError(.system, "Old contents cannot be read from the stash: \(error).")
        }
        // A hole in the pre-image log: these bytes were not overwritten before the next saved
        // block.
        let end = data < 0 ? Int64.max : data
        let count = Int(min(Int64(buffer.count), end - offset))
        return try base.read(
            into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<count]), at: offset)
    }

    /// Reads from a block that was all zeros.
    private func readZeros(
        into buffer: UnsafeMutableRawBufferPointer, at offset: Int64, of block: Int64
    ) throws(Errno) -> Int {
        let size = try check(cl_lseek(preImages, 0, SEEK_END))
        let end = min(size, block + PreImageLog.blockSize)
        let count = min(buffer.count, Int(max(0, end - offset)))
        _ = buffer[..<count].initializeMemory(as: UInt8.self, repeating: 0)
        return count
    }

    private static func block(at offset: Int64) -> Int64 {
        offset / PreImageLog.blockSize * PreImageLog.blockSize
    }
}

extension OverlayContent {
    /// Says where these contents equal the later ones: wherever no block was saved.
    func like(_ later: [ChunkReference]) -> SimilarContent {
        SimilarContent(later) { [preImages] range in
            // Of a block of zeros, only the beginning is data.
            let block = OverlayContent.block(at: range.lowerBound)
            let data = cl_lseek(preImages, block, SEEK_DATA)
            return data == -Int64(ENXIO) ? false : data < range.upperBound
        }
    }
}

extension FileSnapshot {
    var permissions: UInt16 { UInt16(truncatingIfNeeded: mode & 0o7777) }
}

/// Cuts a file into chunks and returns their references. `body` is called with each chunk.
///
/// - Throws: `.busy` for a placeholder.
func cutFile(
    _ descriptor: Int32, size: Int64,
    _ body: (ChunkReference, UnsafeRawBufferPointer) throws(VolumeError) -> Void = { _, _ in }
) throws(VolumeError) -> [ChunkReference] {
    guard PlaceholderMark(of: descriptor, size: size) == nil else {
        throw VolumeError(
            .busy, "The contents are at the hub; the file on this device holds only zeros.")
    }
    return try cutContent(of: FileContent(descriptor: descriptor), size: UInt64(size), body)
}
