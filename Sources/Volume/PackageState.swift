import CLinux
import Glibc
import Model
import SystemCalls

/// What tells whether a package is as it was.
package struct PackageState: Sendable {
    package var inode: UInt64
    /// The newest change time of anything in it, nanoseconds since 1970.
    package var changed: Int64
    /// A program has a file of it open for writing.
    package var isBusy: Bool
}

extension Volume {
    /// Nil: no directory is there.
    package func packageState(at path: [Name]) -> PackageState? {
        Volume.packageState(path, from: root, countsRoot: true)
    }

    /// Of one that was put aside; moving it has changed only its own time.
    package func incomingPackageState(_ name: String) -> PackageState? {
        Volume.packageState([Name(name)], from: incoming.directory, countsRoot: false)
    }

    package func inode(at path: [Name]) -> UInt64? { trace(at: path)?.inode }

    /// Of what stands there; nil: nothing does.
    package func trace(at path: [Name]) -> Trace? {
        guard let file = try? openBeneath(path, from: root, flags: O_PATH),
            let status = try? file.status()
        else { return nil }
        return Trace(status)
    }

    private static func packageState(_ path: [Name], from root: Int32, countsRoot: Bool)
        -> PackageState?
    {
        guard let directory = try? openBeneath(path, from: root, flags: O_PATH | O_DIRECTORY),
            let status = try? directory.status()
        else { return nil }
        let trace = Trace(status)
        var state = PackageState(
            inode: trace.inode, changed: countsRoot ? trace.changed : 0, isBusy: false)
        state.add(directory.raw)
        return state
    }
}

extension PackageState {
    /// What cannot be looked at counts as being written.
    fileprivate mutating func add(_ directory: Int32) {
        var names: [Name] = []
        do throws(Errno) {
            try forEachName(in: directory) { names.append($0) }
            for name in names {
                let trace = Trace(try entryStatus(name, in: directory))
                changed = max(changed, trace.changed)
                if trace.isDirectory {
                    let inner = try openBeneath(
                        [name], from: directory, flags: O_PATH | O_DIRECTORY)
                    add(inner.raw)
                } else if trace.isFile {
                    let file = try openBeneath(
                        [name], from: directory, flags: O_RDONLY | O_NOATIME | O_NONBLOCK)
                    if cl_probe_writers(file.raw) == -EAGAIN { isBusy = true }
                }
            }
        } catch { isBusy = true }
    }
}
