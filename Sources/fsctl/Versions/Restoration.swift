import CLinux
import Control
import Glibc
import Model
import SystemCalls
import Volume

/// Puts a version's contents under a name, whole or not at all. They are written to a file beside
/// the target and renamed, so that restoring is a save like any other and watchers hear of it.
struct Restoration {
    let contents: VersionContents
    let target: FilePath
    /// Whether an existing item at the target may be replaced.
    let replaces: Bool

    func run() throws(VolumeError) {
        let standing = target.kind
        if standing != nil, !replaces {
            throw VolumeError(.busy, "\(target) is there already; choose another name with --as")
        }
        let fitting: FileKind = contents.isPackage ? .directory : .file
        if let standing, standing != fitting {
            let (theirs, ours) =
                contents.isPackage ? ("not a directory", "a package") : ("not a file", "a file")
            throw VolumeError(
                .invalid,
                "\(target) is \(theirs) now and that version is \(ours); restore it with --as OTHER"
            )
        }
        cl_remember_interrupts()
        let part = target.parent.appending(Restoration.partName(target.name))
        if contents.isPackage {
            try restorePackage(part, exists: standing != nil)
        } else {
            try restoreFile(part)
        }
    }

    /// The name of the part file, `.NAME.concord-restore.part`, with NAME cut to keep within 255
    /// bytes. Its suffix makes it a temporary file, which never becomes a version. If this process
    /// or the daemon is killed, the next restore of that name or the next mount removes it.
    static func partName(_ name: Name) -> Name {
        let end = Array(LocalNames.restorePartEnd.utf8)
        return Name(bytes: [UInt8(ascii: ".")] + name.bytes.prefix(254 - end.count) + end)
    }

    func failure(_ doing: String, _ path: FilePath, _ error: Errno) -> VolumeError {
        switch error {
        case .noSpace:
            VolumeError(.full, "no space is left to \(doing) \(path); nothing was changed")
        case .denied, Errno(EPERM): VolumeError(.denied, "you may not \(doing) \(path)")
        case .exists: VolumeError(.busy, "\(path) is there already; choose another name with --as")
        default: VolumeError(.system, "cannot \(doing) \(path): \(error)")
        }
    }

    /// Renames the finished part to the target. `flags` are those of renameat2(2): 1 refuses to
    /// replace, 2 exchanges.
    func settle(_ part: FilePath, flags: UInt32) throws(VolumeError) {
        let result = part.withCString { from in
            target.withCString { cl_renameat2(AT_FDCWD, from, AT_FDCWD, $0, flags) }
        }
        switch -result {
        case EBUSY:
            throw VolumeError(
                .busy, "\(target) is edited on another device (fsctl who); nothing was changed")
        case EROFS:
            throw VolumeError(
                .offline,
                "\(target) may be edited by one device only (lock=hard), and the hub cannot be "
                    + "asked now; nothing was changed")
        case 1...: throw failure("replace", target, Errno(-result))
        default: break
        }
        let directory = target.parent.withCString { cl_openat(AT_FDCWD, $0, O_RDONLY, 0) }
        guard directory >= 0 else { return }
        _ = cl_fsync(directory, 0)
        _ = cl_close(directory)
    }

    func write(_ index: Int, into file: Int32, at path: FilePath) throws(VolumeError) {
        var offset: Int64 = 0
        try contents.read(index) { (piece) throws(VolumeError) in
            guard cl_interrupted() == 0 else {
                throw VolumeError(.timeout, "interrupted; nothing was changed")
            }
            do throws(Errno) { try writeFully(file, piece, at: offset) } catch {
                throw failure("write", path, error)
            }
            offset += Int64(piece.count)
        }
    }
}

// For a document that is a regular file.
extension Restoration {
    private func restoreFile(_ part: FilePath) throws(VolumeError) {
        let file = try claim(part)
        do throws(VolumeError) {
            try write(0, into: file.raw, at: part)
            try setAccess(of: file.raw, at: part, mode: contents.entries[0].mode)
            do throws(Errno) { try file.sync(dataOnly: false) } catch {
                throw failure("write", part, error)
            }
            try endDatabaseLogs()
            try settle(part, flags: replaces ? 0 : 1)
        } catch {
            _ = part.withCString { unlink($0) }
            throw error
        }
    }

    /// Removes database logs beside the target that hold only changes which the database has:
    /// SQLite would apply them to the restored contents.
    ///
    /// - Throws: `.busy` if a log holds changes that the database lacks.
    private func endDatabaseLogs() throws(VolumeError) {
        let directory = target.parent.withCString { cl_openat(AT_FDCWD, $0, O_PATH, 0) }
        guard directory >= 0 else { throw failure("open", target.parent, Errno(-directory)) }
        defer { _ = cl_close(directory) }
        let found = DatabaseLog.examine([target.name], below: directory)
        if let hot = found.hot {
            throw VolumeError(
                .busy,
                "\(target.parent.appending(hot)) holds changes that are not in \(target.name); "
                    + "nothing was changed. Open and close \(target.name) with its program, or "
                    + "delete the log, and try again")
        }
        for log in found.copied.keys {
            let result = log.withCString { cl_unlinkat(directory, $0, 0) }
            if result < 0, result != -ENOENT {
                throw failure("remove", target.parent.appending(log), Errno(-result))
            }
        }
    }

    /// Gives the part file, or the directory of a package, the access that it is to have under its
    /// final name.
    func setAccess(of file: Int32, at part: FilePath, mode: UInt16?) throws(VolumeError) {
        do throws(Errno) {
            if try Restoration.liken(file, to: target, mode: mode) { return }
            try check(cl_chmod_fd(file, mode_t(SharedMode.bits(of: mode ?? 0o755))))
        } catch {
            throw failure("set the mode of", part, error)
        }
    }

    /// Creates the part file exclusively and locks it. Nothing is ever written to a file that
    /// another user put under this name.
    private func claim(_ part: FilePath) throws(VolumeError) -> Descriptor {
        for _ in 0..<3 {
            let descriptor = part.withCString {
                cl_openat(AT_FDCWD, $0, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600)
            }
            if descriptor == -EEXIST {
                try removeLeftover(part)
                continue
            }
            guard descriptor >= 0 else { throw failure("write", part, Errno(-descriptor)) }
            let file = Descriptor(owning: descriptor)
            guard cl_lock(file.raw) >= 0 else { break }
            return file
        }
        throw VolumeError(.busy, "another restore of \(target) is at work; wait for it")
    }

    /// Removes the part file of an interrupted restore. Its lock tells whether that restore is
    /// still running.
    private func removeLeftover(_ part: FilePath) throws(VolumeError) {
        let descriptor = part.withCString {
            cl_openat(AT_FDCWD, $0, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0)
        }
        if descriptor == -ENOENT { return }
        if descriptor >= 0 {
            let file = Descriptor(owning: descriptor)
            guard cl_lock(file.raw) >= 0 else {
                throw VolumeError(.busy, "another restore of \(target) is at work; wait for it")
            }
        }
        let result = part.withCString { cl_unlinkat(AT_FDCWD, $0, 0) }
        if result < 0, result != -ENOENT { throw failure("replace", part, Errno(-result)) }
    }

    /// Copies owner, user attributes and ACL of the file or package that is about to be replaced,
    /// and sets the mode. The version may be from before access was granted or taken away, so
    /// others get only the access that both the present mode and the version's mode allow. If there
    /// is an ACL, the present mode stays, because it contains the mask of the ACL.
    ///
    /// - Parameter mode: The mode of the version; nil to keep the present one.
    /// - Returns: Whether something was there to be replaced.
    static func liken(_ file: Int32, to target: FilePath, mode: UInt16?) throws(Errno) -> Bool {
        guard let status = try? target.status() else { return false }
        let now = SharedMode.bits(of: UInt16(status.st_mode & 0o7777))
        _ = cl_chown_fd(file, status.st_uid, status.st_gid)
        let hasList = copyAttributes(of: target, to: file)
        var mode = hasList ? now : SharedMode.bits(of: mode ?? now)
        mode = now & 0o1000 | (now | mode) & 0o700 | now & mode & 0o077
        try check(cl_chmod_fd(file, mode_t(mode)))
        return true
    }

    /// Copies user attributes and ACL. Returns whether there is an ACL.
    private static func copyAttributes(of target: FilePath, to file: Int32) -> Bool {
        let old = target.withCString { cl_open_path($0) }
        guard old >= 0 else { return false }
        defer { _ = cl_close(old) }
        var hasList = false
        var list = [CChar](repeating: 0, count: 1 << 16)
        let count = max(0, cl_listxattr_fd(old, &list, list.count))
        for word in list[..<count].split(separator: 0) {
            let name = String(decoding: word.map(UInt8.init(bitPattern:)), as: UTF8.self)
            guard name.hasPrefix("user.") || name == Protection.accessListName else { continue }
            var value = [UInt8](repeating: 0, count: 1 << 16)
            let size = cl_getxattr_fd(old, name, &value, value.count)
            guard size >= 0 else { continue }
            _ = cl_setxattr_fd(file, name, value, size, 0)
            if name == Protection.accessListName { hasList = true }
        }
        return hasList
    }
}
