import CLinux
import Glibc
import Model
import SystemCalls

/// The position of a path of this machine on a mounted volume.
package struct MountedPath: Sendable {
    package let mountPoint: FilePath
    /// The path from the volume's root.
    package let components: [Name]
    /// The path of the daemon's socket.
    package let socket: String

    package var path: FilePath { mountPoint.appending(components) }

    /// The extended attribute of a volume's root directory that contains the path of its daemon's
    /// socket.
    package static let attribute = "user.concord.socket"

    init(mountPoint: FilePath, full: FilePath, socket: String) {
        let prefix = mountPoint.bytes.count + (mountPoint.bytes.last == UInt8(ascii: "/") ? 0 : 1)
        self.mountPoint = mountPoint
        self.socket = socket
        components = RawText(bytes: Array(full.bytes.dropFirst(prefix))).path ?? []
    }

    /// Finds the volume of a path. The last component may be missing, or a symbolic link, which is
    /// not followed.
    package init(_ given: FilePath) throws(VolumeError) {
        let (root, full, socket) = try MountedPath.find(given)
        guard let socket else {
            throw VolumeError(
                .notFound,
                "\(given) is not on a Concord volume, but on the file system at \(root): "
                    + "concord mount creates a volume"
            )
        }
        self.init(mountPoint: root, full: full, socket: socket)
    }

    /// Returns nil if the path is on another file system.
    package init?(ifOnVolume given: FilePath) throws(VolumeError) {
        let (root, full, socket) = try MountedPath.find(given)
        guard let socket else { return nil }
        self.init(mountPoint: root, full: full, socket: socket)
    }

    /// Returns the root of the file system, the resolved path, and the daemon's socket if it is a
    /// volume.
    private static func find(_ given: FilePath) throws(VolumeError)
        -> (FilePath, FilePath, String?)
    {
        do throws(Errno) {
            let full = try given.resolvedParent()
            let root = try root(above: isDirectory(full) ? full : full.parent)
            return (root, full, try socket(of: root))
        } catch {
            throw sentence(given, error)
        }
    }

    /// Returns false if nothing exists there. A mount whose daemon has died is an error.
    static func isDirectory(_ path: FilePath) throws(Errno) -> Bool {
        do throws(Errno) { return FileKind(try path.status()) == .directory } catch {
            if error == Errno(ENOTCONN) { throw error }
            return false
        }
    }

    /// Walks up to the directory where the device number changes.
    static func root(above start: FilePath) throws(Errno) -> FilePath {
        var here = start
        let device = try here.status().st_dev
        while here.bytes != [UInt8(ascii: "/")] {
            guard try here.parent.status().st_dev == device else { break }
            here = here.parent
        }
        return here
    }

    /// Returns nil if this is the root of another file system.
    static func socket(of root: FilePath) throws(Errno) -> String? {
        var value = [UInt8](repeating: 0, count: 256)
        let count = root.withCString { cl_path_getxattr($0, attribute, &value, value.count) }
        if count == -Int(ENOTCONN) { throw Errno(ENOTCONN) }
        return count > 0 ? String(decoding: value[..<count], as: UTF8.self) : nil
    }

    static func sentence(_ given: FilePath, _ error: Errno) -> VolumeError {
        switch error {
        case Errno(ENOTCONN):
            VolumeError(
                .notFound,
                "the daemon of the volume with \(given) has stopped: concord mount on the same "
                    + "mount point starts it again"
            )
        case .notFound:
            VolumeError(.notFound, "\(given) and its directory do not exist")
        case .denied: VolumeError(.denied, "\(given) cannot be reached: \(error)")
        default: VolumeError(.system, "\(given) cannot be examined: \(error)")
        }
    }
}
