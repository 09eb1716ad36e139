import CLinux
import Glibc
import Model
import SystemCalls

/// Which users may connect to the socket.
package enum Audience: Sendable {
    /// Only the user who mounted the volume, and root.
    case owner
    /// Each user of the machine. The server checks each request by its sender.
    case everyone
}

/// The path at which a daemon listens. It is in a directory that only the daemon's user can write
/// and that is created before the socket, so that nobody else can put a socket there.
package struct ControlSocket: Sendable {
    package let path: String
    let directory: String
    let audience: Audience

    /// The path is RUNTIME/concord/VOLUME/control.sock. RUNTIME is /run for root, and
    /// $XDG_RUNTIME_DIR or /tmp/concord-UID for others. It is not in the store, because the path of
    /// a socket has at most 107 bytes.
    package init(volume: Identifier, audience: Audience) throws(VolumeError) {
        let uid = geteuid()
        let base: String
        if uid == 0 {
            base = "/run/concord"
        } else if let runtime = getenv("XDG_RUNTIME_DIR").map({ String(cString: $0) }),
            runtime.hasPrefix("/"), access(runtime, W_OK) == 0
        {
            base = runtime + "/concord"
        } else {
            base = "/tmp/concord-\(uid)"
        }
        try ControlSocket.makePrivate(base, mode: uid == 0 ? 0o755 : 0o700)
        try self.init(directory: "\(base)/\(volume)", audience: audience)
    }

    /// Uses this directory, which is created if it does not exist; its parent must exist.
    package init(directory: String, audience: Audience) throws(VolumeError) {
        self.directory = directory
        self.audience = audience
        path = directory + "/control.sock"
        try ControlSocket.makePrivate(directory, mode: 0o700)
    }

    private static func makePrivate(_ directory: String, mode: mode_t) throws(VolumeError) {
        let made = cl_mkdirat(AT_FDCWD, directory, mode)
        guard made >= 0 || made == -EEXIST else {
            throw VolumeError(
                .system,
                "cannot create the directory \(directory) of the control socket: \(Errno(-made))")
        }
        var status = stat()
        guard lstat(directory, &status) == 0, status.st_mode & S_IFMT == S_IFDIR,
            status.st_uid == geteuid(), status.st_mode & 0o022 == 0
        else {
            throw VolumeError(
                .denied,
                "the directory \(directory) of the control socket must belong to you and must not "
                    + "be writable by others: remove it, or correct its owner and mode"
            )
        }
        chmod(directory, mode)
    }

    /// Listens at the path. A socket that a stopped daemon left is removed; a socket that answers
    /// belongs to another process.
    func listen(backlog: Int32 = 64) throws(VolumeError) -> Descriptor {
        let probe = cl_unix_connect(path)
        if probe >= 0 {
            _ = cl_close(probe)
            throw VolumeError(
                .busy,
                "another process already serves this volume at \(path): unmount the volume "
                    + "there first"
            )
        }
        if probe == -ECONNREFUSED { unlink(path) }
        let socket = cl_unix_listen(path, backlog)
        guard socket >= 0 else {
            throw VolumeError(.system, "cannot listen at \(path): \(Errno(-socket))")
        }
        chmod(path, audience == .owner ? 0o600 : 0o666)
        if audience == .everyone { chmod(directory, 0o755) }
        return Descriptor(owning: socket)
    }

    func remove() {
        unlink(path)
        rmdir(directory)
    }
}
