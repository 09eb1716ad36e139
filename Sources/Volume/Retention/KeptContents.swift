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
        var snapshot: FileSnapshot
        var isUsed = false
    }

    private let contents = Mutex<[UInt64: Content]>([:])

    /// Returns whether the contents may be overwritten without a copy.
    func use(_ snapshot: FileSnapshot) -> Bool {
        contents.withLock { contents in
            guard let known = contents[snapshot.inode], !snapshot.differs(from: known.snapshot)
            else {
                return false
            }
            contents[snapshot.inode]?.isUsed = true
            return true
        }
    }

    /// A program has closed the file without changing it.
    func endUse(_ snapshot: FileSnapshot) {
        contents.withLock { contents in
            guard let known = contents[snapshot.inode], !snapshot.differs(from: known.snapshot)
            else {
                return
            }
            contents[snapshot.inode]?.isUsed = false
        }
    }

    /// From now on the contents are copied before they are overwritten. Returns false if a program
    /// may be overwriting them already.
    func release(_ snapshot: FileSnapshot) -> Bool {
        contents.withLock { contents in
            guard let known = contents[snapshot.inode] else { return true }
            guard !known.isUsed || snapshot.differs(from: known.snapshot) else { return false }
            contents[snapshot.inode] = nil
            return true
        }
    }

    func set(_ snapshot: FileSnapshot) {
        contents.withLock { contents in
            if contents.count >= KeptContents.countMax {
                // Those in use must not be forgotten.
                contents = contents.filter { $0.value.isUsed }
            }
            contents[snapshot.inode] = Content(snapshot: snapshot)
        }
    }

    private static let countMax = 10_000
}
