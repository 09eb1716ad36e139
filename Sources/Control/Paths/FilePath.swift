import CLinux
import Glibc
import Model
import SystemCalls

/// A path on this machine, as bytes, because POSIX paths need not be UTF-8.
package struct FilePath: Hashable, Sendable, CustomStringConvertible {
    package var bytes: [UInt8]

    package init(bytes: [UInt8]) { self.bytes = bytes }
    package init(_ text: String) { bytes = Array(text.utf8) }
    package init(cString: UnsafePointer<CChar>) { bytes = Name(cString: cString).bytes }

    /// The path for people; invalid UTF-8 is replaced.
    package var description: String { String(decoding: bytes, as: UTF8.self) }

    package var isAbsolute: Bool { bytes.first == UInt8(ascii: "/") }
    package var name: Name { Name(bytes: Array(bytes[(lastSlash + 1)...])) }

    /// The directory part: `/` for a name in the root and for the root itself, `.` for a name
    /// without a slash.
    package var parent: FilePath {
        switch lastSlash {
        case -1: FilePath(".")
        case 0: FilePath("/")
        default: FilePath(bytes: Array(bytes[..<lastSlash]))
        }
    }

    package func appending(_ name: Name) -> FilePath {
        if bytes.isEmpty { return FilePath(bytes: name.bytes) }
        let separator: [UInt8] = bytes.last == UInt8(ascii: "/") ? [] : [UInt8(ascii: "/")]
        return FilePath(bytes: bytes + separator + name.bytes)
    }

    package func appending(_ names: [Name]) -> FilePath { names.reduce(self) { $0.appending($1) } }
    package func appending(_ text: String) -> FilePath { appending(Name(text)) }

    package func withCString<Result, Failure: Error>(
        _ body: (UnsafePointer<CChar>) throws(Failure) -> Result
    ) throws(Failure) -> Result { try Name(bytes: bytes).withCString(body) }

    private var lastSlash: Int { bytes.lastIndex(of: UInt8(ascii: "/")) ?? -1 }
}

extension FilePath: Comparable {
    package static func < (a: FilePath, b: FilePath) -> Bool {
        let order = a.bytes.withUnsafeBytes { a in
            b.bytes.withUnsafeBytes { b in
                a.isEmpty || b.isEmpty
                    ? 0 : memcmp(a.baseAddress!, b.baseAddress!, min(a.count, b.count))
            }
        }
        return order == 0 ? a.bytes.count < b.bytes.count : order < 0
    }
}

// Queries of the file system.
extension FilePath {
    /// The absolute path by the present working directory; symbolic links are not resolved.
    package var absolute: FilePath {
        if isAbsolute { return self }
        guard let here = getcwd(nil, 0) else { return self }
        defer { free(here) }
        return FilePath(cString: here).appending(Name(bytes: bytes))
    }

    /// Resolves all symbolic links, as realpath(3).
    package func resolved() throws(Errno) -> FilePath {
        let pointer = withCString { realpath($0, nil) }
        guard let pointer else { throw Errno(errno) }
        defer { free(pointer) }
        return FilePath(cString: pointer)
    }

    /// Returns the status of the path itself (lstat), or of a symbolic link's target if `following`
    /// is true.
    package func status(following: Bool = false) throws(Errno) -> stat {
        var status = stat()
        let result = withCString { following ? stat($0, &status) : lstat($0, &status) }
        if result < 0 { throw Errno(errno) }
        return status
    }

    /// Nil if nothing exists at the path, or if its status cannot be read.
    package var kind: FileKind? { (try? status()).map(FileKind.init) }

    /// Makes the directories above the path that do not exist.
    ///
    /// - Throws: `.system`
    package func makeParents(mode: mode_t) throws(VolumeError) {
        var missing: [FilePath] = []
        var directory = parent
        while directory.isMissing {
            missing.append(directory)
            directory = directory.parent
        }
        for directory in missing.reversed() {
            let result = directory.withCString { cl_mkdirat(AT_FDCWD, $0, mode) }
            guard result >= 0 || result == -EEXIST else {
                throw VolumeError(.system, "\(directory) cannot be made: \(Errno(-result))")
            }
        }
    }

    /// Resolves the path except its last component, so that a symbolic link stays one. The last
    /// component need not exist.
    package func resolvedParent() throws(Errno) -> FilePath {
        var trimmed = self
        while trimmed.bytes.count > 1, trimmed.bytes.last == UInt8(ascii: "/") {
            trimmed.bytes.removeLast()
        }
        let last = trimmed.name.bytes
        if last.isEmpty || last == [0x2E] || last == [0x2E, 0x2E] { return try resolved() }
        return try trimmed.parent.resolved().appending(trimmed.name)
    }
}

/// The kind of a file by its status.
package enum FileKind: Sendable {
    case file, directory, symlink, other

    package init(_ status: stat) {
        self =
            switch status.st_mode & S_IFMT {
            case S_IFREG: .file
            case S_IFDIR: .directory
            case S_IFLNK: .symlink
            default: .other
            }
    }
}
