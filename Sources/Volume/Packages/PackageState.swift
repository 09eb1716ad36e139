import CLinux
import Glibc
import Model
import SystemCalls

/// Facts that show whether a package has changed.
package struct PackageState: Sendable {
    package var inode: UInt64
    /// The newest change time of anything in it, nanoseconds since 1970.
    package var changed: Int64
    /// A program has a file of the package open for writing.
    package var isBusy: Bool
}

extension Volume {
    /// The state of the package at a path; nil if there is no directory.
    package func packageState(at path: [Name]) -> PackageState? {
        Volume.packageState(path, from: root, countsRoot: true)
    }

    /// The state of a package that was moved to `incoming/`. The move changes only the time of the
    /// package's own directory, which is left out.
    package func incomingPackageState(_ name: String) -> PackageState? {
        Volume.packageState([Name(name)], from: incoming.directory, countsRoot: false)
    }

    package func inode(at path: [Name]) -> UInt64? { snapshot(at: path)?.inode }

    /// The attributes of the item at a path; nil if there is none.
    package func snapshot(at path: [Name]) -> FileSnapshot? {
        guard let file = try? openBeneath(path, from: root, flags: O_PATH),
            let status = try? file.status()
        else { return nil }
        return FileSnapshot(status)
    }

    private static func packageState(_ path: [Name], from root: Int32, countsRoot: Bool)
        -> PackageState?
    {
        guard let directory = try? openBeneath(path, from: root, flags: O_PATH | O_DIRECTORY),
            let status = try? directory.status()
        else { return nil }
        let snapshot = FileSnapshot(status)
        var state = PackageState(
            inode: snapshot.inode, changed: countsRoot ? snapshot.changed : 0, isBusy: false)
        state.add(directory.raw)
        return state
    }
}

extension PackageState {
    /// Adds the contents of a directory. If something cannot be examined, the package counts as
    /// busy.
    fileprivate mutating func add(_ directory: Int32) {
        var names: [Name] = []
        do throws(Errno) {
            try forEachName(in: directory) { names.append($0) }
            for name in names {
                let snapshot = FileSnapshot(try entryStatus(name, in: directory))
                changed = max(changed, snapshot.changed)
                if snapshot.isDirectory {
                    let inner = try openBeneath(
                        [name], from: directory, flags: O_PATH | O_DIRECTORY)
                    add(inner.raw)
                } else if snapshot.isFile {
                    let file = try openBeneath(
                        [name], from: directory, flags: O_RDONLY | O_NOATIME | O_NONBLOCK)
                    if cl_probe_writers(file.raw) == -EAGAIN { isBusy = true }
                }
            }
        } catch { isBusy = true }
    }
}
