import CLinux
import Control
import Glibc
import Model
import SystemCalls

/// A directory to mount on, resolved and checked. Checking changes nothing, except that a dead
/// mount of Concord is removed.
struct MountPoint {
    let path: FilePath
    let text: String

    init(_ given: FilePath, store: FilePath) throws(VolumeError) {
        path = try MountPoint.resolve(given)
        guard let text = String(validating: path.bytes, as: UTF8.self) else {
            throw VolumeError(
                .invalid, "the name of the mount point \(path) is not UTF-8; choose another one")
        }
        self.text = text
        let top = try MountTable().top(at: path)
        if let top, top.type != "autofs" { throw occupied(by: top, store: store) }
        if top == nil { try checkEmpty() }
        guard access(text, W_OK) == 0 else {
            throw VolumeError(
                .denied, "you may not write in \(path), so you may not mount on it either")
        }
    }

    private static func resolve(_ given: FilePath) throws(VolumeError) -> FilePath {
        for _ in 0..<8 {
            let path: FilePath
            let status: stat
            do throws(Errno) {
                path = try given.resolved()
                status = try path.status()
                // The kernel still answers stat(2) for a dead mount's root from its cache.
                // statvfs(3) asks the daemon itself.
                var space = statvfs()
                if path.withCString({ statvfs($0, &space) }) < 0, errno == ENOTCONN {
                    throw Errno(ENOTCONN)
                }
            } catch {
                guard error == Errno(ENOTCONN) else { throw missing(given, error) }
                try detachDeadMount(given)
                continue
            }
            guard FileKind(status) == .directory else {
                throw VolumeError(.invalid, "the mount point \(given) is not a directory")
            }
            return path
        }
        throw VolumeError(
            .busy, "dead mounts are stacked on \(given); remove them with umount -l")
    }

    private static func missing(_ given: FilePath, _ error: Errno) -> VolumeError {
        switch error {
        case .notFound:
            VolumeError(.notFound, "the mount point \(given) does not exist; make it with mkdir")
        case Errno(ENOTDIR):
            VolumeError(.invalid, "the mount point \(given) is not a directory")
        case .denied: VolumeError(.denied, "the mount point \(given) cannot be reached: \(error)")
        default: VolumeError(.system, "cannot examine the mount point \(given): \(error)")
        }
    }

    /// Removes the mount of a daemon that was killed. Every access to it fails with ENOTCONN
    /// ("Transport endpoint is not connected").
    private static func detachDeadMount(_ given: FilePath) throws(VolumeError) {
        let path: FilePath
        do throws(Errno) { path = try given.resolvedParent() } catch {
            throw VolumeError(
                .system,
                "\(given) lies inside a mount whose daemon has died; remove that with umount -l")
        }
        guard let entry = try MountTable().top(at: path), entry.isConcord else {
            throw VolumeError(
                .busy,
                "on \(given) is a dead mount that is not Concord's; remove it with umount -l")
        }
        try unmount(path, lazily: true)
    }

    private func occupied(by entry: MountTable.Entry, store: FilePath) -> VolumeError {
        guard entry.isConcord else {
            return VolumeError(
                .busy,
                "something is mounted on \(path) already (\(entry.type), \(entry.source)); "
                    + "choose another mount point"
            )
        }
        let report = try? ControlClient(socket: MountedPath(path).socket)
            .ask(Request(.status), as: VolumeReport.self, timeoutSeconds: 5)
        guard let report else {
            return VolumeError(.busy, "another Concord volume is mounted on \(path) already")
        }
        let same = FilePath(bytes: report.store.bytes) == (try? store.resolved())
        return VolumeError(
            .busy,
            same
                ? "this volume (\(report.name), store \(store)) is mounted on \(path) already, "
                    + "by process \(report.process)"
                : "the volume \(report.name) (store \(report.store.text)) is mounted on "
                    + "\(path) already; choose another mount point"
        )
    }

    private func checkEmpty() throws(VolumeError) {
        guard let names = names(in: path) else {
            throw VolumeError(.denied, "the mount point \(path) cannot be read: \(Errno(errno))")
        }
        guard names.isEmpty else {
            throw VolumeError(
                .busy,
                "the mount point \(path) is not empty (\(names[0]), …): the mount would hide "
                    + "what is in it; choose an empty directory"
            )
        }
    }
}

/// The names in a directory; nil, with errno set, when it cannot be read.
func names(in directory: FilePath) -> [Name]? {
    guard let stream = directory.withCString({ opendir($0) }) else { return nil }
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

/// Unmounts with umount2(2), or with fusermount3 when this process lacks the privilege.
func unmount(_ path: FilePath, lazily: Bool) throws(VolumeError) {
    let result = path.withCString { cl_umount($0, lazily ? 1 : 0) }
    if result >= 0 { return }
    if result == -EPERM {
        let arguments =
            ["fusermount3", lazily ? "-uz" : "-u", "--"].map(FilePath.init(_:)) + [path]
        let (status, said) = run("fusermount3", arguments)
        if status == 0 { return }
        if said.contains("resource busy") { throw VolumeError(.busy, "\(path) is in use") }
        let reason = said.isEmpty ? "fusermount3 cannot be run" : said
        throw VolumeError(.denied, "cannot unmount \(path): \(reason)")
    }
    throw VolumeError(
        result == -EBUSY ? .busy : .system, "cannot unmount \(path): \(Errno(-result))")
}

/// Runs a program and waits for it. Returns its exit status, or 127 when it could not be started,
/// and what it wrote to standard error, at most 1 KB.
private func run(_ program: String, _ arguments: [FilePath]) -> (status: Int32, said: String) {
    var ends: [Int32] = [-1, -1]
    guard cl_pipe(&ends) >= 0 else { return (127, "") }
    let process = withArguments(arguments) { cl_spawn(program, $0, -1, -1, ends[1], -1, 0) }
    close(ends[1])
    defer { close(ends[0]) }
    guard process >= 0 else { return (127, "") }
    var said: [UInt8] = []
    var piece = [UInt8](repeating: 0, count: 1024)
    while true {
        let count = read(ends[0], &piece, piece.count)
        if count < 0, errno == EINTR { continue }
        guard count > 0 else { break }
        said += piece.prefix(min(count, 1024 - said.count))
    }
    let text = String(decoding: said, as: UTF8.self).split(separator: "\n").joined(separator: "; ")
    return (cl_exit_status(cl_wait_process(process)), text)
}

/// Calls `body` with a null-terminated argument vector for exec(3).
func withArguments<Result>(
    _ arguments: [FilePath], _ body: (UnsafePointer<UnsafeMutablePointer<CChar>?>) -> Result
) -> Result {
    let words: [UnsafeMutablePointer<CChar>?] = arguments.map { $0.withCString { strdup($0) } }
    defer { for word in words { free(word) } }
    return (words + [nil]).withUnsafeBufferPointer { body($0.baseAddress!) }
}
