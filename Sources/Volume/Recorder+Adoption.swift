import CLinux
import Glibc
import Journal
import Model
import SystemCalls

/// Something that was made for the hub and is in the tree now.
struct Adoption {
    var mark: Mark
    var arrival: Arrival
    var parent: Int64
    var name: Name
    /// As the tree has it now; nil: not at that name any more.
    var now: Trace?
    /// As it was put there.
    var trace: Trace
    var attributes: AttributeList?
    /// Where it lies, if it still has its mark; the mark is removed after the transaction.
    var marked: [Name]?

    var isMarkedFile: Bool { marked != nil && trace.isFile }
}

/// A file or directory that a transaction has adopted and that still has its mark.
struct MarkedFile {
    var key: Int64
    var path: [Name]
    /// As the transaction saw it.
    var trace: Trace
}

// What the hub's changes have put into the tree becomes what the hub says it is: the same item, the
// same version. So nothing comes of it that would have to be sent.
extension Recorder {
    /// Something came out of `Incoming`. False: nobody knows what for, so it is as anything that
    /// comes into the volume.
    func arrived(_ move: Move, _ t: Transaction) throws -> Bool {
        if move.from.directory == incoming.inode,
            let mark = Incoming.mark(ofReturning: move.from.name)
        {
            return try returned(mark, move, t)
        }
        guard move.from.directory == incoming.inode, let mark = Incoming.mark(of: move.from.name),
            case .directory(let parent) = try location(of: move.to.directory, t)
        else { return false }
        if let known = try t.item(id: mark.item), known.deleted == nil, known.parent == parent,
            known.name == move.to.name, known.inode == move.trace.inode
        {
            // The scan was here before the event.
            try bequeath(move.stash, inode: move.replaced?.inode ?? 0, to: [known])
            return true
        }
        guard
            let adoption = try adoption(of: mark, move.trace, named: move.to.name, in: parent, t)
        else { return false }
        return try adopt(adoption, displacing: move.replaced, to: move.stash, t)
    }

    /// What the scan found, if it has a mark that is not history.
    func arrived(
        _ trace: Trace, named name: Name, in parent: Int64, at file: Int32, _ t: Transaction
    )
        throws -> Bool
    {
        let absent = trace.isFile ? AbsentMark(of: file, size: trace.size) : nil
        let found = absent.map { Mark(item: $0.item, version: $0.version) } ?? Mark(of: file)
        guard let mark = found else { return false }
        if let known = try t.item(id: mark.item), known.deleted == nil, mark.version != .none,
            known.parent == parent, known.name == name,
            try t.item(ofVersion: mark.version) == known.key
        {
            // Adopted before; what was done to it since is to be seen by its contents. It has its
            // mark when the daemon was killed between the transaction and the mark's removal.
            if absent == nil { Mark.remove(from: file) }
            return false
        }
        if let target = try t.item(parent: parent, name: name), target.id != mark.item,
            target.inode == trace.inode, target.latest > 0
        {
            // Known as this document's, to whose name it was moved while nobody watched.
            return false
        }
        guard let adoption = try adoption(of: mark, trace, named: name, in: parent, t) else {
            return false
        }
        if let old = try t.item(parent: parent, name: name), old.kind == .file, old.inode != 0,
            old.inode != trace.inode
        {
            let isDone = try adopt(adoption, displacing: Trace(old), to: nil, t)
            if isDone { memory.works[old.key]?.isFound = true }
            return isDone
        }
        return try adopt(adoption, displacing: nil, to: nil, t)
    }

    private func adoption(
        of mark: Mark, _ trace: Trace, named name: Name, in parent: Int64, _ t: Transaction
    ) throws -> Adoption? {
        var (now, attributes): (Trace?, AttributeList?)
        var isAbsent = false
        var marked: [Name]?
        if let path = try t.path(of: parent),
            let file = try? openBeneath(path + [name], from: tree, flags: O_PATH),
            status(file.raw).inode == trace.inode
        {
            if trace.isFile { isAbsent = AbsentMark(of: file.raw, size: trace.size) != nil }
            if !trace.isSymlink {
                if Mark(of: file.raw) != nil { marked = path + [name] }
                attributes = self.attributes(of: file.raw)
            }
            now = status(file.raw)
        }
        let unknown = Arrival(item: mark.item, kind: .file, isDataless: true)
        guard let arrival = incoming.find(mark) ?? (isAbsent ? unknown : nil) else { return nil }
        let isAlike =
            switch arrival.kind {
            case .file: trace.isFile
            case .directory, .package: trace.isDirectory
            case .symlink: trace.isSymlink
            case .special: false
            }
        guard isAlike else { return nil }
        return Adoption(
            mark: mark, arrival: arrival, parent: parent, name: name, now: now, trace: trace,
            attributes: attributes, marked: marked)
    }

    /// False: the item is alive somewhere else, so this is a new one.
    private func adopt(
        _ adoption: Adoption, displacing replaced: Trace?, to stash: String?, _ t: Transaction
    ) throws -> Bool {
        let known = try t.item(id: adoption.mark.item)
        let target = try t.item(parent: adoption.parent, name: adoption.name)
        if let known, known.deleted == nil, known.key != target?.key { return false }
        if let target, target.key != known?.key {
            if target.inode != adoption.trace.inode || target.latest > 0 {
                try bequeath(stash, inode: replaced?.inode ?? 0, to: [target])
            }
            // Else the scan was here before the event.
            try vanish(target, t)
        } else if let target, target.kind == .file {
            try supersede(target, replaced, stash)
        }
        var item =
            known
            ?? Item(
                id: adoption.mark.item, parent: adoption.parent, name: adoption.name,
                kind: adoption.arrival.kind)
        if known != nil { follow(item) }
        show(adoption, on: &item)
        if known == nil { item.key = try t.insert(item) }
        let before = item.current
        try show(adoption.arrival, on: &item, t)
        try t.update(item)
        settle(item, adoption)
        try end(adoption.arrival.settles, of: item, before: before, t)
        try incoming.tell(adoption.mark, item.key, t)
        memory.adopted.append(adoption.mark)
        if let path = adoption.marked {
            let trace = adoption.now ?? adoption.trace
            memory.marked.append(MarkedFile(key: item.key, path: path, trace: trace))
        }
        return true
    }

    /// What the document held until now is its past; what nobody has recorded of that was based on
    /// what was current then, and is a conflict.
    func supersede(_ item: Item, _ replaced: Trace?, _ stash: String?) throws {
        if let stash {
            try bequeath(stash, inode: replaced?.inode ?? item.inode, to: [item])
        } else if let replaced, replaced.size != 0, replaced.isFile {
            need(item, replaced)
        }
        guard memory.works[item.key] != nil else { return }
        touch(item.key) { work in
            for index in work.formers.indices
            where !work.formers[index].isBase && !work.formers[index].isLate {
                work.formers[index].base = item.current
                work.formers[index].isLate = true
            }
            work.save = nil
            work.isWriting = false
        }
    }

    private func show(_ adoption: Adoption, on item: inout Item) {
        let trace = adoption.now ?? adoption.trace
        item.parent = adoption.parent
        item.name = adoption.name
        item.deleted = nil
        item.inode = adoption.trace.inode
        item.size = UInt64(max(0, trace.size))
        item.modified = trace.modified
        if !trace.isSymlink { item.mode = trace.permissions }
        // What the file system did not take stays agreed on, and is tried again.
        if let attributes = adoption.attributes {
            item.attributes = attributes.lacking(of: adoption.arrival.attributes).encoded
        }
        // Where a program has changed it since, that is a save of its own.
        let isSame =
            trace.size == adoption.trace.size && trace.modified == adoption.trace.modified
        // The removal of its mark changes a file's change time: `removeMarks` notes the new one.
        let isSettled = adoption.now != nil && isSame && !adoption.isMarkedFile
        item.changed = isSettled ? max(1, trace.changed) : 0
    }

    /// Makes the arrival's version the current one of an item that has a row.
    func show(_ arrival: Arrival, on item: inout Item, _ t: Transaction) throws {
        guard item.kind == .file || item.kind == .package else { return }
        guard var version = arrival.version else { return }
        if let old = item.current, old != version.id, try t.version(id: old) != nil {
            try t.setKind(old, .history)
        }
        // It is of the document here; its mode is the one that it was sent with.
        version.protection = try protection(of: item, t)
        if let (owner, known) = try t.version(id: version.id) {
            guard owner == item.key else { return }
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

    /// Those that are conflict versions still.
    private func end(
        _ settled: [Identifier], of item: Item, before: Identifier?, _ t: Transaction
    ) throws {
        guard !settled.isEmpty else { return }
        let open = try t.versions(of: item.key).filter { $0.kind == .conflict }.map(\.id)
        let ended = settled.filter(open.contains)
        try t.settle(
            ended, of: item.key, before: before, after: item.current, at: cl_clock_realtime_ns())
        if let path = try t.path(of: item.key) { hear(.resolved, ended, path) }
    }

    private func settle(_ item: Item, _ adoption: Adoption) {
        switch item.kind {
        case .directory:
            memory.locations[item.inode] = .directory(item.key)
        case .package:
            memory.locations[item.inode] = .package(item.key, [])
            packageCuts[item.key] = nil
            rescan(item.key)
            touchPackage(item.key)
        case .file:
            if item.changed == 0, !adoption.isMarkedFile { touch(item.key) }
        case .symlink, .special: break
        }
        noticeIgnoreFile(item)
    }

    // MARK: After the transaction

    func forgetAdopted() {
        for mark in memory.adopted { incoming.forget(mark) }
        memory.adopted = []
    }

    /// Takes the marks from what the last transaction has adopted, and notes the change times of
    /// the files after it. Not in that transaction: a daemon that is killed before the commit must
    /// find the marks again, or what has arrived would become new items.
    func removeMarks() {
        let marked = memory.marked
        guard !marked.isEmpty else { return }
        memory.marked = []
        do throws(VolumeError) {
            try transact { t in
                for file in marked { try removeMark(of: file, t) }
            }
        } catch {
            // Their contents will say what they are.
            for file in marked { touchFile(file) }
            log.warning("the change times of what has arrived could not be noted: \(error)")
        }
    }

    private func removeMark(of marked: MarkedFile, _ t: Transaction) throws {
        guard let file = try? openBeneath(marked.path, from: tree, flags: O_PATH),
            status(file.raw).inode == marked.trace.inode
        else { return touchFile(marked) }
        Mark.remove(from: file.raw)
        guard marked.trace.isFile, var item = try t.item(marked.key), item.changed == 0,
            item.inode == marked.trace.inode
        else { return }
        let now = status(file.raw)
        guard now.size == marked.trace.size, now.modified == marked.trace.modified else {
            return touchFile(marked)
        }
        item.changed = max(1, now.changed)
        try t.update(item)
    }

    private func touchFile(_ marked: MarkedFile) {
        if marked.trace.isFile { touch(marked.key) }
    }

    // MARK: Packages

    /// A package that the hub has removed was put aside. Its files keep being known as its own
    /// until they are moved to the stash, one by one.
    func putAside(_ move: Move, _ t: Transaction) throws -> Bool {
        guard move.to.directory == incoming.inode, move.trace.isDirectory,
            case .directory(let parent) = try location(of: move.from.directory, t),
            let item = try t.item(parent: parent, name: move.from.name), item.kind == .package
        else { return false }
        needPackage(item, at: .package(item.key, []))
        touchPackage(item.key, by: move.actor)
        try vanish(item, t)
        return true
    }

    /// It was put back: a program had written to it at the last moment.
    private func returned(_ mark: Mark, _ move: Move, _ t: Transaction) throws -> Bool {
        guard case .directory(let parent) = try location(of: move.to.directory, t),
            var item = try t.item(id: mark.item), item.kind == .package, item.deleted != nil,
            try t.item(parent: parent, name: move.to.name) == nil
        else { return false }
        item.deleted = nil
        item.parent = parent
        item.name = move.to.name
        item.inode = move.trace.inode
        item.changed = 0
        try t.update(item)
        memory.remains[item.key] = nil
        memory.locations[item.inode] = .package(item.key, [])
        packageCuts[item.key] = nil
        touchPackage(item.key)
        rescan(item.key)
        return true
    }

    /// A package and what was prepared have changed places: what it was until now goes to the
    /// stash, file by file, when it is removed there.
    func arrived(
        exchanging old: Trace, at spot: Spot, with new: Trace, from name: Name, _ t: Transaction
    ) throws -> Bool {
        guard case .directory(let parent) = try location(of: spot.directory, t),
            let item = try t.item(parent: parent, name: spot.name), item.kind == .package
        else { return false }
        if let mark = Incoming.mark(ofReturning: name) {
            return try takeBack(item, mark, new, t)
        }
        guard let mark = Incoming.mark(of: name), mark.item == item.id,
            let adoption = try adoption(of: mark, new, named: spot.name, in: parent, t)
        else { return false }
        // Its files keep being known as the package's until they are removed.
        needPackage(item, at: .package(item.key, []))
        return try adopt(adoption, displacing: nil, to: nil, t)
    }

    /// A program had changed the package at the last moment, so it came back.
    private func takeBack(_ item: Item, _ mark: Mark, _ trace: Trace, _ t: Transaction) throws
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
        item.inode = trace.inode
        item.changed = 0
        try t.update(item)
        memory.locations[trace.inode] = .package(item.key, [])
        packageCuts[item.key] = nil
        touchPackage(item.key)
        rescan(item.key)
        return true
    }
}

extension Recorder {
    /// Packages that were put aside when the last daemon was killed: the applier would have removed
    /// them, and so put their files into the stash.
    func recoverIncoming() {
        for name in displaced {
            let found = Incoming.mark(of: name) ?? Incoming.mark(ofReturning: name)
            do {
                try transact { t in
                    let key = try found.flatMap { try t.item(id: $0.item)?.key }
                    let root = try openBeneath(
                        [name], from: incoming.directory, flags: O_PATH | O_DIRECTORY)
                    if let key { try putAside(filesIn: root.raw, of: key) }
                }
                removeDoomed()
                incoming.remove(name)
            } catch {
                tell(
                    "incoming", "A package that was replaced lies in incoming/\(name): \(error).")
            }
        }
    }

    private func putAside(filesIn directory: Int32, of package: Int64) throws {
        var names: [Name] = []
        try forEachName(in: directory) { names.append($0) }
        for name in names {
            let trace = Trace(try entryStatus(name, in: directory))
            if trace.isDirectory {
                let inner = try openBeneath([name], from: directory, flags: O_PATH | O_DIRECTORY)
                try putAside(filesIn: inner.raw, of: package)
            } else if trace.isFile, trace.size > 0 {
                let aside = stash.newName(
                    .displaced, trace, spot: nil, actor: Actor(process: 0, uid: 0, program: ""))
                try name.withCString { (text) throws(Errno) in
                    _ = try check(cl_renameat2(directory, text, stash.directory, aside, 0))
                }
                try bequeath(aside, inode: trace.inode, to: [], package: package)
            }
        }
    }
}
