import Journal
import Model

/// What the recorder still has to do for one document.
struct Work {
    /// Contents that it had before the one that the tree holds, oldest first.
    var formers: [Former] = []
    /// Who saved what the tree holds, and when; nil when that is not a new save.
    var save: Save?
    /// Who made the file, where nobody saved it under this name.
    var author: Save?
    /// Whether a program has it open for writing.
    var isWriting = false
    /// Found by comparing the tree with the journal: nobody kept what it was before.
    var isFound = false
    /// Counts the changes of this work, so that a recording notices those made while it read.
    var revision: UInt64 = 0
    /// Monotonic nanoseconds: when it came, and when to look at it next.
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

/// A content that a document had before what the tree shows under its name.
struct Former: Hashable {
    enum Place: Hashable {
        case stash(Stash.Entry)
        /// In a file that the tree has under another name (a backup made by renaming, another hard
        /// link).
        case elsewhere(Trace)
    }

    var place: Place
    /// Who saved it; nil when it had been recorded then, or nobody saw the save.
    var save: Work.Save?
    /// A program saved it after it had been replaced: a conflict version.
    var isSuperseded = false
    /// What replaced it was made from an older content, `base`: a conflict version.
    var isUnseen = false
    /// It is not merged by itself.
    var isApart = false
    /// No content of the document: an older one of its old blocks is read through it.
    var isBase = false
    /// Found in the stash when the volume was opened: perhaps it was recorded before.
    var isRecovered = false
    /// What was current before it, when it was left for later because a program still had it open;
    /// of one that was replaced unseen, what both were made from, if that was recorded.
    var base: Identifier?
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

/// A name that a program took away from a document, and may give back to it.
struct Tombstone {
    var item: Int64
    var actor: Actor
    /// Nanoseconds since 1970.
    var time: Int64
    /// The file that had the name, as it was then.
    var trace: Trace
}

/// What a directory of the tree is to the recorder.
enum Location: Hashable {
    /// An ordinary one: its entries are items.
    case directory(Int64)
    /// A package, or a directory in one: with its path from the package.
    case package(Int64, [Name])
    /// One that the ignore file names, or below that: nothing in it is an item.
    case ignored(Int64, [Name])
    /// One that was gone before the recorder came by.
    case unknown
}

/// What the recorder remembers between transactions. A transaction that fails gives back what it
/// was before.
struct Memory {
    var locations = RevertibleDictionary<UInt64, Location>()
    /// Files in packages by inode.
    var packaged = RevertibleDictionary<UInt64, Int64>()
    var works = Works()
    var tombstones = RevertibleDictionary<Spot, Tombstone>()
    /// Where an inode with heirs is, when no item says so.
    var strays = RevertibleDictionary<UInt64, Spot>()
    /// How many rows in the journal a document's former contents have.
    var written = RevertibleDictionary<Int64, Int>()
    /// In a copy of a store: whose file each inode was that something still refers to.
    var copies = RevertibleDictionary<UInt64, Int64>()
    /// Where the files of a former package are.
    var remains = RevertibleDictionary<Int64, Location>()
    /// The store is a copy of the one that the journal was written for.
    var isCopy = false
    /// Stash files that nobody needs once the transaction is committed.
    var doomed: [String] = []
    var scan: Scan?
    /// Directories to be looked at again once all events are understood.
    var unsure: [Int64] = []
    /// What the stash held when the volume was opened, of files that the journal did not know.
    var unresolved: [Stash.Entry] = []
    /// Items that the last whole scan did not find.
    var missing: [Int64] = []
    /// What has become items: not expected any more once the transaction is committed.
    var adopted: [Mark] = []
    /// What it has adopted and still has its mark, which is removed once it is committed.
    var marked: [MarkedFile] = []
    /// What is to be told of versions once the transaction is committed.
    var versionNews: [VersionNews] = []

    typealias VersionNews = (VersionChange, [Identifier], [Name])
    private var before: (Bool, [String], Scan?, [Int64], [Stash.Entry], [Int64], [VersionNews])?

    /// A transaction begins.
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

    /// It was committed.
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

    /// It failed.
    mutating func revert() {
        locations.revert()
        packaged.revert()
        works.revert()
        tombstones.revert()
        strays.revert()
        written.revert()
        copies.revert()
        remains.revert()
        // Empty between transactions.
        (adopted, marked) = ([], [])
        guard let before else { return }
        (isCopy, doomed, scan, unsure, unresolved, missing, versionNews) = before
        self.before = nil
    }
}
