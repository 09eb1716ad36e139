import Journal
import Model

/// A pending document: what the recorder still has to record of it.
struct Work {
    /// Its prior contents that are not recorded yet, oldest first.
    var formers: [Former] = []
    /// Who saved the contents that the tree holds, and when; nil if they are no new save.
    var save: Save?
    /// Who created the file, if no program has saved it under this name.
    var author: Save?
    /// Whether a program has it open for writing.
    var isWriting = false
    /// The change was found by the scan, so what the file held before was not moved aside.
    var isFound = false
    /// Grows with each change of this value, so that a recording notices changes made while it
    /// read.
    var revision: UInt64 = 0
    /// When the document became pending, and when to record it; monotonic nanoseconds. `since` is 0
    /// if a caller waits for the document.
    var since: Int64
    var due: Int64
    var attempts = 0

    struct Save: Hashable {
        var actor: Actor
        /// Nanoseconds since 1970.
        var time: Int64
    }

    init(now: Int64) { (since, due) = (now, now) }
}

/// A prior content: one that a document had before its present contents in the tree.
struct Former: Hashable {
    enum Place: Hashable {
        case stash(Stash.Entry)
        /// In a file that has another name in the tree: a backup made by renaming, or another hard
        /// link.
        case elsewhere(Trace)
    }

    var place: Place
    /// Who saved it; nil if it was recorded already, or the save was not seen.
    var save: Work.Save?
    /// A program saved it after it had been replaced. It becomes a conflict version.
    var isSuperseded = false
    /// What replaced it was made from an older content, `base`. It becomes a conflict version.
    var isUnseen = false
    /// The conflict version is merged only when a person asks for it (`ApartVersions`).
    var isApart = false
    /// Not a content of the document. Older pre-image logs store only overwritten blocks; the
    /// remaining bytes are read from this file.
    var isBase = false
    /// It was found in the stash when the volume was opened, and may have been recorded before.
    var isRecovered = false
    /// The version that it was made from, where that is known: the version that was current when
    /// recording was put off because a program had the file open, or that a version from the hub
    /// replaced; for an unseen content, the common base of both saves.
    var base: Identifier?
    /// Newer contents are recorded before it, because a version from the hub replaced it or a
    /// program still writes it. It becomes a conflict version.
    var isLate = false

    var isToBeConflict: Bool { isSuperseded || isLate || isUnseen }

    var entry: Stash.Entry? {
        guard case .stash(let entry) = place else { return nil }
        return entry
    }

    var inode: UInt64 {
        switch place {
        case .stash(let entry): entry.inode
        case .elsewhere(let trace): trace.inode
        }
    }
}

/// A tombstone: a name that a program took away from a document and may give back to it.
struct Tombstone {
    var item: Int64
    var actor: Actor
    /// Nanoseconds since 1970.
    var time: Int64
    /// The file that had the name, as it was then.
    var trace: Trace
}

/// The role of a directory of the tree.
enum Location: Hashable {
    /// An ordinary directory; its entries are items.
    case directory(Int64)
    /// A package, or a directory in one with its path from the package.
    case package(Int64, [Name])
    /// A directory that the ignore file names, or one below it; nothing in it is an item.
    case ignored(Int64, [Name])
    /// A directory that was removed before the recorder processed the event.
    case unknown
}

/// The recorder's state between transactions. If a transaction fails, the state reverts to what it
/// was before.
struct Memory {
    var locations = RevertibleDictionary<UInt64, Location>()
    /// Files in packages by inode.
    var packaged = RevertibleDictionary<UInt64, Int64>()
    var works = Works()
    var tombstones = RevertibleDictionary<Spot, Tombstone>()
    /// The entry of a file that holds prior contents of documents but is not an item itself.
    var strays = RevertibleDictionary<UInt64, Spot>()
    /// How many rows of prior contents the journal has, by document.
    var written = RevertibleDictionary<Int64, Int>()
    /// In a copied store, where inode numbers have changed: the document of each inode number that
    /// the stash or the log still refers to.
    var copies = RevertibleDictionary<UInt64, Int64>()
    /// Where the files of an item are that has ceased to be a package.
    var remains = RevertibleDictionary<Int64, Location>()
    /// The store is a copy of the one that the journal was written for.
    var isCopy = false
    /// Stash files to remove once the transaction is committed.
    var doomed: [String] = []
    var scan: Scan?
    /// Directories to scan again once all events are processed.
    var unsure: [Int64] = []
    /// Stash files from before the volume was opened whose document is not known yet.
    var unresolved: [Stash.Entry] = []
    /// Items that the last whole scan did not find.
    var missing: [Int64] = []
    /// Adopted arrivals, which are not expected any more once the transaction is committed.
    var adopted: [Mark] = []
    /// Adopted files that still have their arrival tag, which is removed after the commit.
    var marked: [MarkedFile] = []
    /// Messages about versions to send once the transaction is committed.
    var versionNews: [VersionNews] = []

    typealias VersionNews = (VersionChange, [Identifier], [Name])
    private var before: (Bool, [String], Scan?, [Int64], [Stash.Entry], [Int64], [VersionNews])?

    /// Called when a transaction begins.
    mutating func mark() {
        locations.mark()
        packaged.mark()
        works.mark()
        tombstones.mark()
        strays.mark()
        written.mark()
        copies.mark()
        remains.mark()
        before = (isCopy, doomed, scan, unsure, unresolved, missing, versionNews)
    }

    /// Called when the transaction was committed.
    mutating func removeMark() {
        locations.removeMark()
        packaged.removeMark()
        works.removeMark()
        tombstones.removeMark()
        strays.removeMark()
        written.removeMark()
        copies.removeMark()
        remains.removeMark()
        before = nil
    }

    /// Called when the transaction failed.
    mutating func revert() {
        locations.revert()
        packaged.revert()
        works.revert()
        tombstones.revert()
        strays.revert()
        written.revert()
        copies.revert()
        remains.revert()
        // These two are empty between transactions.
        (adopted, marked) = ([], [])
        guard let before else { return }
        (isCopy, doomed, scan, unsure, unresolved, missing, versionNews) = before
        self.before = nil
    }
}
