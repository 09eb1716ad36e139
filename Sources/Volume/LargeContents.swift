import CLinux
import ChunkStore
import Glibc
import Model
import Synchronization
import SystemCalls

/// Cuts large contents beside the recorder: small documents do not wait until gigabytes are on the
/// disk and hashed.
final class LargeContents: Sendable {
    private enum Entry {
        case underway
        case cut(Trace, [ChunkReference])
        case failed(VolumeError)
    }

    /// By inode.
    private let entries = Mutex<[UInt64: Entry]>([:])
    private let pool = WorkerPool(name: "cutter", threads: 1)

    /// The chunks, if the file was synced and cut as it is now; nil when that has only begun, and
    /// `done` will be called.
    func chunks(of file: Int32, _ trace: Trace, done: @escaping @Sendable () -> Void)
        throws(VolumeError) -> [ChunkReference]?
    {
        let known = entries.withLock { entries -> Entry? in
            if case .underway = entries[trace.inode] { return .underway }
            return entries.removeValue(forKey: trace.inode)
        }
        switch known {
        case .underway: return nil
        case .failed(let error): throw error
        case .cut(let cut, let chunks) where !cut.differs(from: trace): return chunks
        case .cut, nil: break
        }
        // As long as it takes, whatever becomes of its name.
        let copy = fcntl(file, F_DUPFD_CLOEXEC, 0)
        guard copy >= 0 else { throw VolumeError(.system, "There are too many open files.") }
        entries.withLock { $0[trace.inode] = .underway }
        pool.run { [weak self] in
            let entry = LargeContents.cut(copy, trace)
            _ = cl_close(copy)
            self?.entries.withLock { $0[trace.inode] = entry }
            done()
        }
        return nil
    }

    private static func cut(_ file: Int32, _ trace: Trace) -> Entry {
        do throws(VolumeError) {
            guard cl_fsync(file, 0) >= 0 else {
                throw VolumeError(.system, "It cannot be synced to the disk.")
            }
            return .cut(trace, try cutFile(file, size: trace.size))
        } catch {
            return .failed(error)
        }
    }
}
