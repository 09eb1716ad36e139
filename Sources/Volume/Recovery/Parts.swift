import CLinux
import ChunkStore
import Glibc
import Journal
import Model
import SystemCalls

/// Checks whether the working tree, the journal and the chunks of a store belong together.
///
/// Each part has a mark (`StoreStamp`): the tree as an extended attribute, the journal as a value,
/// the chunks as a file beside the packs. A part that is missing, of another store or older than
/// the journal is refused, because what it lacks would count as deleted or as garbage. With
/// `rebuilds` it is rebuilt from what the other parts prove. A store without marks, from an earlier
/// build, gets them.
struct Parts {
    let store: Store
    let journal: Journal
    let packs: PackStore
    /// The events that were written to the log and may not be in the journal yet.
    let logged: [NotedEvent]
    let isJournalNew: Bool
    let rebuilds: Bool
    private var state = State()
    private var sentences: [String] = []

    /// The parts as the journal knows them.
    struct State {
        var mark: StoreStamp?
        /// The marking was not finished because of a crash or a full disk, so parts may lack the
        /// mark.
        var isJoining = false
        /// Whether the tree could be marked. Not every file system has extended attributes.
        var isTreeMarked = false
        /// Packs up to this number may hold chunks that another journal needs, so they are not
        /// removed.
        var foreignPack: UInt32 = 0

        init() {}

        init(_ reader: Reader) throws {
            mark = try reader.value("parts").flatMap { StoreStamp($0) }
            isJoining = try reader.value("parts.joining") != nil
            isTreeMarked = try reader.value("parts.tree") != nil
            foreignPack = try reader.value(Parts.foreignPack).flatMap { UInt32($0) } ?? 0
        }
    }

    static let foreignPack = "packs.foreign"
    /// Set from the rebuilding of the tree until the hub has been asked for everything again.
    static let rebuiltTree = "parts.rebuilt"
    /// The extended attribute of the tree that holds its mark.
    static let attribute = "user.concord.store"

    init(
        store: Store, journal: Journal, packs: PackStore, logged: [NotedEvent], isJournalNew: Bool,
        rebuilds: Bool
    ) {
        self.store = store
        self.logged = logged
        self.journal = journal
        self.packs = packs
        self.isJournalNew = isJournalNew
        self.rebuilds = rebuilds
    }

    /// Refuses parts that do not belong together, or rebuilds them, and marks all parts.
    ///
    /// - Returns: Sentences for people: what was rebuilt, and what else they should know.
    /// - Throws: `.damaged` with a sentence that says what to put back; nothing was changed then.
    mutating func join() throws(VolumeError) -> [String] {
        state = try journal.read { try State($0) }
        let (tree, chunks) = (treeMark, packs.mark)
        let treeFault = faultOfTree(tree)
        if let treeFault, !rebuilds { throw refusal(treeFault) }
        try checkStash()
        try bringBackPacks()
        let isOlder = isJournalOlder(tree, chunks)
        if isOlder {
            sentences.append(
                "The journal of \(store.path) is older than the other parts: an old copy was put "
                    + "back. Later changes are taken from the working tree.")
        }
        if isJournalNew, chunks != nil || !packs.packs().isEmpty {
            sentences.append(
                "The journal of \(store.path) was missing and has been rebuilt from the "
                    + "working tree. Earlier versions are not listed; the packs that hold them "
                    + "are kept.")
        }
        let areChunksForeign = try checkChunks(chunks, isJournalOlder: isOlder)
        if isJournalNew || isOlder || areChunksForeign {
            // Chunks are never added to packs that another journal may need.
            try packs.endPack()
            state.foreignPack = max(state.foreignPack, packs.newestPack)
        }
        if treeFault != nil {
            var rebuilding = TreeRebuilding(tree: store.tree.raw, journal: journal, packs: packs)
            sentences += try rebuilding.run()
        }
        try PartMarks(tree: store.tree.raw, journal: journal, packs: packs)
            .advance(state, after: [state.mark, tree, chunks].compactMap { $0 })
        return sentences
    }

    /// Refuses a missing stash if it had contents that are not recorded yet.
    private mutating func checkStash() throws(VolumeError) {
        guard store.isStashNew else { return }
        let known = try EventProcessor.lastSequence(journal, [])
        let files = try journal.read { reader in
            Set(try reader.stashed().compactMap { PriorContent($0)?.entry?.file })
        }
        let needed = files.union(
            logged.filter { $0.sequence > known }.compactMap(\.event.stash))
        guard !needed.isEmpty else { return }
        let what = needed.count == 1 ? "1 file" : "\(needed.count) files"
        guard rebuilds else {
            store.removeNewStash()
            throw refusal(
                "\(store.path)/stash is missing. It has \(what) with former contents of documents "
                    + "that are not recorded yet. Put it back.")
        }
        sentences.append(
            "The stash of \(store.path) was missing: \(what) with former contents of documents "
                + "that were not recorded yet are lost.")
    }

    private func refusal(_ fault: String) -> VolumeError {
        VolumeError(
            .damaged,
            "\(fault) Nothing was changed. To continue without it, run: concord mount --rebuild.")
    }

    // MARK: The tree

    private var treeMark: StoreStamp? {
        var bytes = [UInt8](repeating: 0, count: 256)
        let count = cl_getxattr_fd(store.tree.raw, Parts.attribute, &bytes, bytes.count)
        return count > 0 ? StoreStamp(String(decoding: bytes[..<count], as: UTF8.self)) : nil
    }

    /// A sentence that says what is wrong with the tree; nil if it belongs to the journal.
    private func faultOfTree(_ tree: StoreStamp?) -> String? {
        let path = store.path + "/tree"
        if PlantedFault.makesMissingParts.isPlanted { return nil }
        if store.isTreeNew { return Store.lostTree(store.path) }
        guard let own = state.mark else { return nil }
        guard let tree else {
            return state.isTreeMarked
                ? "\(path) does not carry the mark of the store \(store.path). Put the store's own "
                    + "working tree back, with its extended attributes (cp -a, rsync -aX); is its "
                    + "disk mounted?" : nil
        }
        if tree.store != own.store {
            return "\(path) is the working tree of another store. Put the store's own back."
        }
        if tree.number < own.number - (state.isJoining ? 1 : 0) {
            return "\(path) is older than the journal beside it. Put back the journal and the "
                + "chunks of the same time, or the newer working tree."
        }
        return nil
    }

    // MARK: Journal and chunks

    /// Whether another part was in use later than the journal. A journal without a mark counts as
    /// older than any marked part.
    private func isJournalOlder(_ tree: StoreStamp?, _ chunks: StoreStamp?) -> Bool {
        guard !isJournalNew else { return false }
        guard let own = state.mark else { return chunks != nil || tree != nil }
        return [tree, chunks].contains { mark in
            mark.map { $0.store == own.store && $0.number > own.number } ?? false
        }
    }

    /// Takes packs out of quarantine that the journal, after an older copy was put back, needs
    /// again.
    private func bringBackPacks() throws(VolumeError) {
        let aside = try packs.quarantinedPacks()
        guard !aside.isEmpty else { return }
        var named: Set<UInt32> = []
        try journal.read { reader in
            try reader.forEachChunk { _, place in named.insert(place.pack) }
        }
        let here = Set(packs.packs().map(\.pack))
        for pack in aside.keys.sorted() where named.contains(pack) && !here.contains(pack) {
            try packs.restore(pack: pack)
        }
    }

    /// Checks the index of chunks against the packs if they are not those that the journal used
    /// last.
    ///
    /// - Returns: Whether the packs belong to another store.
    private mutating func checkChunks(_ chunks: StoreStamp?, isJournalOlder: Bool)
        throws(VolumeError) -> Bool
    {
        guard let own = state.mark else {
            if isJournalOlder { try index(mayLack: true) }
            return false
        }
        if chunks == nil, state.isJoining, own.number <= 1 { return false }
        let isForeign = chunks?.store != own.store
        let isBehind = (chunks?.number ?? 0) < own.number - (state.isJoining ? 1 : 0)
        if isForeign || isBehind || isJournalOlder { try index(mayLack: isJournalOlder) }
        return isForeign
    }

    /// Makes the index of chunks agree with the packs.
    ///
    /// - Parameter mayLack: Whether missing chunks are accepted, as for a journal that was put
    ///   back; they are an error otherwise. With it, all chunks of the packs are entered, because
    ///   chunks that an old journal had in the tree may lie in a pack by now.
    private mutating func index(mayLack: Bool) throws(VolumeError) {
        var found: [Digest: ChunkLocation] = [:]
        _ = packs.scan { id, location in found[id] = location }
        var wrong: Set<Digest> = []
        try journal.read { reader in
            try reader.forEachChunk { id, place in
                if found[id] != place { wrong.insert(id) }
            }
        }
        guard mayLack || !wrong.isEmpty else { return }
        let bad = Set(packs.verify().compactMap(\.id))
        // A chunk may have several records; the index may name any that is whole.
        var lost: Set<Digest> = []
        for id in wrong {
            guard let place = try journal.read({ try $0.place(of: id) }) else { continue }
            if (try? packs.read(id, at: place)) != nil {
                found[id] = place
            } else if found[id] == nil || bad.contains(id) {
                lost.insert(id)
            }
        }
        guard lost.isEmpty || mayLack || rebuilds else {
            throw refusal(
                "\(store.chunksPath) lacks \(lost.count) chunks that the journal knows. Put the "
                    + "store's own chunks back.")
        }
        if !lost.isEmpty {
            sentences.append(
                "\(lost.count) chunks were missing in \(store.chunksPath): versions that need them "
                    + "cannot be restored completely, unless the hub has them.")
        }
        let (places, missing) = (found.filter { !bad.contains($0.key) }, lost)
        try journal.write { t in
            try t.removeChunks(missing)
            for (id, location) in places { try t.setPlace(id, location) }
        }
    }
}

extension Store {
    static func lostTree(_ path: String) -> String {
        "The working tree \(path)/tree is missing. Put it back; is its disk mounted?"
    }

    /// Whether a new journal must be created. A missing journal beside a tree or chunks that had
    /// one is refused, because an empty journal would turn their history into garbage.
    func needsJournal(rebuilds: Bool) throws(VolumeError) -> Bool {
        if size(journalPath) > 0 { return false }
        // `JournalRepair` was killed between its two renames.
        if size(journalPath + ".fresh") > 0, Glibc.rename(journalPath + ".fresh", journalPath) == 0
        {
            return false
        }
        var value = [UInt8](repeating: 0, count: 256)
        let isMarked = cl_getxattr_fd(tree.raw, Parts.attribute, &value, value.count) > 0
        guard isMarked || access(chunksPath, F_OK) == 0 || size(journalPath + "-wal") > 0 else {
            return true
        }
        guard rebuilds || PlantedFault.makesMissingParts.isPlanted else {
            throw VolumeError(
                .damaged,
                "The journal \(journalPath) is missing, and with it the history of the documents. "
                    + "Put it back. Nothing was changed. To begin a new history with the "
                    + "documents as they are now, run: concord mount --rebuild.")
        }
        let kept = "\(journalPath).lost-\(Timestamp(nanoseconds: cl_clock_realtime_ns()).fileName)"
        for ending in ["", "-wal", "-shm"] where access(journalPath + ending, F_OK) == 0 {
            guard Glibc.rename(journalPath + ending, kept + ending) == 0 else {
                throw VolumeError(
                    .system, "The remains of the journal \(journalPath) cannot be moved aside.")
            }
        }
        return true
    }

    /// The size in bytes; 0 if there is no such file.
    private func size(_ path: String) -> Int64 {
        var status = stat()
        return cl_fstatat(AT_FDCWD, path, &status, 0) == 0 ? Int64(status.st_size) : 0
    }
}
