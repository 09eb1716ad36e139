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
    /// What must be fetched before a rename.
    enum Needed {
        case file(SharedDescriptor)
        /// Everything below a directory.
        case directory(SharedDescriptor)
    }

    /// One of the two ends of a rename.
    struct RenameEnd {
        let parent: Node
        let directory: SharedDescriptor
        let name: UnsafePointer<CChar>
    }

    func beginRename(
        _ request: Request, _ from: (parent: UInt64, name: UnsafePointer<CChar>),
        _ to: (parent: UInt64, name: UnsafePointer<CChar>), flags: UInt32, isFetched: Bool = false
    ) {
        if arbitration.isQuiet {
            rename(request, from, to, flags: flags, isFetched: isFetched)
        } else {
            renameWithClaim(request, from, to, flags: flags, isFetched: isFetched)
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
        flags: UInt32,
        isFetched: Bool
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
            guard let file, !volume.preventEviction(UInt64(file.status.st_ino)) else { continue }
            allowEviction(Array(files[..<index]))
            return false
        }
        return true
    }

    func allowEviction(_ files: [NamedFile?]) {
        for file in files.compactMap(\.self) {
            volume.allowEviction(UInt64(file.status.st_ino))
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

    private func isDocument(_ path: [Name]) -> Bool { !volume.isLocal(path) }

    /// The files of a weak package are documents of their own.
    private func isInPackage(_ path: [Name]) -> Bool {
        self.path(path).steps.dropLast().contains {
            $0.isPackage && !Volume.isWeakPackage(name: $0.name)
        }
    }

    // MARK: Fetching

    /// Fetches the bytes that a rename needs, and then begins the rename again.
    func fetch(
        _ needed: Needed, for request: Request,
        _ from: (parent: UInt64, name: UnsafePointer<CChar>),
        _ to: (parent: UInt64, name: UnsafePointer<CChar>), flags: UInt32
    ) throws(Errno) {
        let caller = request.caller
        let (oldName, newName) = (terminated(from.name), terminated(to.name))
        let (oldParent, newParent) = (from.parent, to.parent)
        let isFetched = if case .directory = needed { true } else { false }
        let again: @Sendable (Request) -> Void = { [self] request in
            cl_thread_serve(caller.unique, caller.group)
            oldName.asCString { from in
                newName.asCString { to in
                    beginRename(
                        request, (oldParent, from), (newParent, to), flags: flags,
                        isFetched: isFetched)
                }
            }
        }
        switch needed {
        case .file(let file):
            if try haveWhole(request, file, again) { retry(request, else: {}, again) }
        case .directory(let directory):
            fetchAll(below: directory, for: request, again)
        }
    }

    /// Fetches the placeholders below a directory that becomes a package, and then calls `go`.
    func fetchAll(
        below directory: SharedDescriptor, for request: Request,
        _ go: @escaping @Sendable (Request) -> Void
    ) {
        parking.park(
            request, on: .questions,
            { () throws(Errno) in try Volume.placeholders(below: directory.raw) },
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
