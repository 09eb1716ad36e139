import Glibc
import Journal
import Model

/// A tombstone: a name that a program took away from a document and may give back to it.
struct Tombstone {
    var item: Int64
    var actor: Actor
    /// Nanoseconds since 1970.
    var time: Int64
    /// The file that had the name, as it was then.
    var snapshot: FileSnapshot
}

/// The role of a directory of the tree.
enum Location: Hashable {
    /// An ordinary directory; its entries are items.
    case directory(Int64)
    /// A package, or a directory in one with its path from the package.
    case package(Int64, [Name])
    /// A directory that the ignore file names, or one below it; nothing new in it becomes an item.
    case ignored(Int64, [Name])
    /// A directory that was removed before the recorder processed the event.
    case unknown
}

/// A file or directory that was moved out of a package.
struct MovedPart {
    /// Its path from the package before it was moved; empty if it is the whole package.
    var path: [Name]
    /// Where it is now.
    var place: Location
}

/// The recorder's state between transactions. If a transaction fails, the state reverts to what it
/// was before.
struct RecorderState {
    var locations = RevertibleDictionary<UInt64, Location>()
    /// Files in packages by inode.
    var packaged = RevertibleDictionary<UInt64, Int64>()
    var pending: PendingTable
    var tombstones = RevertibleDictionary<DirectoryEntry, Tombstone>()
    /// The entry of a file that holds prior contents of documents but is not an item itself.
    var untrackedFiles = RevertibleDictionary<UInt64, DirectoryEntry>()
    /// How many rows of prior contents the journal has, by document.
    var written = RevertibleDictionary<Int64, Int>()
    /// What was moved out of each package since it was last recorded.
    var movedParts = RevertibleDictionary<Int64, [MovedPart]>()
    var unfinished: UnfinishedFiles
    /// The store is a copy of the one that the journal was written for.
    var isCopy = false
    /// Stash files to remove once the transaction is committed.
    var filesToRemove: [String] = []
    var scan: Scan?
    /// Directories to scan again once all events are processed.
    var directoriesToRescan: [Int64] = []
    /// Names to compare again once all events are processed.
    var namesToRescan: [Scan.Entry] = []
    /// Documents that a scan has made for a name whose event is not processed yet. What earlier
    /// events say of their inodes belongs to the documents that had these until then.
    var foundEarly: Set<Int64> = []
    /// Stash files from before the volume was opened whose document is not known yet.
    var unresolved: [Stash.Entry] = []
    /// Items that the last whole scan did not find.
    var missing: [Int64] = []
    /// Inodes whose attributes have changed, and that were not at their paths any more when that
    /// was processed. A later event says where they are.
    var unreadAttributes: Set<UInt64> = []
    /// Adopted arrivals, which are not expected any more once the transaction is committed.
    var adopted: [ArrivalTag] = []
    /// Adopted files that still have their arrival tag, which is removed after the commit.
    var marked: [TaggedFile] = []
    /// Messages about versions to send once the transaction is committed.
    var versionNews: [VersionNews] = []

    init(pending: PendingTable, unfinished: UnfinishedFiles) {
        (self.pending, self.unfinished) = (pending, unfinished)
    }

    typealias VersionNews = (VersionChange, [Identifier], [Name])
    private var before:
        (
            Bool, [String], Scan?, [Int64], [Scan.Entry], Set<Int64>, [Stash.Entry], [Int64],
            [VersionNews], Set<UInt64>
        )?

    /// Called when a transaction begins.
    mutating func mark() {
        locations.mark()
        packaged.mark()
        pending.mark()
        tombstones.mark()
        untrackedFiles.mark()
        written.mark()
        movedParts.mark()
        unfinished.mark()
        before = (
            isCopy, filesToRemove, scan, directoriesToRescan, namesToRescan, foundEarly, unresolved,
            missing, versionNews, unreadAttributes
        )
    }

    /// Called when the transaction was committed.
    mutating func removeMark() {
        locations.removeMark()
        packaged.removeMark()
        pending.removeMark()
        tombstones.removeMark()
        untrackedFiles.removeMark()
        written.removeMark()
        movedParts.removeMark()
        unfinished.removeMark()
        before = nil
    }

    /// Called when the transaction failed.
    mutating func revert() {
        locations.revert()
        packaged.revert()
        pending.revert()
        tombstones.revert()
        untrackedFiles.revert()
        written.revert()
        movedParts.revert()
        unfinished.revert()
        // These two are empty between transactions.
        (adopted, marked) = ([], [])
        guard let before else { return }
        (
            isCopy, filesToRemove, scan, directoriesToRescan, namesToRescan, foundEarly, unresolved,
            missing, versionNews, unreadAttributes
        ) = before
        self.before = nil
    }
}

/// The recorder's state for other threads.
struct RecorderReport: Sendable {
    /// Versions that were lost while the volume was not mounted. They are reported like
    /// problems, but the store is consistent.
    var losses: [String: String] = [:]
    var pending = 0
    /// The number of events that the recorder had taken from the queue. The documents that they
    /// changed are in `pending` until they are recorded.
    var eventsTaken: UInt64 = 0
    var isScanning = false
    var scannedItems = 0
    /// The number of documents that are missing from the tree and not treated as deleted.
    var missing = 0
    /// By subject, so that each is logged once.
    var problems: [String: RecorderProblem] = [:]
    /// Documents that wait to be recorded for long, by key; a few of them.
    var waiting: [Int64: WaitReason] = [:]
    /// A message about versions removed for want of space, which is intended and not a problem.
    var letGo: String?
}

/// A sentence for people.
struct RecorderProblem: Hashable, Sendable {
    /// The key of the document with whose path the sentence begins. The path is found when the
    /// sentence is shown, because the document may be moved.
    var document: Int64?
    var words: String

    func sentence(_ reader: Reader) throws(VolumeError) -> String {
        guard let document, let path = try reader.path(of: document) else { return words }
        return "\(path.shown) \(words)"
    }
}

/// The documents that a caller waits for.
enum RecorderFocus: Sendable {
    case path([Name])
    case item(Int64)
    /// All documents that were deleted from a directory.
    case deleted(from: [Name])
}

/// The device that records the versions.
struct RecordingDevice: Sendable {
    var id: Identifier
    var name: String
    /// What versions name as the person instead of the user of this machine; nil for the user.
    var account: String?

    func person(_ uid: UInt32) -> String { account ?? Self.userName(uid) }

    static func userName(_ uid: UInt32) -> String {
        getpwuid(uid).map { String(cString: $0.pointee.pw_name) } ?? "uid \(uid)"
    }
}
