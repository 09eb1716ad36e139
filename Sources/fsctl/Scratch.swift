import CLinux
import Control
import Glibc
import Model
import SystemCalls

/// A directory of our own for copies, gone with this object.
final class Scratch {
    private let path: FilePath
    private var copies: [FilePath] = []

    init() throws(VolumeError) {
        let above = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
        var template = Array("\(above)/concord-merge.XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else {
            throw VolumeError(.system, "cannot make a directory in \(above): \(Errno(errno))")
        }
        path = FilePath(cString: template)
    }

    deinit {
        for copy in copies { _ = copy.withCString { unlink($0) } }
        _ = path.withCString { rmdir($0) }
    }

    /// Nil: an empty file.
    func copy(_ source: FilePath?, as name: [UInt8]) throws(VolumeError) -> FilePath {
        let target = path.appending(Name(bytes: name))
        copies.append(target)
        try Scratch.copy(source, to: target)
        return target
    }

    func write(_ bytes: [UInt8], as name: [UInt8]) throws(VolumeError) -> FilePath {
        let target = try copy(nil, as: name)
        let descriptor = target.withCString { cl_openat(AT_FDCWD, $0, O_WRONLY, 0) }
        guard descriptor >= 0 else {
            throw VolumeError(.system, "cannot write \(target): \(Errno(-descriptor))")
        }
        try Scratch.put(bytes, into: Descriptor(owning: descriptor), at: 0, target)
        return target
    }

    private static func put(
        _ bytes: [UInt8], into file: borrowing Descriptor, at offset: Int64, _ path: FilePath
    ) throws(VolumeError) {
        do throws(Errno) { try writeFully(file.raw, bytes, at: offset) } catch {
            throw VolumeError(.system, "cannot write \(path): \(error)")
        }
    }

    private static func copy(_ source: FilePath?, to target: FilePath) throws(VolumeError) {
        let descriptor = target.withCString {
            cl_openat(AT_FDCWD, $0, O_WRONLY | O_CREAT | O_EXCL, 0o600)
        }
        guard descriptor >= 0 else {
            throw VolumeError(.system, "cannot write \(target): \(Errno(-descriptor))")
        }
        let file = Descriptor(owning: descriptor)
        guard let source else { return }
        var offset: Int64 = 0
        try VersionContents(of: source).read(0) { (piece) throws(VolumeError) in
            try put(piece, into: file, at: offset, target)
            offset += Int64(piece.count)
        }
    }
}
