import CLinux
import Glibc
import Journal
import Logging
import Model
import SystemCalls

/// A change from the hub that is in the tree now and is about to be noted in the writer.journal.
struct Adoption {
    var mark: ArrivalTag
    var arrival: Arrival
    var parent: Int64
    var name: Name
    /// Its attributes now; nil if it no longer has that name.
    var now: FileSnapshot?
    /// Its attributes when it was put into the tree.
    var snapshot: FileSnapshot
    var attributes: AttributeList?
    /// Its path if it still has its arrival tag, which is removed after the transaction.
    var marked: [Name]?

    var isMarkedFile: Bool { marked != nil && snapshot.isFile }
}

/// A file or directory that a transaction has adopted and that still has its arrival tag.
struct TaggedFile {
    var key: Int64
    var path: [Name]
    /// Its attributes as the transaction read them.
    var snapshot: FileSnapshot
}

/// Adoption: what a change from the hub has put into the tree gets the item and version that the
/// hub says it is. It is therefore no local change, and nothing is sent.
///
/// Only the recorder's thread uses it.
struct ArrivalAdopter {
    let writer: JournalWriter
    let index: DocumentIndex
    let roles: DirectoryRoles
    let tree: Int32
    let stash: Stash
    let incoming: Incoming
    let cuts: PackageCuts
    let reports: RecorderReports
    let log: Logger

    /// Handles a rename out of `incoming/`. Returns false if its purpose is unknown; it is then
    /// handled like any new file.
    func arrived(_ move: Move, _ t: Transaction) throws -> Bool {
        if move.from.directory == incoming.inode,
            let mark = Incoming.mark(ofReturning: move.from.name)
        {
            return try returned(mark, move, t)
        }
        guard move.from.directory == incoming.inode, let mark = Incoming.mark(of: move.from.name),
            let parent = try directory(move.to.directory, of: mark, t)
        else { return false }
        if let known = try t.item(id: mark.item), known.deleted == nil, known.parent == parent,
            known.name == move.to.name, known.inode == move.snapshot.inode
        {
            // The scan has seen this before the event.
            try index.transferContent(move.stash, inode: move.replaced?.inode ?? 0, to: [known])
            return true
        }
        guard
            let adoption = try adoption(of: mark, move.snapshot, named: move.to.name, in: parent, t)
        else { return false }
        return try adopt(adoption, displacing: move.replaced, to: move.stash, t)
    }

    /// The item of a directory in which something arrives. In an ignored directory, items from
    /// before the rule are synchronized.
    private func directory(_ inode: UInt64, of mark: ArrivalTag, _ t: Transaction) throws -> Int64?
    {
        switch try roles.location(of: inode, t) {
        case .directory(let key): key
        case .ignored(let key, let inner) where inner.isEmpty:
            try t.item(id: mark.item) == nil ? nil : key
        case .ignored, .package, .unknown: nil
        }
    }

    /// Handles an item that the scan found, if it has an arrival tag that was not adopted before.
    func arrived(
        _ snapshot: FileSnapshot, named name: Name, in parent: Int64, at file: Int32,
        _ t: Transaction
    )
        throws -> Bool
    {
        let absent = snapshot.isFile ? PlaceholderMark(of: file, size: snapshot.size) : nil
        if absent?.isUnknown == true { return false }
        let found =
            absent.map { ArrivalTag(item: $0.item, version: $0.version) } ?? ArrivalTag(of: file)
        guard let mark = found else { return false }
        if let known = try t.item(id: mark.item), known.deleted == nil, mark.version != .none,
            known.parent == parent, known.name == name,
            try t.item(
                ofVersion: PlaceholderMark(item: mark.item, version: mark.version)
                    .version(inode: snapshot.inode, t)) == known.key
        {
            // It was adopted before, and later changes show in its contents. It still has its tag
            // if the daemon was killed between the transaction and the removal of the tag.
            if absent == nil { ArrivalTag.remove(from: file) }
            return false
        }
        if let target = try t.item(parent: parent, name: name), target.id != mark.item,
            target.inode == snapshot.inode, target.latest > 0
        {
            // The inode is known as that of the target, to whose name it was moved while the volume
            // was not mounted.
            return false
        }
        guard let adoption = try adoption(of: mark, snapshot, named: name, in: parent, t) else {
            return false
        }
        if let old = try t.item(parent: parent, name: name), old.kind == .file, old.inode != 0,
            old.inode != snapshot.inode
        {
            let isDone = try adopt(adoption, displacing: FileSnapshot(old), to: nil, t)
            if isDone { writer.state.pending[old.key]?.isFound = true }
            return isDone
        }
        return try adopt(adoption, displacing: nil, to: nil, t)
    }

    private func adoption(
        of mark: ArrivalTag, _ snapshot: FileSnapshot, named name: Name, in parent: Int64,
        _ t: Transaction
    ) throws -> Adoption? {
        var (now, attributes): (FileSnapshot?, AttributeList?)
        var isAbsent = false
        var marked: [Name]?
        let path = try t.path(of: parent).map { $0 + [name] }
        if let path, let file = try? openBeneath(path, from: tree, flags: O_PATH),
            FileSnapshot(of: file.raw).inode == snapshot.inode
        {
            if snapshot.isFile {
                isAbsent = PlaceholderMark(of: file.raw, size: snapshot.size) != nil
            }
            if !snapshot.isSymlink {
                if ArrivalTag(of: file.raw) != nil { marked = path }
                attributes = AttributeList(of: file.raw)
            }
            now = FileSnapshot(of: file.raw)
        }
        let unknown = Arrival(item: mark.item, kind: .file, isDataless: true)
        let found = incoming.find(mark) {
            isAbsent ? nil : path.flatMap { try? PackageBuilder.cutAside($0, in: tree).manifest }
        }
        guard let arrival = found ?? (isAbsent ? unknown : nil) else { return nil }
        let isAlike =
            switch arrival.kind {
            case .file: snapshot.isFile
            case .directory, .package: snapshot.isDirectory
            case .symlink: snapshot.isSymlink
            case .special: false
            }
        guard isAlike else { return nil }
        return Adoption(
            mark: mark, arrival: arrival, parent: parent, name: name, now: now, snapshot: snapshot,
            attributes: attributes, marked: marked)
    }

    /// Returns false if the item exists elsewhere; this is a new item then.
    private func adopt(
        _ adoption: Adoption, displacing replaced: FileSnapshot?, to stash: String?,
        _ t: Transaction
    ) throws -> Bool {
        let known = try t.item(id: adoption.mark.item)
        let target = try t.item(parent: adoption.parent, name: adoption.name)
        if let known, known.deleted == nil, known.key != target?.key { return false }
        if let target, target.key != known?.key {
            if target.inode != adoption.snapshot.inode || target.latest > 0 {
                try index.transferContent(stash, inode: replaced?.inode ?? 0, to: [target])
            }
            // Otherwise the scan has seen this before the event.
            try index.removeItem(target, t)
        } else if let target, target.kind == .file {
            try supersede(target, replaced, stash)
        }
        var item =
            known
            ?? Item(
                id: adoption.mark.item, parent: adoption.parent, name: adoption.name,
                kind: adoption.arrival.kind)
        if known != nil { writer.state.pending.follow(item.key, inode: item.inode) }
        // A deleted document that comes back may have contents that are not recorded yet.
        if item.deleted != nil, item.kind == .file { try supersede(item, nil, nil) }
        show(adoption, on: &item)
        if known == nil { item.key = try t.insert(item) }
        let before = item.current
        try show(adoption.arrival, on: &item, t)
        try t.update(item)
        if item.kind == .directory {
            try roles.noteProtection(of: item, since: writer.eventTime, t)
        }
        settle(item, adoption)
        try end(adoption.arrival.settles, of: item, before: before, t)
        try incoming.tell(adoption.mark, item.key, t)
        writer.state.adopted.append(adoption.mark)
        if let path = adoption.marked {
            let snapshot = adoption.now ?? adoption.snapshot
            writer.state.marked.append(TaggedFile(key: item.key, path: path, snapshot: snapshot))
        }
        return true
    }

    /// The document's present contents become prior contents. Those that are not recorded were
    /// based on the version that was current until now, and become conflict versions.
    func supersede(_ item: Item, _ replaced: FileSnapshot?, _ stash: String?) throws {
        if let stash {
            try index.transferContent(stash, inode: replaced?.inode ?? item.inode, to: [item])
        } else if let replaced, replaced.size != 0, replaced.isFile {
            index.need(item, replaced)
        }
        guard writer.state.pending[item.key] != nil else { return }
        writer.state.pending.touch(item.key) { $0.supersede(version: item.current) }
    }

    private func show(_ adoption: Adoption, on item: inout Item) {
        let snapshot = adoption.now ?? adoption.snapshot
        item.parent = adoption.parent
        item.name = adoption.name
        item.deleted = nil
        item.inode = adoption.snapshot.inode
        item.size = UInt64(max(0, snapshot.size))
        item.modified = snapshot.modified
        if !snapshot.isSymlink { item.mode = snapshot.permissions }
        // Attributes that the file system did not accept stay noted as lacking, and are tried
        // again.
        if let attributes = adoption.attributes {
            item.attributes = attributes.lacking(of: adoption.arrival.attributes).encoded
        }
        // If a program has changed the file since, that is a save of its own.
        let isSame =
            snapshot.size == adoption.snapshot.size
            && snapshot.modified == adoption.snapshot.modified
        // Removing the tag changes a file's change time; `removeMarks` notes the new one.
        // A placeholder of a version that nobody expects hides the version that the document has.
        let isExpected =
            item.kind != .file || adoption.arrival.version != nil || item.current == nil
        let isSettled =
            adoption.now != nil && isSame && isExpected && !adoption.isMarkedFile
        item.changed = isSettled ? max(1, snapshot.changed) : 0
    }

    /// Makes the arrival's version the current one of an item that has a row.
    func show(_ arrival: Arrival, on item: inout Item, _ t: Transaction) throws {
        guard item.kind == .file || item.kind == .package else { return }
        guard var version = arrival.version else { return }
        try t.free(version: version.id, for: item.key)
        // If the hub's state is known before its contents are here, the old version may be in
        // conflict already, and history would mean that somebody has settled that.
        if let old = item.current, old != version.id,
            try t.version(id: old)?.version.kind == .current
        {
            try t.setKind(old, .history)
        }
        // The owner and lists are those of the document here; the mode is the one that was sent.
        version.protection = try roles.protection(of: item, t)
        if Manifest(encoded: arrival.manifest)?.hasPartsOfOthers == true {
            version.protection = .unknown
        }
        if let known = try t.version(id: version.id)?.version {
            if let protection = version.protection {
                try t.setProtection(of: version.id, protection)
            }
            try t.setKind(version.id, .current)
            if known.durability < version.durability {
                try t.setDurability([version.id], to: version.durability)
            }
        } else {
            item.latest += 1
            version.number = item.latest
            version.kind = .current
            try t.insert(version, of: item.key, manifest: arrival.manifest)
        }
        item.current = version.id
        if item.kind == .file, arrival.isDataless, version.size > 0 {
            try t.setAbsent(item.key, version: version.id)
        } else {
            try t.removeAbsent(item.key)
            if version.durability == .hub { try t.addHolding(version.id) }
        }
    }

    /// Resolves those of the named versions that are still conflict versions.
    private func end(
        _ settled: [Identifier], of item: Item, before: Identifier?, _ t: Transaction
    ) throws {
        guard !settled.isEmpty else { return }
        let open = try t.versions(of: item.key).filter { $0.kind == .conflict }.map(\.id)
        let ended = settled.filter(open.contains)
        try t.settle(
            ended, of: item.key, before: before, after: item.current, at: cl_clock_realtime_ns())
        if let path = try t.path(of: item.key) {
            writer.state.versionNews.append((.resolved, ended, path))
        }
    }

    private func settle(_ item: Item, _ adoption: Adoption) {
        switch item.kind {
        case .directory:
            writer.state.locations[item.inode] = .directory(item.key)
        case .package:
            writer.state.locations[item.inode] = .package(item.key, [])
            cuts[item.key] = nil
            writer.rescan(item.key)
            index.touchPackage(item.key)
        case .file:
            if item.changed == 0, !adoption.isMarkedFile { writer.state.pending.touch(item.key) }
        case .symlink, .special: break
        }
        index.reloadIgnoreFile(item)
    }

    // MARK: After the transaction

    func forgetAdopted() {
        for mark in writer.state.adopted { incoming.forget(mark) }
        writer.state.adopted = []
    }

    /// Removes the arrival tags of what the last transaction has adopted, and notes the resulting
    /// change times. This is done after the commit: a daemon that is killed before it must find the
    /// tags again, or the arrivals would become new items.
    func removeMarks() {
        let marked = writer.state.marked
        guard !marked.isEmpty else { return }
        writer.state.marked = []
        do throws(VolumeError) {
            try writer.transact { t in
                for file in marked { try removeMark(of: file, t) }
            }
        } catch {
            // Their contents will be compared instead.
            for file in marked { touchFile(file) }
            log.warning("The change times of arrived files could not be noted: \(error)")
        }
    }

    private func removeMark(of marked: TaggedFile, _ t: Transaction) throws {
        guard let file = try? openBeneath(marked.path, from: tree, flags: O_PATH),
            FileSnapshot(of: file.raw).inode == marked.snapshot.inode
        else { return touchFile(marked) }
        ArrivalTag.remove(from: file.raw)
        guard marked.snapshot.isFile, var item = try t.item(marked.key), item.changed == 0,
            item.inode == marked.snapshot.inode
        else { return }
        let now = FileSnapshot(of: file.raw)
        guard now.size == marked.snapshot.size, now.modified == marked.snapshot.modified else {
            return touchFile(marked)
        }
        item.changed = max(1, now.changed)
        try t.update(item)
    }

    private func touchFile(_ marked: TaggedFile) {
        if marked.snapshot.isFile { writer.state.pending.touch(marked.key) }
    }

    // MARK: Packages

    /// Handles a package that was put aside because the hub has removed it. Its files stay known as
    /// the package's own until they are moved to the stash, one by one.
    func putAside(_ move: Move, _ t: Transaction) throws -> Bool {
        guard move.to.directory == incoming.inode, move.snapshot.isDirectory,
            case .directory(let parent) = try roles.location(of: move.from.directory, t),
            let item = try t.item(parent: parent, name: move.from.name), item.kind == .package
        else { return false }
        index.needPackage(item, at: .package(item.key, []))
        index.touchPackage(item.key, by: move.actor)
        try index.removeItem(item, t)
        return true
    }

    /// Handles a package that was put back because a program had written to it at the last moment.
    private func returned(_ mark: ArrivalTag, _ move: Move, _ t: Transaction) throws -> Bool {
        guard case .directory(let parent) = try roles.location(of: move.to.directory, t),
            var item = try t.item(id: mark.item), item.kind == .package, item.deleted != nil,
            try t.item(parent: parent, name: move.to.name) == nil
        else { return false }
        item.deleted = nil
        item.parent = parent
        item.name = move.to.name
        writer.state.movedParts[item.key] = nil
        try index.assignDirectory(move.snapshot.inode, toPackage: item, t)
        return true
    }

    /// Handles the exchange of a package with a prepared one. The files of the old one go to the
    /// stash, one by one, when they are removed from `incoming/`.
    func arrived(
        exchanging old: FileSnapshot, at spot: DirectoryEntry, with new: FileSnapshot,
        from name: Name, _ t: Transaction
    ) throws -> Bool {
        guard case .directory(let parent) = try roles.location(of: spot.directory, t),
            let item = try t.item(parent: parent, name: spot.name), item.kind == .package
        else { return false }
        if let mark = Incoming.mark(ofReturning: name) {
            return try takeBack(item, mark, new, t)
        }
        guard let mark = Incoming.mark(of: name), mark.item == item.id,
            let adoption = try adoption(of: mark, new, named: spot.name, in: parent, t)
        else { return false }
        // Its files stay known as the package's until they are removed.
        index.needPackage(item, at: .package(item.key, []))
        return try adopt(adoption, displacing: nil, to: nil, t)
    }

    /// Undoes an exchange: a program had changed the package at the last moment.
    private func takeBack(
        _ item: Item, _ mark: ArrivalTag, _ snapshot: FileSnapshot, _ t: Transaction
    ) throws
        -> Bool
    {
        var item = item
        if item.current == mark.version {
            let before = try t.versions(of: item.key).last {
                $0.id != mark.version && $0.kind == .history
            }
            item.current = before?.id
            try t.update(item)
            try t.remove(version: mark.version)
            if let before { try t.setKind(before.id, .current) }
        }
        try index.assignDirectory(snapshot.inode, toPackage: item, t)
        return true
    }
}

extension ArrivalAdopter {
    /// Moves the files of packages that were put aside when the last daemon was killed to the
    /// stash, as the applier would have done by removing them.
    func recover(_ displaced: [Name]) {
        for name in displaced {
            let found = Incoming.mark(of: name) ?? Incoming.mark(ofReturning: name)
            do {
                try writer.transact { t in
                    let key = try found.flatMap { try t.item(id: $0.item)?.key }
                    let root = try openBeneath(
                        [name], from: incoming.directory, flags: O_PATH | O_DIRECTORY)
                    if let key { try putAside(filesIn: root.raw, of: key) }
                }
                writer.removeUnneededStashFiles()
                incoming.remove(name)
            } catch {
                reports.tell(
                    "incoming",
                    "A replaced package in incoming/\(name) cannot be recorded: \(error).")
            }
        }
    }

    private func putAside(filesIn directory: Int32, of package: Int64) throws {
        var names: [Name] = []
        try forEachName(in: directory) { names.append($0) }
        for name in names {
            let snapshot = FileSnapshot(try entryStatus(name, in: directory))
            if snapshot.isDirectory {
                let inner = try openBeneath([name], from: directory, flags: O_PATH | O_DIRECTORY)
                try putAside(filesIn: inner.raw, of: package)
            } else if snapshot.isFile, snapshot.size > 0 {
                let aside = stash.newName(
                    .displaced, snapshot, spot: nil, actor: Actor(process: 0, uid: 0, program: ""))
                try name.withCString { (text) throws(Errno) in
                    _ = try check(cl_renameat2(directory, text, stash.directory, aside, 0))
                }
                try index.transferContent(aside, inode: snapshot.inode, to: [], package: package)
            }
        }
    }
}

extension Transaction {
    /// Frees the id of a version for an item if another one has it. A hub says to which item a
    /// version belongs, and the other item may have had another id at another hub.
    package func free(version id: Identifier, for key: Int64) throws(VolumeError) {
        guard let owner = try item(ofVersion: id), owner != key else { return }
        if try item(owner)?.deleted == nil { try renew(version: id) } else { try free(version: id) }
    }
}
