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
        let (root, components, socket) = try MountedPath.find(given)
        guard let socket else {
            throw VolumeError(
                .notFound,
                "\(given) is not on a Concord volume (the file system at \(root) is another one); "
                    + "concord mount makes one"
            )
        }
        (mountPoint, self.components, self.socket) = (root, components, socket)
    }

    /// Nil when the path is on a file system of another kind.
    package init?(ifOnVolume given: FilePath) throws(VolumeError) {
        let (root, components, socket) = try MountedPath.find(given)
        guard let socket else { return nil }
        (mountPoint, self.components, self.socket) = (root, components, socket)
    }

    private static func find(_ given: FilePath) throws(VolumeError) -> (FilePath, [Name], String?) {
        let full: FilePath
        let root: FilePath
        do throws(Errno) {
            full = try given.resolvedParent()
            root = try MountedPath.root(above: isDirectory(full) ? full : full.parent)
        } catch {
            throw sentence(given, error)
        }
        let prefix = root.bytes.count + (root.bytes.last == UInt8(ascii: "/") ? 0 : 1)
        let components = RawText(bytes: Array(full.bytes.dropFirst(prefix))).path ?? []
        return (root, components, try socket(of: root, for: given))
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

    private static func socket(of root: FilePath, for given: FilePath)
        throws(VolumeError) -> String?
    {
        var value = [UInt8](repeating: 0, count: 256)
        let count = root.withCString { cl_path_getxattr($0, attribute, &value, value.count) }
        if count > 0 { return String(decoding: value[..<count], as: UTF8.self) }
        if count == -Int(ENOTCONN) { throw sentence(given, Errno(ENOTCONN)) }
        return nil
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
