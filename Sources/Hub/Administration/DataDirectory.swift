import CLinux
import Glibc
import Logging
import Model
import Synchronization
import SystemCalls

/// A database outside of the hub's directory that has, or will have, its ledger.
package protocol LedgerSource: Sendable {
    /// The database, for messages.
    var name: String { get }

    func exists() throws(VolumeError) -> Bool

    /// - Throws: `.notFound` if there is no ledger and `mayCreate` is false; `.newer`, `.denied`,
    ///   `.offline`.
    func open(mayCreate: Bool) throws(VolumeError) -> any Ledger
}

/// The directory of a hub's data: `ledger.sqlite` and `blobs/` unless they are elsewhere, `heads`,
/// `fingerprint` and `lock`.
package struct DataDirectory: Sendable {
    package let path: String
    /// Where the ledger is; nil if it is `ledger.sqlite`.
    package let source: (any LedgerSource)?
    /// Where the blobs are; nil if they are in `blobs/`.
    package let blobSource: (any BlobSource)?

    package init(
        _ path: String, ledger source: (any LedgerSource)? = nil,
        blobs blobSource: (any BlobSource)? = nil
    ) {
        self.path = path
        self.source = source
        self.blobSource = blobSource
    }

    var ledgerPath: String { path + "/ledger.sqlite" }
    var blobsPath: String { path + "/blobs" }
    /// Where the ledger and the blobs are, for messages.
    package var place: String {
        if source == nil, blobSource == nil { return path }
        return "\(source?.name ?? ledgerPath) and \(blobsName)"
    }
    /// Where the blobs are, for messages.
    var blobsName: String { blobSource?.name ?? blobsPath }
    var headsPath: String { path + "/heads" }
    var certificatePath: String { path + "/fingerprint" }

    /// Creates the directory and its parents if they do not exist.
    ///
    /// - Returns: Whether the directory holds no hub yet.
    package func make() throws(VolumeError) -> Bool {
        do throws(Errno) {
            try makeDirectories(path[...])
        } catch {
            throw VolumeError(
                error == .denied ? .denied : error == .noSpace ? .full : .system,
                "The directory \(path) cannot be made: \(error). Choose another one for --data.")
        }
        return try !(source?.exists() ?? holdsHub)
    }

    package var holdsHub: Bool { size(ledgerPath) > 0 }

    /// The size in bytes; 0 if the file does not exist.
    private func size(_ path: String) -> Int64 {
        var status = stat()
        return cl_fstatat(AT_FDCWD, path, &status, 0) == 0 ? Int64(status.st_size) : 0
    }

    /// Refuses to create an empty ledger next to the remaining parts of a hub, because an empty
    /// ledger would treat all chunks in the blobs as garbage.
    ///
    /// - Parameter place: The database in which the ledger should be; nil for `ledger.sqlite`.
    private func refuseLostLedger(in place: String? = nil) throws(VolumeError) {
        let rest = [blobsPath, headsPath, ledgerPath + "-wal"].first { path in
            var status = stat()
            guard cl_fstatat(AT_FDCWD, path, &status, 0) == 0 else { return false }
            return path == blobsPath || status.st_size > 0
        }
        guard let rest else { return }
        if let place {
            throw VolumeError(
                .damaged,
                "There is no ledger in \(place), and \(rest) belongs to one. Is this the right "
                    + "database? Nothing was changed. To begin a new hub without the users and "
                    + "volumes of the old one: concord hub --rebuild; its packs are kept.")
        }
        throw VolumeError(
            .damaged,
            "The ledger \(ledgerPath) is missing beside \(rest). Put it back; is its disk "
                + "mounted? Nothing was changed. To begin a new hub without the users and volumes "
                + "of the old one: concord hub --rebuild; its packs are kept.")
    }

    /// SQLite would read the write-ahead log of the lost ledger as the log of the new ledger.
    private func moveLostLogAside() throws(VolumeError) {
        for ending in ["-wal", "-shm"] {
            do throws(Errno) {
                try check(
                    cl_renameat2(
                        AT_FDCWD, ledgerPath + ending, AT_FDCWD, ledgerPath + ".lost" + ending, 0))
            } catch {
                guard error != .notFound else { continue }
                throw VolumeError(
                    .system, "\(ledgerPath)\(ending) cannot be moved aside: \(error).")
            }
        }
    }

    private func makeDirectories(_ path: Substring) throws(Errno) {
        var status = stat()
        if cl_fstatat(AT_FDCWD, String(path), &status, 0) == 0 { return }
        var parent = path
        while parent.last == "/" { parent.removeLast() }
        if let slash = parent.lastIndex(of: "/"), slash > parent.startIndex {
            try makeDirectories(parent[..<slash])
        }
        let made = cl_mkdirat(AT_FDCWD, String(path), 0o700)
        if made != -EEXIST { try check(made) }
    }

    /// Locks the directory for this process. The kernel releases the lock when the process ends.
    ///
    /// - Throws: `.busy` if a hub runs on the directory.
    package func lock() throws(VolumeError) -> DataLock {
        try lock(
            "lock",
            busy: "A hub is running on \(path): stop it first, or choose another directory.")
    }

    /// - Throws: `.busy` if another process moves the hub.
    func lockForMove() throws(VolumeError) -> DataLock {
        try lock("move", busy: "Another concord hub move works on \(path).")
    }

    private func lock(_ name: String, busy: String) throws(VolumeError) -> DataLock {
        let lock: Descriptor
        do throws(Errno) {
            lock = try Descriptor(
                opening: "\(path)/\(name)", flags: O_RDWR | O_CREAT, mode: 0o600)
        } catch {
            throw VolumeError(
                error == .notFound ? .notFound : error == .denied ? .denied : .system,
                "The hub's directory \(path) cannot be used: \(error). Check --data.")
        }
        guard cl_lock(lock.raw) == 0 else { throw VolumeError(.busy, busy) }
        return DataLock(descriptor: lock)
    }

    /// Returns nil if a hub runs on the directory.
    func lockIfFree() throws(VolumeError) -> DataLock? {
        do throws(VolumeError) { return try lock() } catch {
            guard error.code == .busy else { throw error }
            return nil
        }
    }

    /// - Parameter rebuilds: Whether a new ledger is created if the ledger of a hub is missing.
    /// - Throws: `.notFound` if there is no hub and `mayCreate` is false; `.damaged` if the ledger
    ///   is missing and other parts of the hub exist.
    package func openLedger(mayCreate: Bool = false, rebuilds: Bool = false)
        throws(VolumeError) -> any Ledger
    {
        if let source { return try open(source, mayCreate: mayCreate, rebuilds: rebuilds) }
        if !holdsHub {
            if !rebuilds { try refuseLostLedger() } else { try moveLostLogAside() }
        }
        guard mayCreate || holdsHub else {
            throw VolumeError(
                .notFound,
                "There is no hub in \(path). Is its disk mounted? concord hub --data \(path) "
                    + "creates a new one.")
        }
        return try SQLiteLedger(path: ledgerPath, mayCreate: mayCreate)
    }

    private func open(
        _ source: any LedgerSource, mayCreate: Bool, rebuilds: Bool
    ) throws(VolumeError) -> any Ledger {
        if holdsHub, try !hasLeft() {
            throw VolumeError(
                .invalid,
                "\(path) is a hub with its ledger in SQLite. To move it to \(source.name): "
                    + "concord hub move. Otherwise leave --ledger out, or give another --data.")
        }
        if !rebuilds, try !source.exists() { try refuseLostLedger(in: source.name) }
        return try source.open(mayCreate: mayCreate)
    }

    /// Whether the hub with its ledger in SQLite was moved from here.
    private func hasLeft() throws(VolumeError) -> Bool {
        let ledger = try SQLiteLedger(path: ledgerPath, mayCreate: false)
        defer { try? ledger.close() }
        return try ledger.snapshot { try MoveTable($0).record() }?.state == .left
    }

    package func openBlobs(_ ledger: any Ledger, _ log: Logger) throws(VolumeError)
        -> any BlobStore
    {
        if let blobSource { return try blobSource.open(ledger, log) }
        return try DirectoryBlobs(directory: blobsPath)
    }
}

/// Holds the lock on the data directory: while this object exists, no other process can run a hub
/// on it.
package final class DataLock: Sendable {
    private let descriptor: Mutex<Int32>

    init(descriptor: consuming Descriptor) { self.descriptor = Mutex(descriptor.release()) }

    deinit { release() }

    func release() {
        descriptor.withLock { descriptor in
            if descriptor >= 0 { _ = cl_close(descriptor) }
            descriptor = -1
        }
    }
}
