import CLinux
import Glibc
import Model
import Synchronization
import SystemCalls

/// Where a hub keeps all it has: `ledger.sqlite`, `blobs/`, `heads` and `lock`.
package struct DataDirectory: Sendable {
    package let path: String

    package init(_ path: String) { self.path = path }

    var ledgerPath: String { path + "/ledger.sqlite" }
    var blobsPath: String { path + "/blobs" }
    var headsPath: String { path + "/heads" }

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

    package var holdsHub: Bool {
        var status = stat()
        return cl_fstatat(AT_FDCWD, ledgerPath, &status, 0) == 0
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

    /// - Throws: `.notFound` where there is no hub, unless `mayCreate`.
    package func openLedger(mayCreate: Bool = false) throws(VolumeError) -> SQLiteLedger {
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
