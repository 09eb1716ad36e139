import CLinux
import ChunkStore
import Glibc
import Journal
import Logging
import Model

// A damaged journal does not cost a volume: what can be read of it is carried over into a new one,
// and the damaged file is kept beside it.
extension Volume {
    /// Opens the journal of a store; heals it first when it is damaged. What that cost is logged
    /// and comes back as a sentence.
    static func openJournal(
        _ store: Store, mayCreate: Bool, checked: Bool, log: Logger
    ) throws(VolumeError) -> (journal: Journal, problem: String?) {
        do throws(VolumeError) {
            return (
                try Journal.open(path: store.journalPath, mayCreate: mayCreate, checked: checked),
                nil
            )
        } catch {
            guard error.code == .damaged, mayCreate else { throw error }
            log.error("\(error)")
            return try heal(store, after: error, log)
        }
    }

    private static func heal(_ store: Store, after damage: VolumeError, _ log: Logger)
        throws(VolumeError) -> (journal: Journal, problem: String?)
    {
        let path = store.journalPath
        let fresh = path + ".fresh"
        // One that was begun and not finished, by a daemon that was killed over it.
        for ending in ["", "-wal", "-shm"] { _ = cl_unlinkat(AT_FDCWD, fresh + ending, 0) }
        let salvage: Salvage
        do throws(VolumeError) {
            salvage = try Journal.salvage(from: path, into: fresh) { digest, manifest in
                CutContent(manifest).digest == digest
            }
        } catch {
            // Nothing in it can be read: the person decides, nothing was changed.
            throw error.code == .damaged ? damage : error
        }
        let kept = "\(path).damaged-\(Timestamp(nanoseconds: cl_clock_realtime_ns()).fileName)"
        for ending in ["", "-wal"] where access(path + ending, F_OK) == 0 {
            guard Glibc.rename(path + ending, kept + ending) == 0 else {
                throw VolumeError(.system, "The damaged journal \(path) cannot be moved aside.")
            }
        }
        _ = cl_unlinkat(AT_FDCWD, path + "-shm", 0)
        guard Glibc.rename(fresh, path) == 0 else {
            throw VolumeError(.system, "The healed journal cannot be given its name \(path).")
        }
        for sentence in salvage.sentences { log.error("\(sentence)") }
        let journal = try Journal.open(path: path, mayCreate: false)
        if !salvage.isIndexComplete { try reindex(journal, store) }
        let told = salvage.sentences.joined(separator: " ")
        return (
            journal, "The journal was damaged and has been healed; the old one is \(kept). \(told)"
        )
    }

    /// Finds the places of chunks in the packs themselves.
    private static func reindex(_ journal: Journal, _ store: Store) throws(VolumeError) {
        let packs = try PackStore(directory: store.chunksPath)
        let bad = Set(packs.verify().compactMap(\.id))
        var places: [(Digest, ChunkPlace)] = []
        _ = packs.scan { id, location in
            if !bad.contains(id) { places.append((id, ChunkPlace(location))) }
        }
        try journal.write { t in
            for (id, place) in places where try t.place(of: id) == nil {
                try t.setPlace(id, place)
            }
        }
    }
}
