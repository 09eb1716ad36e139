import CLinux
import Glibc
import SystemCalls

// Extended attributes, and how a file that replaces another gets its attributes.
extension FilePath {
    /// Returns the value of an extended attribute, following symbolic links; nil if it cannot be
    /// read.
    package func attribute(_ name: String) -> [UInt8]? {
        var value = [UInt8](repeating: 0, count: 1 << 12)
        let count = withCString { cl_path_getxattr($0, name, &value, value.count) }
        return count >= 0 ? Array(value[..<count]) : nil
    }

    /// Whether the file no longer has a name. The request forces the file system to answer, because
    /// right after an unlink the kernel may have the old state in its cache.
    package var isUnlinked: Bool {
        // This is a struct statx; its link count is at byte 16.
        var status = [UInt32](repeating: 0, count: 64)
        let (forcesSync, links): (Int32, UInt32) = (0x2000, 4)
        let result = withCString {
            cl_statx_whole(AT_FDCWD, $0, AT_SYMLINK_NOFOLLOW | forcesSync, links, &status)
        }
        return result < 0 || status[4] == 0
    }

    /// Whether nothing has the name. Right after another file has taken a name, the kernel may
    /// still show the old one, which has no name by then (`isUnlinked`).
    package var isMissing: Bool {
        do throws(Errno) {
            _ = try status()
            return false
        } catch { return error == .notFound }
    }

    /// Sets an extended attribute, following symbolic links. Errors of the file system are ignored.
    package func setAttribute(_ name: String, _ value: [UInt8]) {
        let file = withCString { open($0, O_RDONLY | O_CLOEXEC) }
        guard file >= 0 else { return }
        defer { close(file) }
        _ = cl_setxattr_fd(file, name, value, value.count, 0)
    }

    /// Gives this file or directory the permissions and extended attributes of another one, as far
    /// as the file system allows.
    package func takeAttributes(of other: FilePath) {
        guard let status = try? other.status(), FileKind(status) != .symlink else { return }
        let source = other.withCString { open($0, O_RDONLY | O_CLOEXEC) }
        let target = withCString { open($0, O_RDONLY | O_CLOEXEC) }
        defer { for descriptor in [source, target] where descriptor >= 0 { close(descriptor) } }
        guard source >= 0, target >= 0 else { return }
        var names = [CChar](repeating: 0, count: 1 << 16)
        let count = max(0, cl_listxattr_fd(source, &names, names.count))
        for name in names[..<count].split(separator: 0) {
            let text = Array(name) + [0]
            var value = [UInt8](repeating: 0, count: 1 << 16)
            let length = cl_getxattr_fd(source, text, &value, value.count)
            if length >= 0 { _ = cl_setxattr_fd(target, text, value, length, 0) }
        }
        // The mode is set last, because setting an ACL may change it.
        fchmod(target, status.st_mode & 0o7777)
    }

    /// Swaps the two files atomically. Returns 0, or the errno value.
    package func exchange(with other: FilePath) -> Int32 {
        let result = withCString { here in
            other.withCString { cl_renameat2(AT_FDCWD, here, AT_FDCWD, $0, 2) }
        }
        return Int32(-result)
    }
}
