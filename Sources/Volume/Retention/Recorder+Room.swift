import CLinux
import ChunkStore
import Glibc
import Journal
import Logging
import Model
import SystemCalls

/// What was removed for want of space since the volume was mounted.
struct RemovedForSpace: Equatable {
    var versions = 0
    var contents = 0
    var bytes: Int64 = 0
    /// Bytes in the packs that the tree has too, so that nothing was lost.
    var duplicateBytes: Int64 = 0

    static func += (sum: inout RemovedForSpace, more: RemovedForSpace) {
        sum.versions += more.versions
        sum.contents += more.contents
        sum.bytes += more.bytes
        sum.duplicateBytes += more.duplicateBytes
    }

    var text: String {
        "The disk was short of space: \(versions) older versions and \(contents) replaced or "
            + "deleted contents (\(bytes >> 20) MiB) were removed since the volume was mounted, "
            + "oldest first."
    }
}

// Making room: when the disk is short of space, history is removed, oldest first, before a program
// is refused space. Versions that are current, in conflict, labelled or not yet at the hub stay.
extension Recorder {
    /// Returns false if there is enough space or nothing can be removed.
    func makeRoom() -> Bool {
        guard room.isDue, state.scan == nil else { return false }
        let search = room.begin()
        awaitingRoom = awaitingRoom.filter { state.pending[$0.key] != nil }
        let more = awaitingRoom.values.max() ?? 0
        guard room.shortage(for: more) > 0 else {
            room.end(search, .enough)
            return false
        }
        startLogAnew()
        // A pause that waits for space must not prevent making space.
        pauses.endPauseOfAll()
        // Contents that were replaced or deleted a moment ago may be removed, too: their events are
        // processed first.
        processEvents(now: true)
        isHeldBack = false
        let before = letGo
        var isComplete = true
        do {
            try room.ignoreRequests(beyond: freeableBytes)
            try letGo(until: { self.room.shortage(for: more) })
        } catch {
            isComplete = false
            tell("room", "Old versions cannot be removed to make room: \(error)")
        }
        let isFreed = letGo != before
        room.end(search, isFreed ? .freed : finding(isComplete: isComplete))
        guard isFreed else { return false }
        untell("room")
        report(letGo)
        // Work that waited for space goes on at once.
        pauses.endAll()
        for key in awaitingRoom.keys { state.pending[key]?.due = cl_clock_monotonic_ns() }
        awaitingRoom = [:]
        return true
    }

    /// What a search that removed nothing has found out. While events are not processed, nobody
    /// knows what they make removable.
    private func finding(isComplete: Bool) -> SpaceRequests.Finding {
        let areEventsProcessed = backlog.isEmpty && state.scan == nil && state.unresolved.isEmpty
        guard isComplete, areEventsProcessed else { return .unclear }
        return isHeldBack ? .held : .nothing
    }

    /// Removes versions first and then contents that are not recorded yet, until no space is
    /// missing. The disk is asked each time, because a removed file that a program has open still
    /// takes its space.
    private func letGo(until shortage: () -> Int64) throws(VolumeError) {
        if packsHoldWaste {
            packsHoldWaste = false
            letGo += try remove(VersionChoice())
        }
        if case let left = shortage(), left > 0 { letGo += try letDuplicatesGo(left) }
        // If all older versions together would not make enough room for waiting contents, those
        // contents are removed instead.
        let allOrNothing = room.shortage() == 0
        while case let left = shortage(), left > 0,
            try removeOldVersions(left, allOrNothing: allOrNothing)
        {}
        while case let left = shortage(), left > 0, backlog.isEmpty {
            // If no program waits, unrecorded contents are removed only if that is enough.
            if !room.isAwaited, try freeableBytes() < left { break }
            let before = letGo
            try removeContents(ofAtLeast: left)
            if letGo == before { break }
        }
    }

    /// Writes the journal's log into the database, once a second at most, while the disk has space
    /// for that. The log then begins again in space that is allocated already, so removals can be
    /// noted in the journal.
    private func startLogAnew() {
        let now = cl_clock_monotonic_ns()
        guard now >= nextLogStart else { return }
        nextLogStart = now + nanoseconds(1)
        // The log's file is not truncated, because other programs could take its space.
        _ = try? journal.restartLog()
        reserve.fillLog()
    }

    /// Removes contents that no version needs before the removal is noted, for a journal that has
    /// no space left. Code that looks for such a content later, also after a crash, finds that it
    /// does not exist.
    private func removeContentsUnlogged(_ bytes: Int64) throws(VolumeError) -> RemovedForSpace {
        let chosen = try journal.read { reader in
            var uses: [UInt64: Int] = [:]
            var needed: Set<UInt64> = []
            for (key, work) in self.state.pending.all {
                let isNeeded = try !self.endangered(reader.versions(of: key), reader).isEmpty
                for prior in work.priorContents {
                    uses[prior.inode, default: 0] += 1
                    if isNeeded { needed.insert(prior.inode) }
                }
            }
            // No other content is read through these.
            return try self.removableContents(reader).filter {
                uses[$0.entry.inode] == 1 && !needed.contains($0.entry.inode)
            }
        }
        var gone = RemovedForSpace()
        for (entry, size) in chosen.sorted(by: { $0.entry.sequence < $1.entry.sequence })
        where gone.bytes < bytes && size > 0 {
            stash.remove(entry.file)
            gone += RemovedForSpace(contents: 1, bytes: size)
        }
        return gone
    }

    private func report(_ letGo: RemovedForSpace) {
        guard letGo.versions + letGo.contents > 0 else { return }
        let text = letGo.text
        reports.change { $0.letGo = text }
        let now = cl_clock_monotonic_ns()
        guard now >= nextRoomReport else { return }
        nextRoomReport = now + nanoseconds(60)
        log.warning("\(text)")
    }

    // MARK: Versions in the packs

    /// A version that may be removed, and since when its document has not shown it.
    struct RemovableVersion {
        var item: Int64
        var version: Identifier
        var time: Int64
    }

    /// Versions by document, and the bytes in the packs that only they use.
    struct VersionChoice {
        var versions: [Int64: [Identifier]] = [:]
        var bytes: Int64 = 0
    }

    /// Removes the oldest versions until `bytes` are free. With `allOrNothing` it removes none
    /// unless that frees enough. Returns false if none may be removed. A pack that also holds other
    /// versions may have to stay; then the next call removes more.
    private func removeOldVersions(_ bytes: Int64, allOrNothing: Bool) throws(VolumeError) -> Bool {
        let choice = try chooseVersions(bytes) { reader in
            var found: [RemovableVersion] = []
            try reader.forEachItem { item in
                guard item.latest > 1 || item.deleted != nil else { return }
                try self.forEachVersion(of: item, reader) { version, reason in
                    if reason == nil { found.append(version) }
                }
            }
            return found
        }
        guard choice.bytes > 0, choice.bytes >= bytes || !allOrNothing else { return false }
        letGo += try remove(choice)
        return !choice.versions.isEmpty
    }

    /// Chooses the oldest versions until `bytes` are freed; all if `bytes` is nil.
    func chooseVersions(
        _ bytes: Int64?, among candidates: (Reader) throws -> [RemovableVersion]
    ) throws(VolumeError) -> VersionChoice {
        try journal.read { reader in
            var stored = try self.usedChunks(reader)
            var choice = VersionChoice()
            if bytes != nil, stored.isEmpty { return choice }
            for chunk in stored.values where chunk.uses == 0 { choice.bytes += chunk.bytes }
            for candidate in try candidates(reader).sorted(by: { $0.time < $1.time })
            where choice.bytes < bytes ?? .max {
                choice.bytes += try stored.release(candidate.version, reader)
                choice.versions[candidate.item, default: []].append(candidate.version)
            }
            return choice
        }
    }

    /// The chunks in the packs with their sizes and the number of versions that use them.
    func usedChunks(_ reader: Reader) throws -> [Digest: StoredChunk] {
        var stored: [Digest: StoredChunk] = [:]
        try reader.forEachChunk { stored[$0] = StoredChunk(bytes: Int64($1.storedLength)) }
        guard !stored.isEmpty else { return [:] }
        try reader.forEachManifest { _, _, bytes in
            for id in Manifest(encoded: bytes)?.chunkIDs ?? [] { stored[id]?.uses += 1 }
        }
        return stored
    }

    /// Removes versions, and all chunks in the packs that no version uses.
    func remove(_ choice: VersionChoice) throws(VolumeError) -> RemovedForSpace {
        var gone = RemovedForSpace()
        let packed = packs.bytes()
        // Several documents share a transaction, because each transaction waits for the disk.
        var keys = Array(choice.versions.keys)
        while !keys.isEmpty {
            gone.versions += try journal.write { t in
                try keys.suffix(256).reduce(0) {
                    try $0 + remove(choice.versions[$1] ?? [], of: $1, t)
                }
            }
            keys.removeLast(min(256, keys.count))
        }
        try sweep(isThorough: true)
        gone.bytes = Int64(packed) - min(Int64(packed), Int64(packs.bytes()))
        return gone
    }

    /// Calls `body` with each past version and the reason why it must stay, or nil if it may be
    /// removed. The current version of a document that is not deleted is left out.
    func forEachVersion(
        of item: Item, _ reader: Reader,
        _ body: (RemovableVersion, PurgeReport.Reason?) throws -> Void
    ) throws {
        let versions = try reader.versions(of: item.key)
        let check = try RemovalCheck(item, versions, reader)
        for (index, version) in versions.enumerated() {
            let isShown = version.kind == .current || version.id == item.current
            if isShown, item.deleted == nil { continue }
            let next = index + 1 < versions.count ? versions[index + 1].saved : item.deleted
            try body(
                RemovableVersion(
                    item: item.key, version: version.id, time: next ?? version.saved),
                reason(toKeep: version, of: item, check))
        }
    }

    private func reason(toKeep version: Version, of item: Item, _ check: RemovalCheck)
        -> PurgeReport.Reason?
    {
        let work = state.pending[item.key]
        switch check.obstacle(to: version) {
        // An unrecorded conflict may have been made from this version.
        case nil:
            let isAlone =
                work?.priorContents.allSatisfy { $0.base == nil && !$0.becomesConflict }
                ?? true
            return isAlone ? nil : .unrecorded
        case .current where item.deleted != nil && check.mayRemoveRow:
            return work == nil ? nil : .unrecorded
        case let obstacle?: return .obstacle(obstacle)
        }
    }

    /// Removes versions and returns how many; a deleted document without versions loses its row
    /// too.
    private func remove(_ ids: [Identifier], of key: Int64, _ t: Transaction) throws -> Int {
        guard let item = try t.item(key) else { return 0 }
        let versions = try t.versions(of: key)
        let check = try RemovalCheck(item, versions, t)
        let all = Set(ids)
        let going = versions.filter {
            all.contains($0.id) && reason(toKeep: $0, of: item, check) == nil
        }
        try remove(going, of: item, hasRest: state.pending[item.key] != nil, t)
        return going.count
    }

    /// Removes versions. The row of a deleted document without versions is removed too, unless some
    /// of its contents are not recorded yet (`hasRest`) or the hub has not been told of its
    /// deletion.
    func remove(_ versions: [Version], of item: Item, hasRest: Bool, _ t: Transaction)
        throws
    {
        for version in versions { try t.remove(version: version.id) }
        if item.deleted != nil, !hasRest, try t.versions(of: item.key).isEmpty,
            try !t.isParent(item), try RemovalCheck(item, [], t).mayRemoveRow
        {
            state.pending[item.key] = nil
            try t.removeRow(item.key)
        } else if let current = item.current, versions.contains(where: { $0.id == current }) {
            var item = item
            item.current = nil
            // Its present contents must be recorded again, also after a crash.
            if item.deleted == nil { item.changed = 0 }
            try t.update(item)
        }
    }

    // MARK: Contents in the stash

    private func removeContents(ofAtLeast bytes: Int64) throws(VolumeError) {
        do throws(VolumeError) {
            letGo += try removeContents(bytes).gone
        } catch {
            guard error.code == .full else { throw error }
            let gone = try removeContentsUnlogged(bytes)
            letGo += gone
            letGo += try removeContents(bytes - gone.bytes).gone
        }
    }

    /// Removes contents that are not recorded yet, oldest first, and the versions that need their
    /// bytes.
    ///
    /// - Parameters:
    ///   - chosen: Limits this to contents of these documents.
    ///   - wish: Limits this to contents that are meant.
    /// - Returns: What was removed, and how many contents had to stay.
    func removeContents(_ bytes: Int64, of chosen: Set<Int64>? = nil, _ wish: Purge = Purge())
        throws(VolumeError) -> (gone: RemovedForSpace, kept: Int)
    {
        var users: [Stash.Entry: [Int64]] = [:]
        for (key, work) in state.pending.all {
            for entry in work.priorContents.compactMap(\.entry) {
                users[entry, default: []].append(key)
            }
        }
        var gone = RemovedForSpace()
        var kept: Set<UInt64> = []
        var keptCount = 0
        try transact { t in
            for (entry, keys) in users.sorted(by: { $0.key.sequence < $1.key.sequence })
            where gone.bytes < bytes {
                guard wish.isMeant(entry.saved), chosen?.isSuperset(of: keys) ?? true else {
                    kept.insert(entry.inode)
                    continue
                }
                // An older content of the same file that stays may be read through this one.
                guard !kept.contains(entry.inode), let size = size(ofStashed: entry),
                    try keys.allSatisfy({ try mayRemove(entry, from: $0, t) })
                else {
                    kept.insert(entry.inode)
                    keptCount += 1
                    continue
                }
                gone += RemovedForSpace(contents: 1, bytes: size)
                guard !wish.isRehearsal else { continue }
                for key in keys { gone.versions += try drop(entry, from: key, t) }
            }
        }
        removeUnneededStashFiles()
        return (gone, keptCount)
    }

    /// The contents in the stash that may be removed, with their sizes.
    func removableContents(_ t: Reader) throws -> [(entry: Stash.Entry, size: Int64)] {
        var found: [Stash.Entry: Int64?] = [:]
        for (key, work) in state.pending.all {
            for entry in work.priorContents.compactMap(\.entry) {
                let size = found[entry] ?? size(ofStashed: entry)
                found.updateValue(try mayRemove(entry, from: key, t) ? size : nil, forKey: entry)
            }
        }
        return found.compactMap { entry, size in size.map { (entry, $0) } }
    }

    /// Returns nil while a program writes the file.
    private func size(ofStashed entry: Stash.Entry) -> Int64? {
        guard let file = try? stash.open(entry.file), let status = try? file.status() else {
            return 0
        }
        if entry.kind == .displaced, cl_probe_writers(file.raw) == -EAGAIN {
            isHeldBack = true
            return nil
        }
        return Int64(status.st_blocks) * 512
    }

    private func mayRemove(_ entry: Stash.Entry, from key: Int64, _ t: Reader) throws -> Bool {
        guard let work = state.pending[key] else { return true }
        guard let item = try t.item(key), item.kind == .file || item.kind == .package else {
            return false
        }
        // While a program writes the document, its last save exists only here.
        if work.isWriting, entry == work.priorContents.last(where: { $0.entry != nil })?.entry {
            isHeldBack = true
            return false
        }
        // Contents that become conflict versions stay. A document's prior contents may be removed
        // only while its present contents wait to be recorded; a package's, as long as it has any.
        guard item.deleted != nil || item.changed == 0 || item.kind == .package,
            item.deleted != nil
                || !work.priorContents.contains(where: \.becomesConflict)
        else { return false }
        let versions = try t.versions(of: key)
        let check = try RemovalCheck(item, versions, t)
        guard item.deleted == nil || check.mayRemoveRow else { return false }
        return try endangered(versions, t).allSatisfy { version in
            guard version.label == nil else { return false }
            return switch check.obstacle(to: version) {
            case nil, .current: true
            // The tree has newer contents, and those are what will be sent.
            case .notSent: item.deleted == nil
            default: false
            }
        }
    }

    /// The versions with bytes that are neither in the packs nor at the present hub.
    private func endangered(_ versions: [Version], _ t: Reader) throws -> [Version] {
        try versions.filter { version in
            guard version.durability != .hub, let bytes = try t.manifest(of: version.id),
                let manifest = Manifest(encoded: bytes)
            else { return false }
            return try manifest.chunkIDs.contains { try t.place(of: $0) == nil }
        }
    }

    /// Removes a content of a document, and returns the number of versions that are removed with
    /// it.
    private func drop(_ entry: Stash.Entry, from key: Int64, _ t: Transaction) throws -> Int {
        guard let item = try t.item(key) else { return 0 }
        let due = state.pending[key]?.due
        touch(key) { work in work.priorContents.removeAll { $0.entry == entry } }
        // A package still waits until nothing changes it.
        if item.kind == .package, let due { state.pending[key]?.due = due }
        // Versions that another hub had stay in the list: they may come back with that hub.
        let versions = try endangered(t.versions(of: key), t).filter { !$0.wasAtHub }
        let hasRest = state.pending[key]?.priorContents.isEmpty == false
        try remove(versions, of: item, hasRest: hasRest, t)
        return versions.count
    }

    // MARK: Recording

    /// Whether a document's contents in the stash can be copied to the packs. If not, it waits for
    /// room.
    func fits(_ work: PendingDocument, _ key: Int64) -> Bool {
        let bytes = work.priorContents.reduce(0) { sum, prior in
            sum + (prior.entry.flatMap { size(ofStashed: $0) } ?? 0)
        }
        guard bytes > Recorder.smallBytes, room.shortage(for: bytes) > 0 else {
            awaitingRoom[key] = nil
            return true
        }
        awaitingRoom[key] = bytes
        return false
    }

    /// A size that always fits.
    private static let smallBytes: Int64 = 1 << 20
}

/// A chunk in the packs.
struct StoredChunk {
    var bytes: Int64
    var uses = 0
}

extension [Digest: StoredChunk] {
    /// Removes a version's use of its chunks. Returns the bytes of those that no version uses any
    /// more.
    mutating func release(_ version: Identifier, _ reader: Reader) throws -> Int64 {
        var bytes: Int64 = 0
        let manifest = try reader.manifest(of: version)
        for id in manifest.flatMap(Manifest.init(encoded:))?.chunkIDs ?? [] {
            self[id]?.uses -= 1
            if let chunk = self[id], chunk.uses == 0 { bytes += chunk.bytes }
        }
        return bytes
    }
}
