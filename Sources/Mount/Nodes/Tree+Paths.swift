import CLinux
import Coordination
import Glibc
import Model
import SystemCalls
import Volume

// Looks up paths in the tree. Nothing is cached.
extension Tree {
    /// The path with these names, with the information which directories in it are packages. Each
    /// directory is opened in the one before, so that a deep path costs no more than its names.
    func path(_ names: [Name]) -> Path {
        var steps: [Path.Step] = []
        // The directory that contains the next name; negative if there is none.
        var parent = volume.root
        func leave() { if parent >= 0, parent != volume.root { _ = cl_close(parent) } }
        for (index, name) in names.enumerated() {
            let isLast = index == names.count - 1
            let flags = Flag.path | O_DIRECTORY | (isLast ? O_NOFOLLOW : 0)
            let next = parent < 0 ? -1 : name.withCString { cl_openat(parent, $0, flags, 0) }
            // The last name is a package only if it is a directory. Others must be directories.
            let isPackage = !(isLast && next < 0) && isPackage(name, next)
            steps.append(.init(name, isPackage: isPackage))
            leave()
            parent = next
        }
        leave()
        return Path(steps)
    }

    /// - Parameter directory: A descriptor; negative if the directory does not exist.
    private func isPackage(_ name: Name, _ directory: Int32) -> Bool {
        var value: UInt8 = 0
        let count =
            directory < 0 ? -1 : cl_getxattr_fd(directory, "user.concord.package", &value, 1)
        // ERANGE means that the value is longer than one byte.
        if count > 0 || count == -Int(ERANGE) { return value != UInt8(ascii: "0") }
        return Volume.isPackage(name: name) || Volume.isWeakPackage(name: name)
    }

    func isDirectory(_ names: [Name]) -> Bool { kind(names[...]) == S_IFDIR }

    /// The target of a symlink; nil for anything else.
    func linkTarget(_ names: [Name]) -> [UInt8]? {
        guard !names.isEmpty else { return nil }
        var target = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = relative(names[...]).asCString {
            cl_readlinkat(volume.root, $0, &target, target.count)
        }
        return count > 0 ? target[..<Int(count)].map { UInt8(bitPattern: $0) } : nil
    }

    private func kind(_ names: ArraySlice<Name>) -> mode_t {
        status(names).map { $0.st_mode & S_IFMT } ?? 0
    }

    /// The attributes of the item with these names.
    private func status(_ names: ArraySlice<Name>) -> stat? {
        var status = stat()
        let result = relative(names).asCString {
            cl_fstatat(volume.root, $0, &status, Flag.noFollow)
        }
        return result < 0 ? nil : status
    }

    private func relative(_ names: ArraySlice<Name>) -> [UInt8] {
        if names.isEmpty { return [UInt8(ascii: "."), 0] }
        return Array(names.map(\.bytes).joined(separator: [UInt8(ascii: "/")])) + [0]
    }

    func names(in parent: UInt64, _ name: UnsafePointer<CChar>) -> [Name]? {
        guard let node = nodes[parent], let path = nodes.path(of: node) else { return nil }
        return path + [Name(cString: name)]
    }

    func changeStamp(_ names: [Name]) -> ChangeStamp? {
        guard var status = status(names[...]) else { return nil }
        // Filling and eviction are no changes.
        relative(names[...]).asCString { present(&status, in: volume.root, $0) }
        return ChangeStamp(status)
    }

    func exists(_ names: [Name]) -> Bool { status(names[...]) != nil }

    /// The history of a document, with errors as errno.
    func history(at path: [Name]) throws(Errno) -> DocumentHistory? {
        do throws(VolumeError) { return try volume.history.document(at: path) } catch {
            throw Errno(error)
        }
    }
}
