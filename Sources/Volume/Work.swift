import Model

/// What the recorder still has to do for one document.
struct Work {
    /// Contents older than what the tree holds, oldest first.
    var stashes: [Stash.Entry] = []
    /// Who saved what the tree holds, and when (nanoseconds since 1970); nil when that is not a new save.
    var save: Save?
    /// Whether a program has it open for writing.
    var isWriting = false
    /// Inodes elsewhere in the tree that hold what was its contents (a backup made by renaming, another hard link).
    var sources: Set<UInt64> = []
    /// Stash files whose bytes were written after they had been replaced.
    var superseded: Set<String> = []
    /// Found in the stash when the volume was opened: perhaps recorded already.
    var isRecovered = false
    /// Monotonic nanoseconds: when it came, and when to look at it next.
    var since: Int64
    var due: Int64
    var attempts = 0

    struct Save: Hashable {
        var actor: Actor
        var time: Int64
    }
}

/// A name that a program took away from a document, and may give back to it.
struct Tombstone {
    var item: Int64
    var actor: Actor
    /// Monotonic nanoseconds.
    var time: Int64
}

/// What a directory of the tree is to the recorder.
enum Location: Hashable {
    /// An ordinary one: its entries are items.
    case directory(Int64)
    /// A package, or a directory in one: with its path from the package.
    case package(Int64, [Name])
    /// The ignore file names it: nothing below it is an item.
    case ignored
}
