import Journal
import Synchronization

/// The files that programs had open for writing when the machine stopped, and that were not saved
/// since.
final class LostSaves: Sendable {
    /// By inode number.
    private let files: Mutex<[UInt64: UnfinishedFile]>

    init(_ files: [UInt64: UnfinishedFile]) { self.files = Mutex(files) }

    /// Whether a file may hold only a part of what a program was saving.
    func contains(_ snapshot: FileSnapshot) -> Bool {
        guard snapshot.isFile, snapshot.size > 0,
            let file = files.withLock({ $0[snapshot.inode] }),
            min(snapshot.modified, snapshot.changed) < file.lost
        else { return false }
        return file.synced != SyncedContents(size: snapshot.size, modified: snapshot.modified)
    }

    /// A program has saved the file, or the number is that of a new one.
    func remove(_ inode: UInt64, _ t: Transaction) throws {
        guard files.withLock({ $0.removeValue(forKey: inode) }) != nil else { return }
        try UnfinishedFile.remove(inode, t)
    }
}
