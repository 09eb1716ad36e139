import Model

/// A file that programs had open for writing when the machine stopped. What it holds may be a part
/// of a save.
package struct UnfinishedFile: Hashable, Sendable {
    /// The file was changed last before this time if it is still as the stop has left it; in
    /// nanoseconds since 1970.
    package var lost: Int64
    /// What it was when a program synced it last. A file that still has this size and this time is
    /// complete.
    package var synced: SyncedContents?

    package init(lost: Int64, synced: SyncedContents? = nil) {
        self.lost = lost
        self.synced = synced
    }
}

/// The size and the modification time of a file when a program synced it. Later contents differ in
/// one of them.
package struct SyncedContents: Hashable, Sendable {
    package var size: Int64
    /// Nanoseconds since 1970.
    package var modified: Int64

    package init(size: Int64, modified: Int64) {
        self.size = size
        self.modified = modified
    }
}

extension UnfinishedFile {
    /// Notes that programs have a file open for writing, and what was synced of it.
    package static func add(
        _ inode: UInt64, _ synced: SyncedContents?, _ t: Transaction
    ) throws(VolumeError) {
        try t.run(
            """
            INSERT OR REPLACE INTO unfinished (inode, lost, size, modified)
            VALUES (?, NULL, ?, ?)
            """, [.bits(inode), .integer(synced?.size), .integer(synced?.modified)])
    }

    /// Adds a file for which the last daemon has left a mark. A row that the same daemon has left
    /// is kept, because it has what was synced of the file.
    package static func addMarked(_ inode: UInt64, _ t: Transaction) throws(VolumeError) {
        try t.run(
            """
            INSERT INTO unfinished (inode) VALUES (?)
            ON CONFLICT (inode) DO UPDATE SET lost = NULL, size = NULL, modified = NULL
            WHERE lost IS NOT NULL
            """, [.bits(inode)])
    }

    package static func remove(_ inode: UInt64, _ t: Transaction) throws(VolumeError) {
        try t.run("DELETE FROM unfinished WHERE inode = ?", [.bits(inode)])
    }

    /// Notes for all unfinished files that the machine has stopped before this time.
    package static func lose(before time: Int64, _ t: Transaction) throws(VolumeError) {
        try t.run("UPDATE unfinished SET lost = ? WHERE lost IS NULL", [.integer(time)])
    }

    /// Removes those that a daemon has left while the machine went on.
    package static func forget(_ t: Transaction) throws(VolumeError) {
        try t.run("DELETE FROM unfinished WHERE lost IS NULL", [])
    }

    /// Whether a daemon has left unfinished files.
    package static func areLeft(in reader: Reader) throws(VolumeError) -> Bool {
        try reader.first("SELECT 1 FROM unfinished WHERE lost IS NULL LIMIT 1", []) { _ in true }
            ?? false
    }

    /// The files that were unfinished when the machine stopped, by inode number.
    package static func lost(in reader: Reader) throws(VolumeError) -> [UInt64: UnfinishedFile] {
        let rows = try reader.all(
            "SELECT inode, lost, size, modified FROM unfinished WHERE lost IS NOT NULL", []
        ) { columns in
            let synced =
                columns.isNull(2) || columns.isNull(3)
                ? nil : SyncedContents(size: columns.integer(2), modified: columns.integer(3))
            return (columns.bits(0), UnfinishedFile(lost: columns.integer(1), synced: synced))
        }
        return Dictionary(rows) { $1 }
    }
}
