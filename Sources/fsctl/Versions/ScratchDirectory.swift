import CLinux
import Control
import Glibc
import Model
import SystemCalls

/// A temporary directory for copies. `deinit` removes it with all that a program left in it. Its
/// path has no byte that a shell treats specially, and it lies on no volume.
final class ScratchDirectory {
    let path: FilePath

    init() throws(VolumeError) {
        let wanted = getenv("TMPDIR").map { FilePath(cString: $0) }
        let fits = wanted.map {
            $0.isAbsolute && $0.bytes.allSatisfy(ScratchDirectory.isSafe)
                && !ScratchDirectory.isOnVolume($0)
        }
        let above = fits == true ? wanted?.description ?? "/tmp" : "/tmp"
        var template = Array("\(above)/concord-merge.XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else {
            throw VolumeError(.system, "cannot make a directory in \(above): \(Errno(errno))")
        }
        path = FilePath(cString: template)
    }

    deinit { path.removeTree() }

    /// Whether `byte` is a letter, a digit, not ASCII, or a mark without a meaning to a shell.
    static func isSafe(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5a, 0x61...0x7a, 0x80...: true
        case let mark: Array("/._-+,@".utf8).contains(mark)
        }
    }

    static func isOnVolume(_ path: FilePath) -> Bool {
        path.withCString { cl_filesystem_type($0) } == Int(CL_FUSE)
    }

    /// Copies `source` into the directory; nil makes an empty file.
    func copy(_ source: FilePath?, as name: [UInt8]) throws(VolumeError) -> FilePath {
        let target = path.appending(Name(bytes: name))
        try ScratchDirectory.copy(source, to: target)
        return target
    }

    func write(_ bytes: [UInt8], as name: [UInt8]) throws(VolumeError) -> FilePath {
        let target = try copy(nil, as: name)
        let descriptor = target.withCString { cl_openat(AT_FDCWD, $0, O_WRONLY, 0) }
        guard descriptor >= 0 else {
            throw VolumeError(.system, "cannot write \(target): \(Errno(-descriptor))")
        }
        try ScratchDirectory.put(bytes, into: Descriptor(owning: descriptor), at: 0, target)
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
        try VersionContents(of: source, mode: 0o600).read(0) { (piece) throws(VolumeError) in
            try put(piece, into: file, at: offset, target)
            offset += Int64(piece.count)
        }
    }
}
