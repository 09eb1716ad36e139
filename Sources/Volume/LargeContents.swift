import CLinux
import ChunkStore
import Glibc
import Model
import Synchronization
import SystemCalls

/// Cuts large contents beside the recorder: small documents do not wait until gigabytes are on the
/// disk and hashed. One that is saved again and again is cut for a part of the time only: its saves
/// of the meantime are in the stash.
final class LargeContents: Sendable {
    private enum Entry {
        case underway
        case cut(Trace, [ChunkReference])
        case failed(VolumeError)
    }

    /// By inode.
    private let entries = Mutex<[UInt64: Entry]>([:])
    /// Until when a file is left alone, by inode: monotonic nanoseconds.
    private let rests = Mutex<[UInt64: Int64]>([:])
    /// How many times as long as its cutting took a file is left alone then.
    private let restFactor: Double
    private let pool = WorkerPool(name: "cutter", threads: 1)

    init(restFactor: Double) { self.restFactor = restFactor }

    /// The chunks, if the file was synced and cut as it is now; nil when that has only begun, and
    /// `done` will be called; or when it rests, unless that is urgent.
    func chunks(
        of file: Int32, _ trace: Trace, isUrgent: Bool, done: @escaping @Sendable () -> Void
    ) throws(VolumeError) -> [ChunkReference]? {
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
        guard isUrgent || !isResting(trace.inode) else { return nil }
        // As long as it takes, whatever becomes of its name.
        let copy = fcntl(file, F_DUPFD_CLOEXEC, 0)
        guard copy >= 0 else { throw VolumeError(.system, "There are too many open files.") }
        entries.withLock { $0[trace.inode] = .underway }
        pool.run { [weak self] in
            let start = cl_clock_monotonic_ns()
            let entry = LargeContents.cut(copy, trace)
            _ = cl_close(copy)
            self?.rest(trace.inode, after: cl_clock_monotonic_ns() - start)
            self?.entries.withLock { $0[trace.inode] = entry }
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
