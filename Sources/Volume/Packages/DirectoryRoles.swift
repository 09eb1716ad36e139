import CLinux
import Glibc
import Journal
import Model
import SystemCalls

/// Says what the directories of the tree are: ordinary ones, whose entries are items, packages,
/// parts of packages, or ignored. Only the recorder's thread uses it.
struct DirectoryRoles {
    let writer: JournalWriter
    let tree: Int32
    let ignoreFile: IgnoreFile

    /// The role of a directory.
    func location(of inode: UInt64, _ t: Reader) throws -> Location {
        if let known = writer.state.locations[inode] { return known }
        for item in try t.items(inode: inode) {
            let found: Location
            switch item.kind {
            case .directory:
                found = try isIgnored(item, t) ? .ignored(item.key, []) : .directory(item.key)
            case .package: found = .package(item.key, [])
            default: continue
            }
            writer.state.locations[inode] = found
            return found
        }
        return .unknown
    }

    func isIgnored(_ item: Item, _ t: Reader) throws -> Bool {
        guard let path = try t.path(of: item.key), !path.isEmpty else { return false }
        return ignoreFile.current.matches(path: path, isDirectory: true)
    }

    /// Whether a file with this name in this directory is local and no document.
    func isLocal(_ name: Name, in parent: Int64, _ t: Reader) throws -> Bool {
        let names = ignoreFile.current
        if names.matches(name) { return true }
        guard names.looksAtPaths, let path = try t.path(of: parent) else { return false }
        return names.matches(path: path + [name], isDirectory: false)
    }

    /// The kind of a directory by its present name and attribute.
    func kindNow(_ item: Item, _ t: Reader) throws -> Item.Kind {
        if let parent = try t.path(of: item.parent),
            let directory = try? openBeneath(
                parent + [item.name], from: tree, flags: O_PATH | O_DIRECTORY)
        {
            return packageKind(of: item.name, directory.raw)
        }
        return Volume.isPackage(name: item.name) ? .package : .directory
    }

    /// The kind of a directory by its attribute `user.concord.package` (anything but `0` makes it a
    /// package), or by its extension.
    func packageKind(of name: Name, _ directory: Int32) -> Item.Kind {
        var value = [UInt8](repeating: 0, count: 8)
        let length = value.withUnsafeMutableBytes {
            cl_getxattr_fd(directory, "user.concord.package", $0.baseAddress, $0.count)
        }
        if length > 0 { return value[0] == UInt8(ascii: "0") ? .directory : .package }
        return Volume.isPackage(name: name) ? .package : .directory
    }

    /// Forgets the roles of directories that were in a package or an ignored directory.
    func forgetLocations(below inode: UInt64) {
        guard let root = writer.state.locations.removeValue(forKey: inode) else { return }
        writer.state.locations.removeAll { $1.path(from: root) != nil }
    }

    /// Its path in the tree; nil if it is not known.
    func path(of place: Location) throws(VolumeError) -> [Name]? {
        try writer.look { reader in
            switch place {
            case .directory(let key): try reader.path(of: key)
            case .package(let key, let inner), .ignored(let key, let inner):
                try reader.path(of: key).map { $0 + inner }
            case .unknown: nil
            }
        }
    }
}

extension Item.Kind {
    init(of snapshot: FileSnapshot, name: Name) {
        if snapshot.isFile {
            self = .file
        } else if snapshot.isSymlink {
            self = .symlink
        } else if snapshot.isDirectory {
            self = Volume.isPackage(name: name) ? .package : .directory
        } else {
            self = .special
        }
    }
}

extension Location {
    /// The role of a subdirectory with this name.
    func inside(_ name: Name) -> Location {
        switch self {
        case .package(let key, let path): .package(key, path + [name])
        case .ignored(let key, let path): .ignored(key, path + [name])
        case .directory, .unknown: .unknown
        }
    }

    /// The path that leads from `root` to this directory; nil if this is neither `root` nor a
    /// directory below it in the same package or ignored directory.
    func path(from root: Location) -> [Name]? {
        switch (self, root) {
        case (.package(let a, let path), .package(let b, let start)),
            (.ignored(let a, let path), .ignored(let b, let start)):
            a == b && path.starts(with: start) ? Array(path.dropFirst(start.count)) : nil
        case (.unknown, _): nil
        default: self == root ? [] : nil
        }
    }
}
