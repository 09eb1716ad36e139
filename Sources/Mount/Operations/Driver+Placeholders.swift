import CFuse
import CLinux
import Glibc
import Model
import SystemCalls
import Volume

// Renames, links and attributes that would make a placeholder's bytes a part of another document or
// of a package. The placeholder's mark says whose bytes are missing, and the zeros in it are no
// contents. So the bytes are fetched first, as for an open, and the call fails if they cannot be
// fetched. A placeholder that only gets another name keeps waiting for its bytes.
extension Driver {
    /// What must be done before a rename, while names are not locked.
    enum Needed {
        /// Its bytes must be fetched.
        case file(SharedDescriptor)
        /// The bytes of everything below a directory must be fetched.
        case directory(SharedDescriptor)
        /// A file that is about to be replaced must be copied.
        case copy(SharedDescriptor, DirectoryEntry)
    }

    /// One of the two ends of a rename.
    struct RenameEnd {
        let parent: Node
        let directory: SharedDescriptor
        let name: UnsafePointer<CChar>

        var place: Place {
            Place(descriptor: directory.raw, inode: parent.inode, name: name)
        }
    }

    func beginRename(
        _ request: Request, _ from: (parent: UInt64, name: UnsafePointer<CChar>),
        _ to: (parent: UInt64, name: UnsafePointer<CChar>), flags: UInt32,
        prepared: RenamePreparation = RenamePreparation()
    ) {
        if arbitration.isQuiet {
            rename(request, from, to, flags: flags, prepared: prepared)
        } else {
            renameWithClaim(request, from, to, flags: flags, prepared: prepared)
        }
    }

    func beginLink(
        _ request: Request, _ id: UInt64, in parent: UInt64, _ name: UnsafePointer<CChar>
    ) {
        if arbitration.isQuiet { return link(request, id, in: parent, name) }
        makeWithClaim(request, in: parent, name) { self.link(request, id, in: parent, $0) }
    }

    /// What must be fetched before a rename; nil if nothing. Called with the namespace locked.
    func needed(
        _ moved: NamedFile, _ from: RenameEnd, _ to: RenameEnd, over replaced: NamedFile?,
        flags: UInt32, isFetched: Bool
    ) throws(Errno) -> Needed? {
        guard let replaced, replaced.status.st_ino != moved.status.st_ino else {
            return try needed(moved, from, to, isOverFile: false, isFetched: isFetched)
        }
        // The rename will fail.
        if flags & Flag.renameNoReplace != 0 { return nil }
        let files = (FileSnapshot(moved.status).isFile, FileSnapshot(replaced.status).isFile)
        let first = try needed(moved, from, to, isOverFile: files.1, isFetched: isFetched)
        guard first == nil, flags & Flag.renameExchange != 0 else { return first }
        return try needed(replaced, to, from, isOverFile: files.0, isFetched: isFetched)
    }

    private func needed(
        _ moved: NamedFile, _ from: RenameEnd, _ to: RenameEnd, isOverFile: Bool, isFetched: Bool
    ) throws(Errno) -> Needed? {
        let snapshot = FileSnapshot(moved.status)
        if snapshot.isDirectory {
            guard !isFetched, let (old, new) = paths(from, to), !isInPackage(old),
                isInPackage(new)
                    || Volume.isPackage(name: new[new.count - 1])
                        && !Volume.isPackage(name: old[old.count - 1])
            else { return nil }
            return .directory(try SharedDescriptor(pathOf: from.name, in: from.directory.raw))
        }
        guard snapshot.isFile, snapshot.size > 0 else { return nil }
        let file = try SharedDescriptor(pathOf: from.name, in: from.directory.raw)
        guard PlaceholderMark(of: file.raw) != nil, let (old, new) = paths(from, to) else {
            return nil
        }
        let isAnother = isInPackage(new) || isDocument(new) && (isOverFile || !isDocument(old))
        return isAnother ? .file(file) : nil
    }

    /// Keeps the files from being evicted until `allowEviction`. Returns false if one of them is
    /// being evicted.
    func preventEviction(_ files: [NamedFile?]) -> Bool {
        for (index, file) in files.enumerated() {
            guard let file, !volume.hydration.preventEviction(UInt64(file.status.st_ino)) else {
                continue
            }
            allowEviction(Array(files[..<index]))
            return false
        }
        return true
    }

    func allowEviction(_ files: [NamedFile?]) {
        for file in files.compactMap(\.self) {
            volume.hydration.allowEviction(UInt64(file.status.st_ino))
        }
    }

    /// Whether a second name would make a placeholder's bytes a part of another document too.
    func isNeeded(_ file: SharedDescriptor, under name: UnsafePointer<CChar>, in parent: Node)
        throws(Errno) -> Bool
    {
        guard PlaceholderMark(of: file.raw, size: Int64(try file.status().st_size)) != nil,
            let path = nodes.path(of: parent).map({ $0 + [Name(cString: name)] })
        else { return false }
        return isInPackage(path) || isDocument(path)
    }

    /// Returns nil if one of them is not in the tree.
    private func paths(_ from: RenameEnd, _ to: RenameEnd) -> (old: [Name], new: [Name])? {
        guard let old = nodes.path(of: from.parent), let new = nodes.path(of: to.parent) else {
            return nil
        }
        return (old + [Name(cString: from.name)], new + [Name(cString: to.name)])
    }

    private func isDocument(_ path: [Name]) -> Bool { !volume.ignoreFile.isLocal(path) }

    /// The files of a weak package are documents of their own.
    private func isInPackage(_ path: [Name]) -> Bool {
        self.path(path).steps.dropLast().contains {
            $0.isPackage && !Volume.isWeakPackage(name: $0.name)
        }
    }

    // MARK: Preparing

    /// Does what a rename needs, and then begins the rename again.
    func prepare(
        _ needed: Needed, for request: Request,
        _ from: (parent: UInt64, name: UnsafePointer<CChar>),
        _ to: (parent: UInt64, name: UnsafePointer<CChar>), flags: UInt32,
        _ prepared: RenamePreparation
    ) throws(Errno) {
        let (oldName, newName) = (terminated(from.name), terminated(to.name))
        let (oldParent, newParent) = (from.parent, to.parent)
        try prepare(needed, for: request, prepared) { [self] request, prepared in
            oldName.asCString { from in
                newName.asCString { to in
                    beginRename(
                        request, (oldParent, from), (newParent, to), flags: flags,
                        prepared: prepared)
                }
            }
        }
    }

    /// Does what a rename needs, and then calls `go`. Calls `fail` if a copy cannot be made.
    func prepare(
        _ needed: Needed, for request: Request, _ prepared: RenamePreparation,
        else fail: @escaping @Sendable () -> Void = {},
        _ go: @escaping @Sendable (Request, RenamePreparation) -> Void
    ) throws(Errno) {
        let caller = request.caller
        let again: @Sendable (Request, RenamePreparation) -> Void = { request, prepared in
            cl_thread_serve(caller.unique, caller.group)
            go(request, prepared)
        }
        var done = prepared
        switch needed {
        case .file(let file):
            let isHere = try haveWhole(request, file) { again($0, prepared) }
            if isHere { retry(request, else: {}, { again($0, prepared) }) }
        case .directory(let directory):
            done.isFetched = true
            fetchAll(below: directory, for: request) { [done] in again($0, done) }
        case .copy(let file, let spot):
            done.copies += 1
            let actor = actor(caller)
            parking.park(
                request, on: .disk,
                { [volume] () throws(Errno) in
                    do throws(Errno) {
                        return try volume.names.copyReplaced(file.raw, at: spot, by: actor)
                    } catch {
                        fail()
                        throw error
                    }
                },
                preImages: { _ in fail() },
                answer: { [parking, done] request, copy in
                    // The rename must not occupy a thread of this lane.
                    parking.soon { [done] in
                        var done = done
                        done.copy = copy
                        again(request, done)
                    }
                })
        }
    }

    /// Fetches the placeholders below a directory that becomes a package, and then calls `go`.
    func fetchAll(
        below directory: SharedDescriptor, for request: Request,
        _ go: @escaping @Sendable (Request) -> Void
    ) {
        parking.park(
            request, on: .questions,
            { () throws(Errno) in try PlaceholderMark.placeholders(below: directory.raw) },
            answer: { self.fetch($1[...], below: directory, for: $0, go) })
    }

    /// Fetches one file after the other.
    private func fetch(
        _ paths: ArraySlice<[Name]>, below directory: SharedDescriptor, for request: Request,
        _ go: @escaping @Sendable (Request) -> Void
    ) {
        request.answer { () throws(Errno) in
            var rest = paths
            while let path = rest.first {
                let left = rest
                if let found = try? openBeneath(path, from: directory.raw, flags: Flag.path) {
                    let isHere = try haveWhole(
                        request, SharedDescriptor(owning: found.release())
                    ) {
                        self.fetch(left, below: directory, for: $0, go)
                    }
                    guard isHere else { return }
                }
                rest = rest.dropFirst()
            }
            go(request)
        }
    }
}

/// What was done before a rename.
struct RenamePreparation: Sendable {
    /// Everything in the moved directory was fetched.
    var isFetched = false
    /// A copy of the replaced file.
    var copy: ReplacedCopy?
    /// How often one was made.
    var copies = 0

    /// A file that has changed again and again while it was copied is not copied any more.
    var isLastTry: Bool { copies >= 3 }
}
