import Model

/// Files that were found to be no placeholders, each with its change time. Setting the mark of a
/// placeholder changes the time, and so does creating another file with the inode's number, so a
/// file with the same time still is no placeholder, and its attributes need not be read again.
struct WholeFiles: Sendable {
    /// File systems count the time in steps of up to a second. A file that was changed a shorter
    /// time ago can be changed again without a difference.
    private static let ageMin = Timestamp.span(seconds: 2)
    private static let countMax = 1 << 14
    private var changes: [UInt64: Int64] = [:]
    /// How often a file was removed. What was found before a removal is not inserted after it.
    private(set) var removals = 0

    func contains(_ inode: UInt64, changed: Int64) -> Bool { changes[inode] == changed }

    /// - Parameters:
    ///   - now: The time at which the file's attributes were read, or an earlier one.
    ///   - removals: The number of removals at that time.
    mutating func insert(_ inode: UInt64, changed: Int64, now: Int64, removals: Int) {
        guard changed > 0, changed <= now - WholeFiles.ageMin, removals == self.removals else {
            return
        }
        if changes.count >= WholeFiles.countMax { changes.removeAll(keepingCapacity: true) }
        changes[inode] = changed
    }

    /// The file is about to become a placeholder.
    mutating func remove(_ inode: UInt64) {
        changes[inode] = nil
        removals += 1
    }
}
