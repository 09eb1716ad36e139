import CLinux
import ChunkStore
import Glibc
import Model
import Synchronization
import SystemCalls

/// Cuts large files on a thread of its own, so that small documents need not wait until gigabytes
/// are synced and hashed. A file that is saved again and again is cut only for a part of the time;
/// the contents of the saves in between are in the stash.
final class LargeFileCutter: Sendable {
    private enum Entry {
        case underway
        case cut(FileSnapshot, [ChunkReference])
        case failed(VolumeError)
    }

    /// The state of each file, by inode.
    private let entries = Mutex<[UInt64: Entry]>([:])
    /// Until when a file is not cut again, by inode, in monotonic nanoseconds.
    private let rests = Mutex<[UInt64: Int64]>([:])
    /// The length of this pause, as a multiple of the time that cutting took.
    private let restFactor: Double
    private let pool = WorkerPool(name: "cutter", threads: 1)

    init(restFactor: Double) { self.restFactor = restFactor }

    /// Returns the chunks if the file, as it is now, has been synced and cut. Otherwise returns nil
    /// and starts cutting, and `done` is called at the end. Returns nil without starting while the
    /// file is cut already, or while it pauses and `isUrgent` is false.
    func chunks(
        of file: Int32, _ snapshot: FileSnapshot, isUrgent: Bool,
        done: @escaping @Sendable () -> Void
    ) throws(VolumeError) -> [ChunkReference]? {
        let known = entries.withLock { entries -> Entry? in
            if case .underway = entries[snapshot.inode] { return .underway }
            return entries.removeValue(forKey: snapshot.inode)
        }
        switch known {
        case .underway: return nil
        case .failed(let error): throw error
        case .cut(let cut, let chunks) where !cut.differs(from: snapshot): return chunks
        case .cut, nil: break
        }
        guard isUrgent || !isResting(snapshot.inode) else { return nil }
        // A duplicate stays open while the file is cut, even if its name goes away.
        let copy = fcntl(file, F_DUPFD_CLOEXEC, 0)
        guard copy >= 0 else { throw VolumeError(.system, "Too many files are open.") }
        entries.withLock { $0[snapshot.inode] = .underway }
        pool.run { [weak self] in
            let start = cl_clock_monotonic_ns()
            let entry = LargeFileCutter.cut(copy, snapshot)
            _ = cl_close(copy)
            self?.rest(snapshot.inode, after: cl_clock_monotonic_ns() - start)
            self?.entries.withLock { $0[snapshot.inode] = entry }
            done()
        }
        return nil
    }

    private func isResting(_ inode: UInt64) -> Bool {
        let now = cl_clock_monotonic_ns()
        return rests.withLock { rests in
            rests = rests.filter { $0.value > now }
            return rests[inode] != nil
        }
    }

    private func rest(_ inode: UInt64, after taken: Int64) {
        let end = cl_clock_monotonic_ns() + Int64(Double(taken) * restFactor)
        rests.withLock { $0[inode] = end }
    }

    private static func cut(_ file: Int32, _ snapshot: FileSnapshot) -> Entry {
        do throws(VolumeError) {
            guard cl_fsync(file, 0) >= 0 else {
                throw VolumeError(.system, "The file cannot be synced to the disk.")
            }
            return .cut(snapshot, try cutFile(file, size: snapshot.size))
        } catch {
            return .failed(error)
        }
    }
}
