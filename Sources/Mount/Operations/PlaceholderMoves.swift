import Glibc
import Model
import SystemCalls
import Volume

/// Which renames and links need a placeholder's bytes first, because these would become a part of
/// another document or of a package. The placeholder's mark says whose bytes are missing, and the
/// zeros in it are no contents. So the bytes are fetched, as for an open, and the call fails if
/// they cannot be fetched. A placeholder that only gets another name keeps waiting for its bytes.
struct PlaceholderMoves: Sendable {
    private let tree: Tree
    private let volume: Volume

    init(_ tree: Tree) {
        self.tree = tree
        volume = tree.volume
    }

    /// What must be fetched before a rename; nil if nothing. Called with the namespace locked.
    func needed(
        _ moved: NamedFile, _ from: RenameEnd, _ to: RenameEnd, over replaced: NamedFile?,
        _ rename: Rename
    ) throws(Errno) -> Rename.Preparation? {
        let isFetched = rename.isFetched
        guard let replaced, replaced.status.st_ino != moved.status.st_ino else {
            return try needed(moved, from, to, isOverFile: false, isFetched: isFetched)
        }
        // The rename will fail.
        if rename.flags & Flag.renameNoReplace != 0 { return nil }
        let files = (FileSnapshot(moved.status).isFile, FileSnapshot(replaced.status).isFile)
        let first = try needed(moved, from, to, isOverFile: files.1, isFetched: isFetched)
        guard first == nil, rename.isExchange else { return first }
        return try needed(replaced, to, from, isOverFile: files.0, isFetched: isFetched)
    }

    private func needed(
        _ moved: NamedFile, _ from: RenameEnd, _ to: RenameEnd, isOverFile: Bool, isFetched: Bool
    ) throws(Errno) -> Rename.Preparation? {
        let snapshot = FileSnapshot(moved.status)
        if snapshot.isDirectory {
            guard !isFetched, let (old, new) = paths(from, to), !isInPackage(old),
                isInPackage(new)
                    || Volume.isPackage(name: new[new.count - 1])
                        && !Volume.isPackage(name: old[old.count - 1])
            else { return nil }
            return .directory(try SharedDescriptor(pathOf: from.name, in: from.directory.raw))
        }
        guard snapshot.isFile, snapshot.size > 0, !PlantedFault.movesPlaceholders.isPlanted
        else { return nil }
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
            let path = tree.nodes.path(of: parent).map({ $0 + [Name(cString: name)] })
        else { return false }
        return isInPackage(path) || isDocument(path)
    }

    /// Returns nil if one of them is not in the tree.
    private func paths(_ from: RenameEnd, _ to: RenameEnd) -> (old: [Name], new: [Name])? {
        guard let old = tree.nodes.path(of: from.parent),
            let new = tree.nodes.path(of: to.parent)
        else { return nil }
        return (old + [Name(cString: from.name)], new + [Name(cString: to.name)])
    }

    private func isDocument(_ path: [Name]) -> Bool { !volume.ignoreFile.isLocal(path) }

    /// The files of a weak package are documents of their own.
    private func isInPackage(_ path: [Name]) -> Bool {
        tree.path(path).steps.dropLast().contains {
            $0.isPackage && !Volume.isWeakPackage(name: $0.name)
        }
    }
}
