import CLinux
import Glibc
import Model
import SystemCalls

/// Where a path of the machine lies on a mounted volume.
package struct MountedPath: Sendable {
    package let mountPoint: FilePath
    /// From the volume's root.
    package let components: [Name]
    /// Of the daemon.
    package let socket: String

    package var path: FilePath { mountPoint.appending(components) }

    /// The extended attribute of a volume's root that names its daemon's socket.
    package static let attribute = "user.concord.socket"

    init(mountPoint: FilePath, full: FilePath, socket: String) {
        let prefix = mountPoint.bytes.count + (mountPoint.bytes.last == UInt8(ascii: "/") ? 0 : 1)
        self.mountPoint = mountPoint
        self.socket = socket
        components = RawText(bytes: Array(full.bytes.dropFirst(prefix))).path ?? []
    }

    /// Finds the volume that a path is on. The last component may be a symlink, which is meant
    /// itself, or missing.
    package init(_ given: FilePath) throws(VolumeError) {
        let (root, full, socket) = try MountedPath.find(given)
        guard let socket else {
            throw VolumeError(
                .notFound,
                "\(given) is not on a Concord volume (the file system at \(root) is another one); "
                    + "concord mount makes one"
            )
        }
        self.init(mountPoint: root, full: full, socket: socket)
    }

    /// Nil when the path is on a file system of another kind.
    package init?(ifOnVolume given: FilePath) throws(VolumeError) {
        let (root, full, socket) = try MountedPath.find(given)
        guard let socket else { return nil }
        self.init(mountPoint: root, full: full, socket: socket)
    }

    /// The root of the file system, the whole path, and the daemon's socket if it is a volume's.
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

    /// False for what is not there; a mount whose daemon has died is no answer.
    static func isDirectory(_ path: FilePath) throws(Errno) -> Bool {
        do throws(Errno) { return FileKind(try path.status()) == .directory } catch {
            if error == Errno(ENOTCONN) { throw error }
            return false
        }
    }

    /// Up, until the device changes.
    static func root(above start: FilePath) throws(Errno) -> FilePath {
        var here = start
        let device = try here.status().st_dev
        while here.bytes != [UInt8(ascii: "/")] {
            guard try here.parent.status().st_dev == device else { break }
            here = here.parent
        }
        return here
    }

    /// Nil for the root of another file system.
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
                "the volume that \(given) is on has lost its daemon; concord mount on the same "
                    + "mount point brings it back"
            )
        case .notFound:
            VolumeError(.notFound, "\(given) does not exist, nor does the directory it would be in")
        case .denied: VolumeError(.denied, "\(given) cannot be reached: \(error)")
        default: VolumeError(.system, "\(given) cannot be looked at: \(error)")
        }
    }
}
