import CLinux
import Glibc
import Model
import SystemCalls

/// Calls `body` with each name in a directory except `.` and `..`. The descriptor may be O_PATH and
/// stays open.
package func forEachName(in directory: Int32, _ body: (Name) throws(Errno) -> Void) throws(Errno) {
    let descriptor = try check(
        quietly(O_RDONLY | O_DIRECTORY) { cl_openat(directory, ".", $0, 0) })
    guard let stream = fdopendir(descriptor) else {
        _ = cl_close(descriptor)
        throw Errno(ENOMEM)
    }
    defer { closedir(stream) }
    while true {
        errno = 0
        guard let entry = readdir(stream) else {
            if errno != 0 { throw Errno(errno) }
            return
        }
        let name = withUnsafePointer(to: &entry.pointee.d_name) { pointer in
            pointer.withMemoryRebound(to: CChar.self, capacity: 256) { Name(cString: $0) }
        }
        if name.bytes == [0x2E] || name.bytes == [0x2E, 0x2E] { continue }
        try body(name)
    }
}

/// Opens the item at a path from `root`. Follows no symlink. Reading it does not change its access
/// time.
package func openBeneath(
    _ path: [Name], from root: Int32, flags: Int32
) throws(Errno) -> Descriptor {
    guard !path.isEmpty else {
        return Descriptor(owning: try check(quietly(flags) { cl_openat(root, ".", $0, 0) }))
    }
    let length = path.reduce(0) { $0 + $1.bytes.count + 1 }
    guard length <= Int(PATH_MAX) else { return try openLong(path, from: root, flags: flags) }
    return Descriptor(
        owning: try check(
            withUnsafeTemporaryAllocation(of: CChar.self, capacity: length) { text in
                var end = 0
                for name in path {
                    for byte in name.bytes {
                        text[end] = CChar(bitPattern: byte)
                        end += 1
                    }
                    text[end] = CChar(bitPattern: UInt8(ascii: "/"))
                    end += 1
                }
                text[end - 1] = 0
                return quietly(flags) { cl_open_beneath(root, text.baseAddress!, $0) }
            }))
}

/// Opens a path that is longer than system calls take, component by component.
private func openLong(
    _ path: [Name], from root: Int32, flags: Int32
) throws(Errno) -> Descriptor {
    var directory: Int32 = root
    defer { if directory != root { _ = cl_close(directory) } }
    for name in path.dropLast() {
        let next = try name.withCString { (text) throws(Errno) in
            try check(cl_openat(directory, text, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0))
        }
        if directory != root { _ = cl_close(directory) }
        directory = next
    }
    let last = try path[path.count - 1].withCString { (text) throws(Errno) in
        try check(quietly(flags | O_NOFOLLOW) { cl_openat(directory, text, $0, 0) })
    }
    return Descriptor(owning: last)
}

/// The attributes of an entry of a directory; nil if there is no such entry. An entry that cannot
/// be examined, for lack of permission or because the disk fails, is an error and never counts as
/// missing.
func entryIfPresent(_ name: Name, in directory: Int32) throws(Errno) -> stat? {
    do {
        return try entryStatus(name, in: directory)
    } catch {
        guard error.isMissing else { throw error }
        return nil
    }
}

func entryStatus(_ name: Name, in directory: Int32) throws(Errno) -> stat {
    var result = stat()
    try name.withCString { (text) throws(Errno) in
        _ = try check(cl_fstatat(directory, text, &result, AT_SYMLINK_NOFOLLOW))
    }
    return result
}
