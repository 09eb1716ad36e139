import CLinux
import Glibc
import Journal
import Model
import SystemCalls

/// Removes contents in the stash that are not recorded yet, for want of space or because a person
/// asks for it. Only the recorder's thread uses it.
final class StashRemoval {
    private let writer: JournalWriter
    private let stash: Stash
    private let versions: VersionRemoval
    /// Whether contents that take space were found that stay only while a program has them open.
    var isHeldBack = false

    init(writer: JournalWriter, stash: Stash, versions: VersionRemoval) {
        self.writer = writer
        self.stash = stash
        self.versions = versions
    }

    /// Removes contents that are not recorded yet, oldest first, and the versions that need their
    /// bytes.
    ///
    /// - Parameters:
    ///   - chosen: Limits this to contents of these documents.
    ///   - wish: Limits this to contents that are meant.
    /// - Returns: What was removed, and how many contents had to stay.
    func remove(_ bytes: Int64, of chosen: Set<Int64>? = nil, _ wish: Purge = Purge())
        throws(VolumeError) -> (gone: RemovedForSpace, kept: Int)
    {
        var users: [Stash.Entry: [Int64]] = [:]
        for (key, work) in writer.state.pending.all {
            for entry in work.priorContents.compactMap(\.entry) {
                users[entry, default: []].append(key)
            }
        }
        let oldestFirst = users.sorted { $0.key.sequence < $1.key.sequence }
        // Clones free nothing while another file has the same blocks. They are removed only if
        // nothing else is left.
        if chosen == nil, bytes < .max {
            let freeing = oldestFirst.filter { bytesFreed(by: $0.key) != 0 }
            let some = try remove(bytes, freeing, nil, wish)
            if some.gone.contents > 0 { return some }
        }
        return try remove(bytes, oldestFirst, chosen, wish)
    }

    private func remove(
        _ bytes: Int64, _ users: [(key: Stash.Entry, value: [Int64])], _ chosen: Set<Int64>?,
        _ wish: Purge
    ) throws(VolumeError) -> (gone: RemovedForSpace, kept: Int) {
        var gone = RemovedForSpace()
        var kept: Set<UInt64> = []
        var keptCount = 0
        try writer.transact { t in
            for (entry, keys) in users where gone.bytes < bytes {
                guard wish.isMeant(entry.saved), chosen?.isSuperset(of: keys) ?? true else {
                    kept.insert(entry.inode)
                    continue
                }
                // An older content of the same file that stays may be read through this one.
                guard !kept.contains(entry.inode), let size = bytesFreed(by: entry),
                    try keys.allSatisfy({ try mayRemove(entry, from: $0, t) })
                else {
                    kept.insert(entry.inode)
                    keptCount += 1
                    continue
                }
                gone += RemovedForSpace(contents: 1, bytes: size)
                guard !wish.isRehearsal else { continue }
                for key in keys { gone.versions += try drop([entry], from: key, t) }
            }
        }
        writer.removeUnneededStashFiles()
        return (gone, keptCount)
    }

    /// The contents in the stash that may be removed, with their sizes.
    func removable(_ t: Reader) throws -> [(entry: Stash.Entry, size: Int64)] {
        var found: [Stash.Entry: Int64?] = [:]
        for (key, work) in writer.state.pending.all {
            for entry in work.priorContents.compactMap(\.entry) {
                let size = found[entry] ?? bytesFreed(by: entry)
                found.updateValue(try mayRemove(entry, from: key, t) ? size : nil, forKey: entry)
            }
        }
        return found.compactMap { entry, size in size.map { (entry, $0) } }
    }

    /// How many bytes the contents take if they are copied.
    func size(ofStashed entry: Stash.Entry) -> Int64 {
        guard let file = try? stash.open(entry.file), let status = try? file.status() else {
            return 0
        }
        return Int64(status.st_blocks) * 512
    }

    /// How many bytes are free when the contents are removed; nil while a program writes the file,
    /// and if that cannot be found out. The contents stay then.
    func bytesFreed(by entry: Stash.Entry) -> Int64? {
        let file: Descriptor
        do throws(Errno) { file = try stash.open(entry.file) } catch {
            return error == .notFound ? 0 : nil
        }
        if entry.kind == .displaced, cl_probe_writers(file.raw) == -EAGAIN {
            isHeldBack = true
            return nil
        }
        if stash.mayClone {
            let own = cl_own_bytes(file.raw)
            return own < 0 ? nil : own
        }
        return (try? file.status()).map { Int64($0.st_blocks) * 512 }
    }

    private func mayRemove(_ entry: Stash.Entry, from key: Int64, _ t: Reader) throws -> Bool {
        guard let work = writer.state.pending[key] else { return true }
        // While a program writes the document's file, its last save exists only here. A file that
        // was removed or replaced is not the one that is written: it gives way also to the program
        // that writes the next one under its name.
        if work.isWriting, entry.kind != .displaced,
            entry == work.priorContents.last(where: { $0.entry != nil })?.entry
        {
            // A pre-image log in which nothing is saved yet would free nothing when it is closed,
            // and the program that waits may be the one that has it open, to append.
            if let size = bytesFreed(by: entry), size > 0 { isHeldBack = true }
            return false
        }
        return try mayRemoveContents(of: key, t)
    }

    /// Whether a document's contents that are not recorded may be removed, with the versions that
    /// need their bytes.
    ///
    /// - Parameter isOverwritten: A program is about to overwrite the present contents.
    private func mayRemoveContents(of key: Int64, isOverwritten: Bool = false, _ t: Reader) throws
        -> Bool
    {
        guard let item = try t.item(key), item.kind == .file || item.kind == .package else {
            return false
        }
        let work = writer.state.pending[key]
        // Contents that become conflict versions stay. A document's prior contents may be removed
        // only while its present contents wait to be recorded; a package's, as long as it has any.
        guard
            item.deleted != nil || item.changed == 0 || item.kind == .package || isOverwritten,
            item.deleted != nil
                || work?.priorContents.contains(where: \.becomesConflict) != true
        else { return false }
        let versions = try t.versions(of: key)
        let check = try RemovalCheck(item, versions, t)
        guard item.deleted == nil || check.mayRemoveRow else { return false }
        return try endangered(versions, t).allSatisfy { version in
            guard version.label == nil else { return false }
            return switch check.obstacle(to: version) {
            case nil, .current, .lastOfDeleted: true
            // The tree has newer contents, and those are what will be sent.
            case .notSent: item.deleted == nil
            default: false
            }
        }
    }

    /// Removes what a file holds that a program is about to overwrite without saving it: the
    /// versions that need its bytes, and the pre-image logs that are read through it. Returns nil
    /// if they must stay.
    ///
    /// - Parameters:
    ///   - log: The log in which the program has saved old blocks until now.
    ///   - bytes: The size of the old contents.
    func giveUp(contentsOf inode: UInt64, _ log: Stash.Entry?, bytes: Int64) throws(VolumeError)
        -> RemovedForSpace?
    {
        let state = writer.state
        // Contents of other documents are read from this file, or it is in the stash itself. A
        // package could be recorded while no program has the file open yet.
        guard state.scan == nil, state.unresolved.isEmpty, state.packaged[inode] == nil,
            state.pending.dependents[inode] == nil, state.pending.displaced[inode] == nil
        else { return nil }
        var gone: RemovedForSpace?
        try writer.transact { t in
            var keys = Set(try t.items(inode: inode).map(\.key))
            for (key, work) in state.pending.all
            where work.priorContents.contains(where: { $0.inode == inode }) { keys.insert(key) }
            guard try keys.allSatisfy({ try mayRemoveContents(of: $0, isOverwritten: true, t) })
            else { return }
            var sum = RemovedForSpace(contents: 1, bytes: bytes)
            for key in keys {
                let logs = state.pending[key]?.logs(of: inode, readThrough: log) ?? []
                sum.versions += try drop(logs, from: key, t)
                // What the file holds until the program closes it is nobody's save.
                writer.state.pending.touch(key) { $0.isWriting = true }
            }
            gone = sum
        }
        writer.removeUnneededStashFiles()
        return gone
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

    /// Removes contents of a document, and returns the number of versions that are removed with
    /// them.
    private func drop(_ entries: [Stash.Entry], from key: Int64, _ t: Transaction) throws -> Int {
        guard let item = try t.item(key) else { return 0 }
        let due = writer.state.pending[key]?.due
        writer.state.pending.touch(key) { work in
            work.priorContents.removeAll { $0.entry.map(entries.contains) ?? false }
        }
        // A package still waits until nothing changes it.
        if item.kind == .package, let due { writer.state.pending[key]?.due = due }
        // Versions that another hub had stay in the list: they may come back with that hub.
        let versions = try endangered(t.versions(of: key), t).filter { !$0.wasAtHub }
        let hasRest = writer.state.pending[key]?.priorContents.isEmpty == false
        try self.versions.remove(versions, of: item, hasRest: hasRest, t)
        return versions.count
    }

    /// Removes contents that no version needs before the removal is noted, for a journal that has
    /// no space left. Code that looks for such a content later, also after a crash, finds that it
    /// does not exist.
    func removeUnlogged(_ bytes: Int64) throws(VolumeError) -> RemovedForSpace {
        let chosen = try writer.journal.read { reader in
            var uses: [UInt64: Int] = [:]
            var needed: Set<UInt64> = []
            for (key, work) in self.writer.state.pending.all {
                let isNeeded = try !self.endangered(reader.versions(of: key), reader).isEmpty
                for prior in work.priorContents {
                    uses[prior.inode, default: 0] += 1
                    if isNeeded { needed.insert(prior.inode) }
                }
            }
            // No other content is read through these.
            return try self.removable(reader).filter {
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
}
