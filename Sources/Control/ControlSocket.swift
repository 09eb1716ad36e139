import CLinux
import Glibc
import Model
import SystemCalls

/// Who may connect.
package enum Audience: Sendable {
    /// Only the one who mounted, and root.
    case owner
    /// Every user of the machine (root serves all): each request is then judged by who asks.
    case everyone
}

/// The path a daemon listens on. It lies in a directory that only its owner can write, made before
/// the socket, so that nobody else can be there first.
package struct ControlSocket: Sendable {
    package let path: String
    let directory: String
    let audience: Audience

    /// RUNTIME/concord/VOLUME/control.sock; RUNTIME is /run for root, $XDG_RUNTIME_DIR for others,
    /// else /tmp/concord-UID. (Not in the store: a path of a socket has 107 bytes at most, that of
    /// a store 4,095.)
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

    /// In a directory that is made if need be; its parent must be there.
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
                "cannot make the directory \(directory) for the control socket: \(Errno(-made))")
        }
        var status = stat()
        guard lstat(directory, &status) == 0, status.st_mode & S_IFMT == S_IFDIR,
            status.st_uid == geteuid(), status.st_mode & 0o022 == 0
        else {
            throw VolumeError(
                .denied,
                "\(directory), where the control socket goes, is not a directory that only you "
                    + "can write; remove it or correct its owner and mode"
            )
        }
        chmod(directory, mode)
    }

    /// Listens. A socket that a dead daemon left is removed; one that answers is somebody's.
    func listen(backlog: Int32 = 64) throws(VolumeError) -> Descriptor {
        let probe = cl_unix_connect(path)
        if probe >= 0 {
            _ = cl_close(probe)
            throw VolumeError(
                .busy,
                "another process serves this volume already: it answers at \(path); unmount "
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
