import CFuse
import CLinux
import Glibc
import Model
import SystemCalls

/// Checks a mount point, and finds the reason for a failed mount.
enum MountPoint {
    /// Checks that a directory can be mounted on, and returns its absolute path.
    static func check(_ path: String, tree: Int32) throws(VolumeError) -> String {
        clearDead(path)
        guard let resolved = realpath(path, nil) else {
            throw errno == ENOENT
                ? VolumeError(
                    .notFound, "The mount point \(path) does not exist; run: mkdir -p \(path)")
                : VolumeError(.system, "Cannot use the mount point \(path): \(Errno(errno)).")
        }
        defer { free(resolved) }
        let absolute = String(cString: resolved)
        var status = stat()
        guard lstat(absolute, &status) == 0 else {
            throw VolumeError(.system, "Cannot use the mount point \(path): \(Errno(errno)).")
        }
        guard status.st_mode & S_IFMT == S_IFDIR else {
            throw VolumeError(.invalid, "The mount point \(path) is not a directory.")
        }
        if isInside(absolute, tree) {
            throw VolumeError(
                .invalid, "The mount point \(path) is inside the store; choose one outside.")
        }
        guard isEmpty(absolute) else {
            throw VolumeError(
                .busy, "The mount point \(path) is not empty; choose an empty directory.")
        }
        return absolute
    }

    /// Removes a mount of ours that a killed daemon has left; it answers ENOTCONN to everything.
    private static func clearDead(_ path: String) {
        // Its attributes may still be cached, so it is opened, which fails reliably.
        let probe = cl_openat(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0)
        if probe >= 0 { _ = cl_close(probe) }
        guard probe == -ENOTCONN else { return }
        let components = path.split(separator: "/")
        let above = (path.hasPrefix("/") ? "/" : "") + components.dropLast().joined(separator: "/")
        guard let last = components.last, let resolved = realpath(above.isEmpty ? "." : above, nil)
        else { return }
        defer { free(resolved) }
        let absolute =
            (String(cString: resolved) == "/" ? "" : String(cString: resolved)) + "/" + last
        if cl_is_mounted(absolute, "fuse.concord") > 0 { unmount(absolute, lazily: true) }
    }

    private static func isEmpty(_ path: String) -> Bool {
        guard let directory = opendir(path) else { return false }
        defer { closedir(directory) }
        var names = 0
        while readdir(directory) != nil { names += 1 }
        return names <= 2
    }

    /// Whether a path is the tree or below it; compares all its ancestors.
    private static func isInside(_ path: String, _ tree: Int32) -> Bool {
        var root = stat()
        guard cl_fstat(tree, &root) == 0 else { return false }
        var ancestor = path
        while !ancestor.isEmpty {
            var status = stat()
            if lstat(ancestor, &status) == 0, status.st_ino == root.st_ino,
                status.st_dev == root.st_dev
            {
                return true
            }
            ancestor = String(ancestor[..<(ancestor.lastIndex(of: "/") ?? ancestor.startIndex)])
        }
        return false
    }

    /// The reason why libfuse refused to mount. libfuse has printed its own message already.
    static func failure(_ path: String, _ options: MountOptions) -> VolumeError {
        let device = cl_openat(AT_FDCWD, "/dev/fuse", O_RDWR, 0)
        if device >= 0 { _ = cl_close(device) }
        if device == -ENOENT || device == -ENODEV {
            return VolumeError(
                .notFound, "There is no /dev/fuse; load the module with 'modprobe fuse'.")
        }
        if device == -EACCES || device == -EPERM {
            return VolumeError(.denied, "This user may not open /dev/fuse.")
        }
        let hint =
            geteuid() != 0 && options.allowOther
            ? " allow_other needs 'user_allow_other' in /etc/fuse.conf." : ""
        return VolumeError(.denied, "Cannot mount on \(path).\(hint)")
    }

    /// Unmounts by umount(2), or by fusermount3 if this user may not. Returns true if it is
    /// unmounted.
    @discardableResult
    static func unmount(_ path: String, lazily: Bool) -> Bool {
        let result = cl_umount(path, lazily ? 1 : 0)
        if result != -EPERM { return result == 0 || result == -EINVAL }
        return run(["fusermount3", "-u", "-q"] + (lazily ? ["-z"] : []) + ["--", path]) == 0
    }

    private static func run(_ words: [String]) -> Int32 {
        let copies = words.map { strdup($0) }
        defer { for copy in copies { free(copy) } }
        return cl_run(copies.map { UnsafePointer($0) } + [nil])
    }
}
