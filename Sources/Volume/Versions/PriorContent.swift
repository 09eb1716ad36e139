import Model

/// A prior content: one that a document had before its present contents in the tree.
struct PriorContent: Hashable {
    enum Place: Hashable {
        case stash(Stash.Entry)
        /// In a file that has another name in the tree: a backup made by renaming, or another hard
        /// link.
        case elsewhere(FileSnapshot)
    }

    var place: Place
    /// Who saved it; nil if it was recorded already, or the save was not seen.
    var save: PendingDocument.Save?
    /// A program saved it after it had been replaced. It becomes a conflict version.
    var isSuperseded = false
    /// What replaced it was made from an older content, `base`. It becomes a conflict version.
    var isUnseen = false
    /// The conflict version is merged only when a person asks for it (`ManualMergeVersions`).
    var mergesOnlyManually = false
    /// Its creator had not closed it when it was removed, as far as was known: the release tells
    /// whether it was a save. Not kept in the journal, because after a crash none comes.
    var isUnsaved = false
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

    /// The contents that an inode of the tree has when they are read, whatever they are then.
    static func present(in inode: UInt64) -> PriorContent {
        let snapshot = FileSnapshot(inode: inode, mode: 0o100644, size: -1, modified: 0, changed: 0)
        return PriorContent(place: .elsewhere(snapshot))
    }

    /// The same as a base for pre-image logs.
    static func base(_ inode: UInt64) -> PriorContent {
        var base = present(in: inode)
        base.isBase = true
        return base
    }

    var becomesConflict: Bool { isSuperseded || isLate || isUnseen }

    var entry: Stash.Entry? {
        guard case .stash(let entry) = place else { return nil }
        return entry
    }

    var inode: UInt64 {
        switch place {
        case .stash(let entry): entry.inode
        case .elsewhere(let snapshot): snapshot.inode
        }
    }
}
