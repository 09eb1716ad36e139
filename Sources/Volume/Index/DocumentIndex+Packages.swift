import CLinux
import Glibc
import Journal
import Model
import SystemCalls

// A package is a directory that is shown as one document. Nothing in it is an item; it is cut as a
// whole when no program has changed anything in it for a moment.
extension DocumentIndex {
    func enter(package key: Int64, _ path: [Name], _ snapshot: FileSnapshot) {
        if snapshot.isDirectory {
            writer.state.locations[snapshot.inode] = .package(key, path)
        } else if snapshot.isFile {
            writer.state.packaged[snapshot.inode] = key
        }
        touchPackage(key)
    }

    func touchPackage(_ key: Int64, by actor: Actor? = nil) {
        writer.state.pending.touch(key) { work in
            if let actor { work.save = PendingDocument.Save(actor: actor, time: writer.eventTime) }
        }
        writer.state.pending[key]?.due =
            cl_clock_monotonic_ns() + Timestamp.span(seconds: settings.packageQuietSeconds)
    }

    /// Handles a file or directory that was moved out of a package or an ignored directory, into a
    /// directory with the role `target`.
    func leave(_ place: Location, _ move: Move, to target: Location) {
        let new = target.inside(move.to.name)
        if move.snapshot.isDirectory {
            roles.forgetLocations(below: move.snapshot.inode)
            updateMovedParts(below: place.inside(move.from.name), to: new)
        }
        guard case .package(let key, let path) = place else { return }
        switch target {
        case .package(key, _): break
        default: need(part: path + [move.from.name], of: key, move.snapshot, at: new)
        }
        if !move.snapshot.isDirectory { writer.state.packaged[move.snapshot.inode] = nil }
        touchPackage(key, by: move.actor)
    }

    /// Handles something that was moved into a directory that is not an ordinary one.
    func arrive(_ place: Location, _ move: Move, _ t: Transaction) throws {
        switch place {
        case .package(let key, let path):
            try transferContent(move.stash, inode: move.replaced?.inode ?? 0, to: [], package: key)
            if let replaced = move.replaced { writer.state.packaged[replaced.inode] = nil }
            enter(package: key, path + [move.to.name], move.snapshot)
            if move.snapshot.isDirectory { writer.rescan(key) }
            touchPackage(key, by: move.actor)
        case .ignored(let key, let path):
            if move.snapshot.isDirectory {
                writer.state.locations[move.snapshot.inode] = .ignored(key, path + [move.to.name])
            }
            try transferContentOfNonDocument(move.stash, inode: move.replaced?.inode ?? 0, t)
        case .directory:
            try transferContentOfNonDocument(move.stash, inode: move.replaced?.inode ?? 0, t)
        case .unknown:
            try transferUnknownContent(move.stash, inode: move.replaced?.inode ?? 0)
        }
    }

    /// Handles an item that was moved into a package or an ignored directory and is no item any
    /// more. Its prior contents are read there.
    func absorbIntoPackage(
        _ item: Item, _ snapshot: FileSnapshot?, into place: Location, _ t: Transaction
    ) throws {
        switch item.kind {
        case .directory:
            writer.state.locations[item.inode] = place
            try absorbChildrenIntoPackage(of: item, in: item.inode, place, t)
        case .package:
            for (inode, location) in writer.state.locations.values {
                guard case .package(item.key, let path) = location else { continue }
                writer.state.locations[inode] = path.reduce(place) { $0.inside($1) }
            }
            needPackage(item, at: place)
        case .file:
            if isSaved(item), !settings.has(.absorbsWithoutContent) {
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
                writer.state.untrackedFiles[child.inode] = DirectoryEntry(
                    directory: directory, name: child.name)
            }
            try absorbIntoPackage(child, nil, into: place.inside(child.name), t)
            if writer.state.pending.dependents[child.inode] == nil {
                writer.state.untrackedFiles[child.inode] = nil
            }
        }
    }

    /// Handles a change of the attribute that makes a directory a package.
    func reclassify(_ inode: UInt64, _ t: Transaction) throws {
        for var item in try t.items(inode: inode)
        where item.kind == .directory || item.kind == .package {
            let kind = try roles.kindNow(item, t)
            guard kind != item.kind else { continue }
            item.kind = kind
            try t.update(item)
            try convert(item, t)
        }
    }

    /// Converts what is below an item whose kind has just changed.
    func convert(_ item: Item, _ t: Transaction) throws {
        if item.kind == .package {
            writer.state.locations[item.inode] = .package(item.key, [])
            try absorbChildrenIntoPackage(of: item, in: item.inode, .package(item.key, []), t)
            writer.rescan(item.key)
            touchPackage(item.key)
        } else {
            roles.forgetLocations(below: item.inode)
            cuts[item.key] = nil
            writer.state.locations[item.inode] = .directory(item.key)
            // Its files are documents of their own from now on. The package's contents are stored
            // before the files change.
            needPackage(item, at: .directory(item.key))
            writer.state.packaged.removeAll { $1 == item.key }
            writer.rescan(item.key)
        }
    }

    /// Adds all files of the package to its prior contents, because they are about to belong to
    /// something else. They are read at `place`, or in the stash when they are moved there.
    func needPackage(_ item: Item, at place: Location) {
        writer.state.movedParts[item.key] = [MovedPart(path: [], place: place)]
        needFiles(of: item.key)
    }

    /// Adds the files of a part of the package to its prior contents, because this part was moved
    /// out of the package to `place`.
    func need(part: [Name], of package: Int64, _ snapshot: FileSnapshot, at place: Location) {
        writer.state.movedParts[package, default: []].append(MovedPart(path: part, place: place))
        if snapshot.isDirectory {
            // It is not known which of the package's files are in it, so all of them are added.
            needFiles(of: package)
        } else if snapshot.isFile {
            writer.state.pending.touch(package) {
                $0.priorContents.append(.present(in: snapshot.inode))
            }
        }
    }

    private func needFiles(of package: Int64) {
        var priorContents: [PriorContent] = []
        for (inode, owner) in writer.state.packaged.values where owner == package {
            guard writer.state.pending.dependents[inode]?.contains(package) != true else {
                continue
            }
            priorContents.append(.present(in: inode))
        }
        guard !priorContents.isEmpty else { return }
        writer.state.pending.touch(package) { $0.priorContents += priorContents }
    }

    /// Updates the places of moved parts after a directory, which may contain some, was renamed.
    func updateMovedParts(below old: Location, to new: Location) {
        for (key, parts) in writer.state.movedParts.values
        where parts.contains(where: { $0.place.path(from: old) != nil }) {
            writer.state.movedParts[key] = parts.map { part in
                guard let path = part.place.path(from: old) else { return part }
                return MovedPart(path: part.path, place: path.reduce(new) { $0.inside($1) })
            }
        }
    }

    /// Assigns another directory to the package. `item` may have other changes, which are written
    /// with it.
    func assignDirectory(
        _ inode: UInt64, toPackage item: Item, by actor: Actor? = nil, _ t: Transaction
    ) throws {
        var item = item
        item.inode = inode
        item.changed = 0
        try t.update(item)
        writer.state.locations[inode] = .package(item.key, [])
        cuts[item.key] = nil
        touchPackage(item.key, by: actor)
        writer.rescan(item.key)
    }
}
