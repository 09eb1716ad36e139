import CLinux
import Glibc
import Model
import Synchronization
import SystemCalls

/// Where a hub keeps all it has: `ledger.sqlite`, `blobs/`, `heads`, `fingerprint` and
/// `lock`.
package struct DataDirectory: Sendable {
    package let path: String

    package init(_ path: String) { self.path = path }

    var ledgerPath: String { path + "/ledger.sqlite" }
    var blobsPath: String { path + "/blobs" }
    var headsPath: String { path + "/heads" }
    var certificatePath: String { path + "/fingerprint" }

    /// Makes it where there is none, with the directories above it.
    ///
    /// - Returns: Whether it holds no hub yet.
    package func make() throws(VolumeError) -> Bool {
        do throws(Errno) {
            try makeDirectories(path[...])
        } catch {
            throw VolumeError(
                error == .denied ? .denied : error == .noSpace ? .full : .system,
                "The directory \(path) cannot be made: \(error). Choose another one for --data.")
        }
        return !holdsHub
    }

    package var holdsHub: Bool { size(ledgerPath) > 0 }

    /// Bytes; 0 for what is not there.
    private func size(_ path: String) -> Int64 {
        var status = stat()
        return cl_fstatat(AT_FDCWD, path, &status, 0) == 0 ? Int64(status.st_size) : 0
    }

    /// An empty ledger beside the parts of a hub would take all that they hold for garbage.
    private func refuseLostLedger() throws(VolumeError) {
        let rest = [blobsPath, headsPath, ledgerPath + "-wal"].first { path in
            var status = stat()
            guard cl_fstatat(AT_FDCWD, path, &status, 0) == 0 else { return false }
            return path == blobsPath || status.st_size > 0
        }
        guard let rest else { return }
        throw VolumeError(
            .damaged,
            "The ledger \(ledgerPath) is missing beside \(rest). Put it back; is its disk "
                + "mounted? Nothing was changed. To begin a new hub without the users and volumes "
                + "of the old one: concord hub --rebuild; its packs are kept.")
    }

    /// The log of a ledger that is gone would be read as that of the new one.
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

    /// The lock dies with the process.
    ///
    /// - Throws: `.busy` when a hub runs on it.
    package func lock() throws(VolumeError) -> DataLock {
        let lock: Descriptor
        do throws(Errno) {
            lock = try Descriptor(opening: path + "/lock", flags: O_RDWR | O_CREAT, mode: 0o600)
        } catch {
            throw VolumeError(
                error == .notFound ? .notFound : error == .denied ? .denied : .system,
                "The hub's directory \(path) cannot be used: \(error). Check --data.")
        }
        guard cl_lock(lock.raw) == 0 else {
            throw VolumeError(
                .busy, "A hub is running on \(path): stop that one first, or choose another.")
        }
        return DataLock(descriptor: lock)
    }

    /// Nil when a hub runs on it.
    func lockIfFree() throws(VolumeError) -> DataLock? {
        do throws(VolumeError) { return try lock() } catch {
            guard error.code == .busy else { throw error }
            return nil
        }
    }

    /// - Parameter rebuilds: Makes a new ledger where that of a hub is missing.
    /// - Throws: `.notFound` where there is no hub, unless `mayCreate`; `.damaged` where there are
    ///   the other parts of one.
    package func openLedger(mayCreate: Bool = false, rebuilds: Bool = false)
        throws(VolumeError) -> SQLiteLedger
    {
        if !holdsHub {
            if !rebuilds { try refuseLostLedger() } else { try moveLostLogAside() }
        }
        guard mayCreate || holdsHub else {
            throw VolumeError(
                .notFound,
                "There is no hub in \(path). Is its disk mounted? concord hub --data \(path) "
                    + "makes a new one.")
        }
        return try SQLiteLedger(path: ledgerPath, mayCreate: mayCreate)
    }

    package func openBlobs() throws(VolumeError) -> DirectoryBlobs {
        try DirectoryBlobs(directory: blobsPath)
    }
}

/// While it lives no other process runs a hub on the directory.
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
