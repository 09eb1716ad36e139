import CLinux
import ChunkStore
import Glibc
import Journal
import Logging
import Model

/// Repairs a damaged journal: what can be read of it is copied into a new one, and the damaged file
/// is kept beside it.
struct JournalRepair {
    let store: Store
    let log: Logger

    /// Opens the journal of the store, and repairs it first if it is damaged. What was lost by that
    /// is logged and returned as sentences.
    func open(mayCreate: Bool, checked: Bool) throws(VolumeError)
        -> (journal: Journal, problem: String?)
    {
        do throws(VolumeError) {
            return (
                try Journal.open(path: store.journalPath, mayCreate: mayCreate, checked: checked),
                nil
            )
        } catch {
            guard error.code == .damaged, mayCreate else { throw error }
            log.error("\(error)")
            return try heal(after: error)
        }
    }

    private func heal(after damage: VolumeError) throws(VolumeError)
        -> (journal: Journal, problem: String?)
    {
        let path = store.journalPath
        let fresh = path + ".fresh"
        // A daemon that was killed during a repair may have left an unfinished one.
        for ending in ["", "-wal", "-shm"] { _ = cl_unlinkat(AT_FDCWD, fresh + ending, 0) }
        let salvage: Salvage
        do throws(VolumeError) {
            salvage = try Journal.salvage(from: path, into: fresh) { digest, manifest in
                CutContent(manifest).digest == digest
            }
        } catch {
            // Nothing in it can be read. Nothing was changed; a person must decide.
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
            throw VolumeError(.system, "The repaired journal cannot be renamed to \(path).")
        }
        for sentence in salvage.sentences { log.error("\(sentence)") }
        let journal = try Journal.open(path: path, mayCreate: false)
        if !salvage.isIndexComplete { try reindex(journal) }
        let told = salvage.sentences.joined(separator: " ")
        return (
            journal,
            "The journal was damaged and has been repaired; the old one is \(kept). \(told)"
        )
    }

    /// Rebuilds the index of chunks from the packs.
    private func reindex(_ journal: Journal) throws(VolumeError) {
        let packs = try PackStore(directory: store.chunksPath)
        let bad = Set(packs.verify().compactMap(\.id))
        var places: [(Digest, ChunkLocation)] = []
        _ = packs.scan { id, location in
            if !bad.contains(id) { places.append((id, location)) }
        }
        try journal.write { t in
            for (id, place) in places where try t.place(of: id) == nil {
                try t.setPlace(id, place)
            }
        }
    }
}
