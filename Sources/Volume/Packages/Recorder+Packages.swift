import CLinux
import Glibc
import Journal
import Model
import SystemCalls

/// A file in a package as it was last cut. It is not read again while its attributes are unchanged.
struct PackageFile {
    var snapshot: FileSnapshot
    var chunks: [ChunkReference]
}

// A package is a directory that is shown as one document. Nothing in it is an item; it is cut as a
// whole when no program has changed anything in it for a moment.
extension Recorder {
    func enter(package key: Int64, _ path: [Name], _ snapshot: FileSnapshot) {
        if snapshot.isDirectory {
            state.locations[snapshot.inode] = .package(key, path)
        } else if snapshot.isFile {
            state.packaged[snapshot.inode] = key
        }
        touchPackage(key)
    }

    func touchPackage(_ key: Int64, by actor: Actor? = nil) {
        touch(key) { work in
            if let actor { work.save = PendingDocument.Save(actor: actor, time: eventTime) }
        }
        state.pending[key]?.due =
            cl_clock_monotonic_ns() + nanoseconds(settings.packageQuietSeconds)
    }

    /// Handles a file or directory that was moved out of a package or an ignored directory, into a
    /// directory with the role `target`.
    func leave(_ place: Location, _ move: Move, to target: Location) {
        let new = inside(target, move.to.name)
        if move.snapshot.isDirectory {
            forgetLocations(below: move.snapshot.inode)
            updateMovedParts(below: inside(place, move.from.name), to: new)
        }
        guard case .package(let key, let path) = place else { return }
        switch target {
        case .package(key, _): break
        default: need(part: path + [move.from.name], of: key, move.snapshot, at: new)
        }
        if !move.snapshot.isDirectory { state.packaged[move.snapshot.inode] = nil }
        touchPackage(key, by: move.actor)
    }

    /// Handles something that was moved into a directory that is not an ordinary one.
    func arrive(_ place: Location, _ move: Move, _ t: Transaction) throws {
        switch place {
        case .package(let key, let path):
            try transferContent(move.stash, inode: move.replaced?.inode ?? 0, to: [], package: key)
            if let replaced = move.replaced { state.packaged[replaced.inode] = nil }
            enter(package: key, path + [move.to.name], move.snapshot)
            if move.snapshot.isDirectory { rescan(key) }
            touchPackage(key, by: move.actor)
        case .ignored(let key, let path):
            if move.snapshot.isDirectory {
                state.locations[move.snapshot.inode] = .ignored(key, path + [move.to.name])
            }
            try transferContent(move.stash, inode: move.replaced?.inode ?? 0, to: [])
        case .directory:
            try transferContent(move.stash, inode: move.replaced?.inode ?? 0, to: [])
        case .unknown:
            try transferUnknownContent(move.stash, inode: move.replaced?.inode ?? 0)
        }
    }

    /// The role of a subdirectory with this name.
    func inside(_ place: Location, _ name: Name) -> Location {
        switch place {
        case .package(let key, let path): .package(key, path + [name])
        case .ignored(let key, let path): .ignored(key, path + [name])
        case .directory, .unknown: .unknown
        }
    }

    /// Handles an item that was moved into a package or an ignored directory and is no item any
    /// more. Its prior contents are read there.
    func absorbIntoPackage(
        _ item: Item, _ snapshot: FileSnapshot?, into place: Location, _ t: Transaction
    ) throws {
        switch item.kind {
        case .directory:
            state.locations[item.inode] = place
            try absorbChildrenIntoPackage(of: item, in: item.inode, place, t)
        case .package:
            for (inode, location) in state.locations.values {
                guard case .package(item.key, let path) = location else { continue }
                state.locations[inode] = path.reduce(place) { inside($0, $1) }
            }
            needPackage(item, at: place)
        case .file:
            if item.latest > 0 || state.pending[item.key]?.save != nil {
                need(item, snapshot ?? FileSnapshot(item))
            }
        case .symlink, .special: break
        }
        try removeItem(item, t)
    }

    func absorbChildrenIntoPackage(
        of item: Item, in directory: UInt64, _ place: Location, _ t: Transaction
    ) throws {
        for child in try t.children(of: item.key) {
            if child.kind == .file {
                state.untrackedFiles[child.inode] = DirectoryEntry(
                    directory: directory, name: child.name)
            }
            try absorbIntoPackage(child, nil, into: inside(place, child.name), t)
            if state.pending.dependents[child.inode] == nil {
                state.untrackedFiles[child.inode] = nil
            }
        }
    }

    /// Handles a change of the attribute that makes a directory a package.
    func reclassify(_ inode: UInt64, _ t: Transaction) throws {
        for var item in try t.items(inode: inode)
        where item.kind == .directory || item.kind == .package {
            let kind = try kindNow(item, t)
            guard kind != item.kind else { continue }
            item.kind = kind
            try t.update(item)
            try convert(item, t)
        }
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

    /// Converts what is below an item whose kind has just changed.
    func convert(_ item: Item, _ t: Transaction) throws {
        if item.kind == .package {
            state.locations[item.inode] = .package(item.key, [])
            try absorbChildrenIntoPackage(of: item, in: item.inode, .package(item.key, []), t)
            rescan(item.key)
            touchPackage(item.key)
        } else {
            forgetLocations(below: item.inode)
            packageCuts[item.key] = nil
            state.locations[item.inode] = .directory(item.key)
            // Its files are documents of their own from now on. The package's contents are stored
            // before the files change.
            needPackage(item, at: .directory(item.key))
            state.packaged.removeAll { $1 == item.key }
            rescan(item.key)
        }
    }

    /// Forgets the roles of directories that were in a package or an ignored directory.
    func forgetLocations(below inode: UInt64) {
        guard let root = state.locations.removeValue(forKey: inode) else { return }
        state.locations.removeAll { $1.path(from: root) != nil }
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
}

extension Location {
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
