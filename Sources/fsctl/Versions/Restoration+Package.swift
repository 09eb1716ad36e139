import CLinux
import Control
import Glibc
import Model
import SystemCalls

// A package is written as a whole tree beside the target; then one rename or exchange puts it in
// place.
extension Restoration {
    func restorePackage(_ part: FilePath, exists: Bool) throws(VolumeError) {
        part.removeTree()
        do throws(VolumeError) {
            try make(part, mode: 0o700)
            for index in contents.entries.indices { try make(entry: index, in: part) }
            try finishDirectories(in: part)
            sync(part)
            // A package becomes a version only some time after a program has changed it.
            if exists { try Document(target).waitUntilRecorded() }
            try settle(part, flags: exists ? 2 : 1)
        } catch {
            part.removeTree()
            throw error
        }
        // This removes the old tree, which the exchange has moved here and the history has.
        if exists { part.removeTree() }
    }

    private func make(_ directory: FilePath, mode: mode_t) throws(VolumeError) {
        let result = directory.withCString { cl_mkdirat(AT_FDCWD, $0, mode) }
        if result < 0 { throw failure("make", directory, Errno(-result)) }
    }

    private func make(entry index: Int, in part: FilePath) throws(VolumeError) {
        let entry = contents.entries[index]
        guard let inside = entry.path.path else {
            throw VolumeError(
                .damaged, "that version has an entry with an impossible path; run fsctl doctor")
        }
        if inside.isEmpty { return }
        let path = part.appending(inside)
        switch entry.kind {
        case "directory": try make(path, mode: 0o700)
        case "symlink":
            let target = Name(bytes: entry.target?.bytes ?? [])
            let result = path.withCString { path in
                target.withCString { cl_symlinkat($0, AT_FDCWD, path) }
            }
            if result < 0 { throw failure("make", path, Errno(-result)) }
        default: try makeFile(index, path, entry)
        }
    }

    private func makeFile(_ index: Int, _ path: FilePath, _ entry: ContentsReport.Entry)
        throws(VolumeError)
    {
        let descriptor = path.withCString {
            cl_openat(AT_FDCWD, $0, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600)
        }
        guard descriptor >= 0 else { throw failure("make", path, Errno(-descriptor)) }
        let file = Descriptor(owning: descriptor)
        try write(index, into: file.raw, at: path)
        let time = Timestamp(nanoseconds: entry.modified)
        let modified = timespec(tv_sec: time.seconds, tv_nsec: time.nanosecondsOfSecond)
        _ = cl_utimens_fd(file.raw, [modified, modified])
        let result = cl_chmod_fd(file.raw, mode_t(SharedMode.bits(of: entry.mode)))
        if result < 0 { throw failure("set the mode of", path, Errno(-result)) }
    }

    /// Sets modes last and from the inside out, because a directory's own mode may forbid writing
    /// in it.
    private func finishDirectories(in part: FilePath) throws(VolumeError) {
        let directories = contents.entries.filter {
            $0.kind == "directory" && !$0.path.bytes.isEmpty
        }
        .map { (part.appending($0.path.path ?? []), mode_t(SharedMode.bits(of: $0.mode))) }
        for (path, mode) in directories.reversed() {
            let result = path.withCString { chmod($0, mode) }
            if result < 0 { throw failure("set the mode of", path, Errno(errno)) }
        }
        let descriptor = part.withCString {
            cl_openat(AT_FDCWD, $0, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0)
        }
        guard descriptor >= 0 else { throw failure("open", part, Errno(-descriptor)) }
        let directory = Descriptor(owning: descriptor)
        let root = contents.entries.first { $0.path.bytes.isEmpty }
        try setAccess(of: directory.raw, at: part, mode: root?.mode)
    }

    private func sync(_ directory: FilePath) {
        let descriptor = directory.withCString {
            cl_openat(AT_FDCWD, $0, O_RDONLY | O_DIRECTORY, 0)
        }
        guard descriptor >= 0 else { return }
        _ = cl_syncfs(descriptor)
        _ = cl_close(descriptor)
    }
}

extension FilePath {
    /// Removes a tree that we made, without following symlinks. What cannot be removed stays.
    func removeTree() {
        guard kind == .directory else {
            _ = withCString { unlink($0) }
            return
        }
        _ = withCString { chmod($0, 0o700) }
        for name in names { appending(name).removeTree() }
        _ = withCString { rmdir($0) }
    }

    private var names: [Name] {
        guard let stream = withCString({ opendir($0) }) else { return [] }
        defer { closedir(stream) }
        var names: [Name] = []
        while let entry = readdir(stream) {
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { Name(cString: $0) }
            }
            if name.bytes != [0x2E], name.bytes != [0x2E, 0x2E] { names.append(name) }
        }
        return names
    }
}
