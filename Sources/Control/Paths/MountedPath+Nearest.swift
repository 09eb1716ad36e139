import Glibc
import Model
import SystemCalls

extension MountedPath {
    /// Finds the position of a path that need not exist, nor its parent directories; nil if it is
    /// on no volume. `simulatedMounts` are simulated mount points with their sockets, for tests.
    package static func nearest(
        _ given: FilePath, simulatedMounts: [FilePath: String] = [:]
    ) throws(VolumeError) -> MountedPath? {
        do throws(Errno) {
            // A program may remove the directory while this looks; then one above it is next.
            for _ in 0..<1_000 {
                do throws(Errno) { return try attempt(given, simulatedMounts) } catch {
                    guard error == .notFound else { throw error }
                }
            }
            return try attempt(given, simulatedMounts)
        } catch {
            throw sentence(given, error)
        }
    }

    private static func attempt(_ given: FilePath, _ simulatedMounts: [FilePath: String])
        throws(Errno) -> MountedPath?
    {
        let (full, missing) = try resolved(given.absolute)
        for (root, socket) in simulatedMounts where full == root || full.isBelow(root) {
            let whole = full.appending(missing)
            return MountedPath(mountPoint: root, full: whole, socket: socket)
        }
        let root = try root(above: isDirectory(full) ? full : full.parent)
        guard let socket = try socket(of: root) else { return nil }
        return MountedPath(mountPoint: root, full: full.appending(missing), socket: socket)
    }

    /// Returns the child with this name.
    package func appending(_ name: Name) -> MountedPath { moved(to: components + [name]) }

    /// Returns another position on the same volume.
    package func moved(to components: [Name]) -> MountedPath {
        MountedPath(
            mountPoint: mountPoint, full: mountPoint.appending(components), socket: socket)
    }

    /// Returns the existing part of the path, with all symbolic links resolved except one at the
    /// end, and the remaining names.
    private static func resolved(_ path: FilePath) throws(Errno) -> (FilePath, [Name]) {
        var (path, missing) = (path, [Name]())
        while true {
            while path.bytes.count > 1, path.bytes.last == UInt8(ascii: "/") {
                path.bytes.removeLast()
            }
            do throws(Errno) {
                return (try path.resolvedParent(), ordinary(missing))
            } catch {
                guard error == .notFound || error == Errno(ENOTDIR), path.parent != path else {
                    throw error
                }
            }
            missing.insert(path.name, at: 0)
            path = path.parent
        }
    }

    /// Removes `.` and `..`. This is safe without the file system, because directories that do not
    /// exist contain no symbolic links.
    private static func ordinary(_ names: [Name]) -> [Name] {
        names.reduce(into: []) { names, name in
            if name == Name("..") {
                _ = names.popLast()
            } else if name != Name(".") {
                names.append(name)
            }
        }
    }
}

extension FilePath {
    /// Whether this path is inside the other one.
    package func isBelow(_ other: FilePath) -> Bool {
        let root = other.bytes.last == UInt8(ascii: "/") ? other.bytes : other.bytes + [0x2F]
        return bytes.count > root.count && bytes.starts(with: root)
    }

    /// Replaces the prefix `from` by `to`; a path that is not at or below `from` stays the same.
    package func replacing(_ from: FilePath, with to: FilePath) -> FilePath {
        guard self == from || isBelow(from) else { return self }
        return FilePath(bytes: to.bytes + bytes.dropFirst(from.bytes.count))
    }
}
