import Control
import Glibc

/// Why a file could not be copied.
struct CopyFailure: Error {
    let message: String

    /// The error of the system call before.
    init(_ path: FilePath) {
        let reason = String(cString: strerror(errno))
        message = "\(path): \(reason)"
    }

    static func status(_ path: FilePath, following: Bool = false) throws(CopyFailure) -> stat {
        var status = stat()
        let result = path.withCString { following ? stat($0, &status) : lstat($0, &status) }
        if result < 0 { throw CopyFailure(path) }
        return status
    }
}

/// Reads a file from its beginning to its end.
final class FileReader {
    private let path: FilePath
    private let descriptor: Int32
    private var link: [UInt8]?

    init(_ path: FilePath) throws(CopyFailure) {
        self.path = path
        descriptor = path.withCString { open($0, O_RDONLY | O_CLOEXEC) }
        if descriptor < 0 { throw CopyFailure(path) }
    }

    /// Reads the target of a symbolic link.
    init(linkAt path: FilePath) throws(CopyFailure) {
        self.path = path
        descriptor = -1
        guard let target = path.linkTarget else { throw CopyFailure(path) }
        link = target.bytes
    }

    deinit { if descriptor >= 0 { close(descriptor) } }

    func next() throws(CopyFailure) -> [UInt8]? {
        if descriptor < 0 {
            defer { link = nil }
            return link
        }
        var piece = [UInt8](repeating: 0, count: 1 << 18)
        while true {
            let count = read(descriptor, &piece, piece.count)
            if count < 0 && errno == EINTR { continue }
            if count < 0 { throw CopyFailure(path) }
            return count == 0 ? nil : Array(piece[..<count])
        }
    }
}

/// Writes a new file.
final class FileWriter {
    private let path: FilePath
    private let descriptor: Int32
    private(set) var offset: UInt64 = 0

    init(_ path: FilePath) throws(CopyFailure) {
        self.path = path
        descriptor = path.withCString { open($0, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600) }
        if descriptor < 0 { throw CopyFailure(path) }
    }

    deinit { close(descriptor) }

    func write(_ bytes: [UInt8]) throws(CopyFailure) {
        try rewrite(bytes, at: offset)
        offset += UInt64(bytes.count)
    }

    func rewrite(_ bytes: [UInt8], at place: UInt64) throws(CopyFailure) {
        var done = 0
        while done < bytes.count {
            let count = bytes.withUnsafeBytes {
                pwrite(descriptor, $0.baseAddress! + done, $0.count - done, off_t(place) + done)
            }
            if count < 0 && errno == EINTR { continue }
            if count < 0 { throw CopyFailure(path) }
            done += count
        }
    }
}
