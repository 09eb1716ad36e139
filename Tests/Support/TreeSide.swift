import CLinux
import Foundation
import Glibc

/// One of the two trees. It performs operations and returns their results as text, to be compared.
final class TreeSide {
    let root: String
    private var handles: [Int: Int32] = [:]

    init(root: String) { self.root = root }

    deinit { closeAll() }

    func closeAll() {
        for descriptor in handles.values { Glibc.close(descriptor) }
        handles = [:]
    }

    private func at(_ path: String) -> String { "\(root)/\(path)" }

    /// The result of an operation: the name of an error, or what it found.
    func perform(_ operation: TreeOperation) -> String {
        switch operation {
        case .writeWhole(let path, let count, let fill):
            writeWhole(at(path), O_TRUNC, count, fill) + status(path)
        case .replace(let path, let count, let fill): replace(path, count, fill) + status(path)
        case .truncate(let path, let size): said(Glibc.truncate(at(path), size)) + status(path)
        case .rename(let from, let to, let flags):
            said(cl_renameat2(AT_FDCWD, at(from), AT_FDCWD, at(to), flags)) + status(to)
        case .link(let from, let to): said(Glibc.link(at(from), at(to))) + status(from)
        case .unlink(let path): said(Glibc.unlink(at(path))) + status(path)
        case .makeDirectory(let path, let mode): said(mkdir(at(path), mode)) + status(path)
        case .removeDirectory(let path): said(rmdir(at(path)))
        case .symlink(let target, let path): said(Glibc.symlink(target, at(path))) + status(path)
        case .readLink(let path): readLink(path)
        case .changeMode(let path, let mode): said(chmod(at(path), mode)) + status(path)
        case .setTimes(let path, let access, let modification):
            setTimes(path, access, modification)
        case .setAttribute(let path, let name, let count): setAttribute(path, name, count)
        case .removeAttribute(let path, let name):
            withPath(path) { said(cl_removexattr_fd($0, name)) }
        case .list(let path): list(path)
        case .status(let path): status(path)
        case .remount: ""
        default: performOnHandle(operation)
        }
    }

    private func performOnHandle(_ operation: TreeOperation) -> String {
        switch operation {
        case .open(let slot, let path, let flags): openHandle(slot, path, flags)
        case .close(let slot):
            handles.removeValue(forKey: slot).map { said(Glibc.close($0)) } ?? "closed"
        case .write(let slot, let offset, let count, let fill):
            withHandle(slot) { fd in
                var bytes = pattern(count, fill)
                return said(pwrite(fd, &bytes, count, offset)) + size(fd)
            }
        case .read(let slot, let offset, let count):
            withHandle(slot) { fd in
                var bytes = [UInt8](repeating: 0, count: count)
                let got = pread(fd, &bytes, count, offset)
                return said(got) + (got > 0 ? digest(Data(bytes.prefix(got))) : "")
            }
        case .mapWrite(let slot, let offset, let count, let fill):
            withHandle(slot) { mapWrite($0, offset, count, fill) }
        case .resize(let slot, let size): withHandle(slot) { said(ftruncate($0, size)) }
        case .sync(let slot): withHandle(slot) { said(fsync($0)) }
        case .allocate(let slot, let mode, let offset, let length):
            withHandle(slot) {
                said(cl_fallocate($0, mode, Int64(offset), Int64(length))) + size($0)
            }
        case .copyRange(let from, let to, let source, let target, let count):
            withHandle(from) { input in
                withHandle(to) { copy(input, $0, source, target, count) + size($0) }
            }
        default: preconditionFailure("\(operation) is about no handle")
        }
    }

    private func withHandle(_ slot: Int, _ body: (Int32) -> String) -> String {
        handles[slot].map(body) ?? "closed"
    }

    /// Opens the item itself, even a symlink, and closes it afterwards.
    private func withPath(_ path: String, _ body: (Int32) -> String) -> String {
        // Swift's Glibc overlay lacks O_PATH (0o10000000).
        let descriptor = Glibc.open(at(path), 0o10_000_000 | O_NOFOLLOW | O_CLOEXEC)
        guard descriptor >= 0 else { return said(descriptor) }
        defer { Glibc.close(descriptor) }
        var status = Glibc.stat()
        guard fstat(descriptor, &status) == 0 else { return said(-1) }
        if status.st_mode & S_IFMT == S_IFLNK { return "a symlink" }
        return body(descriptor)
    }

    private func openHandle(_ slot: Int, _ path: String, _ flags: Int32) -> String {
        if let old = handles.removeValue(forKey: slot) { Glibc.close(old) }
        let descriptor = Glibc.open(at(path), flags | O_CLOEXEC, 0o644)
        guard descriptor >= 0 else { return said(descriptor) }
        handles[slot] = descriptor
        return "opened" + size(descriptor)
    }

    private func writeWhole(_ path: String, _ flags: Int32, _ count: Int, _ fill: UInt8) -> String {
        let descriptor = Glibc.open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0o644)
        guard descriptor >= 0 else { return said(descriptor) }
        var bytes = pattern(count, fill)
        let written = said(write(descriptor, &bytes, count))
        return written + said(Glibc.close(descriptor))
    }

    /// Saves like most programs do.
    private func replace(_ path: String, _ count: Int, _ fill: UInt8) -> String {
        let draft = at(path) + ".new"
        let written = writeWhole(draft, O_EXCL, count, fill)
        let renamed = said(Glibc.rename(draft, at(path)))
        if renamed != "0" { Glibc.unlink(draft) }
        return "\(written) \(renamed)"
    }

    private func mapWrite(_ fd: Int32, _ offset: Int, _ count: Int, _ fill: UInt8) -> String {
        var status = Glibc.stat()
        guard fstat(fd, &status) == 0 else { return said(-1) }
        // Access beyond the end of the file raises SIGBUS.
        let length = min(count, status.st_size - offset)
        if length <= 0 { return "beyond the end" }
        let page = offset & ~4095
        let mapped = offset - page + length
        let map = mmap(nil, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, page)
        guard let map, map != MAP_FAILED else { return said(-1) }
        memset(map + (offset - page), Int32(fill), length)
        return said(munmap(map, mapped))
    }

    private func copy(
        _ input: Int32, _ output: Int32, _ source: Int, _ target: Int, _ count: Int
    ) -> String {
        var done = 0
        // A copy may be short, but the final result must be equal.
        while done < count {
            let moved = cl_copy_file_range(
                input, Int64(source + done), output, Int64(target + done), count - done)
            if moved < 0 { return "\(done) then \(-moved)" }
            if moved == 0 { break }
            done += Int(moved)
        }
        return "\(done)"
    }

    private func readLink(_ path: String) -> String {
        var buffer = [UInt8](repeating: 0, count: 4096)
        let length = readlink(at(path), &buffer, buffer.count)
        return length < 0 ? said(length) : String(decoding: buffer.prefix(length), as: UTF8.self)
    }

    private func setTimes(_ path: String, _ access: Int, _ modification: Int) -> String {
        let times = [
            timespec(tv_sec: access, tv_nsec: 123_456_789),
            timespec(tv_sec: modification, tv_nsec: 987_654_321),
        ]
        let result = said(utimensat(AT_FDCWD, at(path), times, AT_SYMLINK_NOFOLLOW))
        var status = Glibc.stat()
        guard lstat(at(path), &status) == 0 else { return result }
        guard result == "0" else { return result }
        // Times are equal on both sides only right after they were set. Those of a symlink that
        // points to itself are not even then, because looking at it reads it.
        let isLink = status.st_mode & S_IFMT == S_IFLNK
        return "\(status.st_mtim.tv_sec).\(status.st_mtim.tv_nsec) "
            + (isLink ? "" : "\(status.st_atim.tv_sec)")
    }

    private func setAttribute(_ path: String, _ name: String, _ count: Int) -> String {
        withPath(path) { fd in
            var value = pattern(count, 7)
            return said(cl_setxattr_fd(fd, name, &value, count, 0)) + attributes(of: fd)
        }
    }

    private func list(_ path: String) -> String {
        guard let directory = opendir(at(path)) else { return said(-1) }
        defer { closedir(directory) }
        var names: [String] = []
        while let entry = readdir(directory) {
            names.append(
                withUnsafePointer(to: &entry.pointee.d_name) {
                    $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
                })
        }
        return names.sorted().joined(separator: "|")
    }
}
