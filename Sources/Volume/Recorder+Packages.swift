import CLinux
import Glibc
import Journal
import Model
import SystemCalls

/// What a file in a package was when it was last cut: it is not read again while it is still so.
struct PackageFile {
    var trace: Trace
    var chunks: [ChunkReference]
}

// A package is a directory that people take for one document. Nothing in it is an item; it is cut as a whole once no
// program has changed anything in it for a moment.
extension Recorder {
    func enter(package key: Int64, _ path: [Name], _ trace: Trace) {
        if trace.isDirectory {
            locations[trace.inode] = .package(key, path)
        } else if trace.isFile {
            packaged[trace.inode] = key
        }
        touchPackage(key)
    }

    func touchPackage(_ key: Int64, by actor: Actor? = nil) {
        touch(key) { work in
            let now = cl_clock_realtime_ns()
            if let actor { work.save = Work.Save(actor: actor, time: now) }
        }
        works[key]?.due = cl_clock_monotonic_ns() + nanoseconds(settings.packageQuietSeconds)
    }

    /// Something left a package, or an ignored directory, by its name.
    func leave(_ place: Location, _ move: Move) {
        guard case .package(let key, _) = place else { return }
        packaged[move.trace.inode] = nil
        if move.trace.isDirectory { locations[move.trace.inode] = nil }
        touchPackage(key, by: move.actor)
    }

    func arrive(_ place: Location, _ move: Move) {
        switch place {
        case .package(let key, let path):
            if let stash = move.stash { attach(stash, to: [key]) }
            if let replaced = move.replaced { packaged[replaced.inode] = nil }
            enter(package: key, path + [move.to.name], move.trace)
            if move.trace.isDirectory { rescan(key) }
            touchPackage(key, by: move.actor)
        case .ignored:
            if move.trace.isDirectory { locations[move.trace.inode] = .ignored }
            drop(move.stash)
        case .directory: break
        }
    }

    /// An item went into a package, or into an ignored directory, and is one no more.
    func swallow(_ item: Item, _ t: Transaction) throws {
        if item.kind == .directory { try swallowChildren(of: item, t) }
        if item.latest > 0, item.kind == .file { need(item.inode, for: item) }
        locations[item.inode] = nil
        try vanish(item, t)
    }

    private func swallowChildren(of item: Item, _ t: Transaction) throws {
        for child in try t.children(of: item.key) { try swallow(child, t) }
    }

    /// A directory's attribute says something else than before.
    func reclassify(_ inode: UInt64, _ t: Transaction) throws {
        for var item in try t.items(inode: inode)
        where item.kind == .directory || item.kind == .package {
            guard let path = try t.path(of: item.key),
                let directory = try? openBeneath(path, from: tree, flags: O_PATH | O_DIRECTORY)
            else { continue }
            let kind = packageKind(of: item.name, directory.raw)
            guard kind != item.kind else { continue }
            item.kind = kind
            try t.update(item)
            try convert(item, t)
        }
    }

    /// What a directory is after it was renamed.
    func kindNow(_ item: Item, _ t: Reader) throws -> Item.Kind {
        if let parent = try t.path(of: item.parent),
            let directory = try? openBeneath(
                parent + [item.name], from: tree, flags: O_PATH | O_DIRECTORY)
        {
            return packageKind(of: item.name, directory.raw)
        }
        return Volume.isPackage(name: item.name) ? .package : .directory
    }

    /// The kind has changed already; what is below follows.
    func convert(_ item: Item, _ t: Transaction) throws {
        if item.kind == .package {
            locations[item.inode] = .package(item.key, [])
            try swallowChildren(of: item, t)
            rescan(item.key)
            touchPackage(item.key)
        } else {
            locations = locations.filter { entry in
                if case .package(item.key, _) = entry.value { return false }
                return true
            }
            packaged = packaged.filter { $0.value != item.key }
            works[item.key] = nil
            locations[item.inode] = .directory(item.key)
            rescan(item.key)
        }
    }

    /// What a directory is by its attribute `user.concord.package` (anything but `0`), else by its extension.
    func packageKind(of name: Name, _ directory: Int32) -> Item.Kind {
        var value = [UInt8](repeating: 0, count: 8)
        let length = value.withUnsafeMutableBytes {
            cl_getxattr_fd(directory, "user.concord.package", $0.baseAddress, $0.count)
        }
        if length > 0 { return value[0] == UInt8(ascii: "0") ? .directory : .package }
        return Volume.isPackage(name: name) ? .package : .directory
    }
}
