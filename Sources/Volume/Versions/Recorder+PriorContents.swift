import Journal
import Model

// Decides which documents get contents that were moved aside.
extension Recorder {
    /// Adds a content that was moved aside to the documents it belongs to: the one that had the
    /// name (unless the file was only a backup), those with a prior content in that inode, and the
    /// package it was in.
    func transferContent(_ stash: String?, inode: UInt64, to items: [Item], package: Int64? = nil)
        throws
    {
        guard let stash, let entry = Stash.parse(stash) else { return }
        state.pending.leave(entry)
        let isContent = writer.transferContent(entry)
        if entry.kind == .displaced { state.untrackedFiles[inode] = nil }
        for item in items
        where !isContent || item.latest > 0 || state.pending[item.key]?.save != nil {
            writer.attach(entry, to: item.key)
        }
        // After a crash it is unknown whether its replacement in the package is complete.
        if let package { writer.attach(entry, to: package, isRecovered: isReplaying) }
    }

    /// As `transferContent`, for a directory or file that is not known. Before the first scan, it
    /// may be in a package, or may have been put into the tree while the volume was not mounted and
    /// replaced before the scan. Its document is then looked for after the scan.
    func transferUnknownContent(_ stash: String?, inode: UInt64) throws {
        try transferContent(stash, inode: inode, to: [])
        guard isBeforeFirstLook, let entry = stash.flatMap(Stash.parse),
            !state.pending.needs(entry)
        else { return }
        state.unresolved.append(entry)
    }
}
