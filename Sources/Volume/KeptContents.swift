import Model
import Synchronization

/// Inodes whose contents, while their attributes are unchanged, are completely in the chunk store.
/// They may be overwritten without a copy.
///
/// A program that is about to overwrite such contents calls `use` before it opens the file. Chunks
/// that the file has too are removed from the chunk store only after `release`. So either the
/// program knows that the chunk store has the bytes and they stay, or it makes a copy.
final class KeptContents: Sendable {
    private struct Content {
        var trace: Trace
        var isUsed = false
    }

    private let contents = Mutex<[UInt64: Content]>([:])

    /// Returns whether the contents may be overwritten without a copy.
    func use(_ trace: Trace) -> Bool {
        contents.withLock { contents in
            guard let known = contents[trace.inode], !trace.differs(from: known.trace) else {
                return false
            }
            contents[trace.inode]?.isUsed = true
            return true
        }
    }

    /// A program has closed the file without changing it.
    func endUse(_ trace: Trace) {
        contents.withLock { contents in
            guard let known = contents[trace.inode], !trace.differs(from: known.trace) else {
                return
            }
            contents[trace.inode]?.isUsed = false
        }
    }

    /// From now on the contents are copied before they are overwritten. Returns false if a program
    /// may be overwriting them already.
    func release(_ trace: Trace) -> Bool {
        contents.withLock { contents in
            guard let known = contents[trace.inode] else { return true }
            guard !known.isUsed || trace.differs(from: known.trace) else { return false }
            contents[trace.inode] = nil
            return true
        }
    }

    func set(_ trace: Trace) {
        contents.withLock { contents in
            if contents.count >= KeptContents.countMax {
                // Those in use must not be forgotten.
                contents = contents.filter { $0.value.isUsed }
            }
            contents[trace.inode] = Content(trace: trace)
        }
    }

    private static let countMax = 10_000
}
