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

extension PackageState {
    /// The state of the package at a path; nil if there is no directory.
    ///
    /// - Parameter countsRoot: False for a package that was moved to `incoming/`. The move changes
    ///   only the time of the package's own directory, which is left out.
    package init?(at path: [Name], in tree: Int32, countsRoot: Bool = true) {
        guard let directory = try? openBeneath(path, from: tree, flags: O_PATH | O_DIRECTORY),
            let status = try? directory.status()
        else { return nil }
        let snapshot = FileSnapshot(status)
        self.init(
            inode: snapshot.inode, changed: countsRoot ? snapshot.changed : 0, isBusy: false)
        add(directory.raw)
    }

    /// Adds the contents of a directory. If something cannot be examined, the package counts as
    /// busy.
    private mutating func add(_ directory: Int32) {
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
