import CLinux
import Glibc
import Model
import SystemCalls

/// The directory with a device's volume: `tree/`, `journal.sqlite`, `chunks/`, `stash/`,
/// `incoming/`, `reserve`, `lock`, and `README.txt` for people who find it.
///
/// One process owns a store while it has it open. The kernel holds the lock, which ends with the
/// process.
package final class Store: Sendable {
    package let path: String
    /// O_PATH descriptors.
    let directory: Descriptor
    let tree: Descriptor
    let stash: Descriptor
    let incoming: Descriptor
    private let lock: Descriptor
    let reserve: Reserve
    /// When this was, by the clock from which the file system takes the times of files.
    let opened: Int64
    /// The tree was missing beside a journal or chunks, and was created empty to be rebuilt.
    let isTreeNew: Bool
    /// The stash was missing beside a journal, and was created empty.
    let isStashNew: Bool

    var journalPath: String { path + "/journal.sqlite" }
    var chunksPath: String { path + "/chunks" }
    var cleanPath: String { path + "/clean" }

    /// Opens and locks a store, or creates it.
    ///
    /// - Parameter rebuilds: Whether a missing tree is created instead of refused.
    /// - Throws: `.notFound`, `.invalid` (not a store), `.busy` with the owner's name, `.denied`,
    ///   `.full`, `.damaged` (the tree is missing).
    init(opening path: String, mayCreate: Bool, owner: String, rebuilds: Bool = false)
        throws(VolumeError)
    {
        self.path = path
        isTreeNew = Store.lacksTree(path)
        guard !isTreeNew || rebuilds && mayCreate else {
            throw VolumeError(
                .damaged,
                "\(Store.lostTree(path)) Nothing was changed. To rebuild it from the history and "
                    + "the hub, run: concord mount --rebuild.")
        }
        isStashNew =
            access(path + "/stash", F_OK) != 0 && access(path + "/journal.sqlite", F_OK) == 0
        do throws(Errno) {
            if mayCreate { try Store.makeDirectories(at: path) }
            directory = try Descriptor(opening: path, flags: O_PATH | O_DIRECTORY)
            // The store is changed only by the owner of the lock, because an earlier process that
            // is still ending may remove names in it.
            let lock = try Store.lock(in: directory.raw)
            try Store.makePrivate(directory.raw)
            reserve = Reserve(directory: directory.raw)
            reserve.giveUpIfFull()
            if mayCreate { try Store.makeParts(in: directory.raw) }
            try Store.makePart("incoming", 0o700, in: directory.raw)
            tree = try Descriptor(opening: "tree", in: directory.raw, flags: O_PATH | O_DIRECTORY)
            stash = try Descriptor(opening: "stash", in: directory.raw, flags: O_PATH | O_DIRECTORY)
            incoming = try Descriptor(
                opening: "incoming", in: directory.raw, flags: O_PATH | O_DIRECTORY)
            Store.write(owner, to: lock.raw)
            opened = FileSnapshot(try lock.status()).changed
            self.lock = lock
        } catch {
            throw Store.refusal(path, error)
        }
    }

    /// Removes the stash that this opening has created, so that the next one finds it missing, too.
    func removeNewStash() {
        if isStashNew { _ = cl_unlinkat(directory.raw, "stash", AT_REMOVEDIR) }
    }

    /// Whether the tree was lost: it is missing beside a journal or chunks.
    private static func lacksTree(_ path: String) -> Bool {
        access(path + "/tree", F_OK) != 0
            && ["/journal.sqlite", "/journal.sqlite-wal", "/chunks"].contains {
                access(path + $0, F_OK) == 0
            }
    }

    private static func lock(in directory: Int32) throws(Errno) -> Descriptor {
        let lock = try Descriptor(
            opening: "lock", in: directory, flags: O_RDWR | O_CREAT, mode: 0o600)
        if cl_lock(lock.raw) < 0 { throw Errno(EWOULDBLOCK) }
        return lock
    }

    private static func makeParts(in directory: Int32) throws(Errno) {
        for (name, mode) in [("tree", 0o755), ("stash", 0o700)] as [(String, mode_t)] {
            try makePart(name, mode, in: directory)
        }
        let note = try? Descriptor(
            opening: noteName, in: directory, flags: O_WRONLY | O_CREAT | O_EXCL, mode: 0o600)
        if let note { try? writeFully(note.raw, Array(noteText.utf8), at: 0) }
    }

    /// The name of the note for people who find the store without Concord and copy it.
    static let noteName = "README.txt"
    private static let noteText = """
        This is a volume of Concord. The files in the directory tree are yours, under their names.

        Documents whose contents are only at the hub are placeholders there: files that have the
        attribute user.concord.absent and read as zeros. These zeros are not their contents, so do
        not copy them. This command lists the placeholders:

            getfattr -R -P --absolute-names -n user.concord.absent tree 2>/dev/null

        To download all contents, mount the volume and run: fsctl download MOUNT

        """

    /// Makes a store accessible to its owner only, because it has old contents of all users, and
    /// secrets. The tree keeps its mode, which is that of the volume's root.
    private static func makePrivate(_ directory: Int32) throws(Errno) {
        try restrict(directory, to: 0o700)
        var names: [Name] = []
        try forEachName(in: directory) { names.append($0) }
        for name in names where name != Name("tree") && name != Name("lost+found") {
            let part: Descriptor
            do throws(Errno) {
                part = try openBeneath([name], from: directory, flags: O_PATH)
            } catch {
                guard error == .notFound else { throw error }
                continue
            }
            let snapshot = FileSnapshot(try part.status())
            if snapshot.isDirectory { try restrict(part.raw, to: 0o700) }
            if snapshot.isFile { try restrict(part.raw, to: 0o600) }
        }
    }

    private static func restrict(_ file: Int32, to mode: mode_t) throws(Errno) {
        var status = stat()
        try check(cl_fstat(file, &status))
        guard status.st_mode & 0o777 & ~mode != 0 else { return }
        try check(cl_chmod_fd(file, status.st_mode & mode))
    }

    private static func makePart(_ name: String, _ mode: mode_t, in directory: Int32)
        throws(Errno)
    {
        let result = cl_mkdirat(directory, name, mode)
        if result < 0, result != -EEXIST { throw Errno(-result) }
    }

    private static func makeDirectories(at path: String) throws(Errno) {
        var status = stat()
        if cl_fstatat(AT_FDCWD, path, &status, 0) == 0 { return }
        var parent = path[...]
        while parent.last == "/" { parent.removeLast() }
        if let slash = parent.lastIndex(of: "/"), slash > parent.startIndex {
            try makeDirectories(at: String(parent[..<slash]))
        }
        let result = cl_mkdirat(AT_FDCWD, path, 0o700)
        if result < 0, result != -EEXIST { throw Errno(-result) }
    }

    private static func write(_ owner: String, to lock: Int32) {
        var text = owner + "\n"
        _ = cl_ftruncate(lock, 0)
        text.withUTF8 { _ = cl_pwrite(lock, $0.baseAddress, $0.count, 0) }
    }

    private static func refusal(_ path: String, _ error: Errno) -> VolumeError {
        switch error.code {
        case EWOULDBLOCK:
            VolumeError(
                .busy,
                "The store \(path) is in use by \(owner(of: path)). "
                    + "Unmount it there first, or choose another store.")
        case ENOENT:
            VolumeError(
                .notFound, "There is no Concord store at \(path). `concord mount` creates one.")
        case ENOTDIR:
            VolumeError(.invalid, "\(path) is not a directory, so it cannot be a store.")
        case EACCES, EPERM, EROFS:
            VolumeError(.denied, "This user may not write the store \(path): \(error).")
        case ENOSPC, EDQUOT:
            VolumeError(.full, "There is no space left for the store \(path).")
        default:
            VolumeError(.system, "The store \(path) cannot be opened: \(error).")
        }
    }

    /// The name that the owner of the lock wrote into it.
    private static func owner(of path: String) -> String {
        guard let lock = try? Descriptor(opening: path + "/lock", flags: O_RDONLY) else {
            return "another process"
        }
        var bytes = [UInt8](repeating: 0, count: 1024)
        let count = (try? bytes.withUnsafeMutableBytes { try lock.read(into: $0, at: 0) }) ?? 0
        let text = String(decoding: bytes[..<count], as: UTF8.self)
        let line = text.split(separator: "\n").first.map(String.init) ?? ""
        return line.isEmpty ? "another process" : line
    }

    /// Removes the mark of a clean end. Returns whether the last owner ended properly.
    func takeCleanMark() -> Bool { cl_unlinkat(AT_FDCWD, cleanPath, 0) == 0 }

    func setCleanMark() {
        if let mark = try? Descriptor(opening: cleanPath, flags: O_WRONLY | O_CREAT, mode: 0o600) {
            _ = cl_fsync(mark.raw, 0)
        }
    }
}
