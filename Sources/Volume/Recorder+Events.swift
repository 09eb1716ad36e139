import CLinux
import Journal
import Model
import SystemCalls

// What each event means for the documents: which one a name, an inode or a moved-aside content belongs to.
extension Recorder {
    /// In one transaction. What cannot be committed (a full disk) is found again by the next scan.
    func apply(_ taken: [TreeEvent]) {
        guard !taken.isEmpty else { return }
        do {
            try journal.write { transaction in
                for event in taken { try apply(event, transaction) }
            }
            untell("journal")
        } catch {
            tell("journal", "Changes could not be noted in the journal: \(error)")
            locations = [:]
            startScan()
        }
        let horizon = cl_clock_monotonic_ns() - nanoseconds(settings.tombstoneSeconds)
        if tombstones.count > 1_000 { tombstones = tombstones.filter { $0.value.time > horizon } }
    }

    private func apply(_ event: TreeEvent, _ t: Transaction) throws {
        switch event {
        case .created(let spot, let trace, let actor):
            try made(spot, trace, by: actor, event, t)
        case .linked(let spot, let trace, let actor):
            try made(spot, trace, by: actor, event, t)
            for item in try t.items(inode: trace.inode) where works[item.key]?.save != nil {
                // The other names of an inode that is being saved are saved with it.
                for other in try t.items(inode: trace.inode) { try noteSave(other, by: actor, t) }
                break
            }
        case .removed(let spot, let trace, let stash, let actor):
            try removed(spot, trace, stash: stash, by: actor, event, t)
        case .renamed(let from, let to, let trace, let replaced, let stash, let actor):
            let move = Move(
                from: from, to: to, trace: trace, replaced: replaced, stash: stash, actor: actor)
            if try !renamed(move, t) { deferred.append(event) }
        case .exchanged(let a, let traceA, let b, let traceB, let actor):
            if try !exchanged(a, traceA, b, traceB, by: actor, t) { deferred.append(event) }
        case .secured(let inode, let stash, let actor):
            try secured(inode, stash: stash, by: actor, t)
        case .saved(let inode, let actor):
            try saved(inode, by: actor, t)
        case .untouched(let inode):
            for item in try t.items(inode: inode) where works[item.key] != nil {
                works[item.key]?.isWriting = false
                works[item.key]?.due = 0
            }
        case .packaged(let inode):
            try reclassify(inode, t)
        }
    }

    /// What a directory is; nil when the journal does not know it yet (the scan will come by).
    func location(of inode: UInt64, _ t: Reader) throws -> Location? {
        if let known = locations[inode] { return known }
        for item in try t.items(inode: inode) {
            switch item.kind {
            case .directory: return remember(.directory(item.key), inode)
            case .package: return remember(.package(item.key, []), inode)
            default: continue
            }
        }
        return nil
    }

    private func remember(_ location: Location, _ inode: UInt64) -> Location {
        locations[inode] = location
        return location
    }

    private func made(
        _ spot: Spot, _ trace: Trace, by actor: Actor, _ event: TreeEvent, _ t: Transaction
    ) throws {
        switch try location(of: spot.directory, t) {
        case nil:
            deferred.append(event)
        case .ignored:
            if trace.isDirectory { locations[trace.inode] = .ignored }
        case .package(let key, let path):
            enter(package: key, path + [spot.name], trace)
        case .directory(let parent):
            if !trace.isDirectory, localNames().matches(spot.name) { return }
            if let tomb = takeTombstone(spot, actor), trace.isFile,
                var item = try t.item(tomb.item), item.kind == .file
            {
                try returnHome(&item, to: parent, spot.name, inode: trace.inode, t)
                return
            }
            try insert(parent, spot.name, trace, t)
        }
    }

    /// A document's name is there again, with another inode: it goes on as that document.
    func returnHome(
        _ item: inout Item, to parent: Int64, _ name: Name, inode: UInt64, _ t: Transaction
    ) throws {
        if item.deleted == nil, item.inode != inode {
            // Its old bytes live on under the name it was moved to: a document of its own from now on.
            let moved = item
            item.parent = parent
            item.name = name
            try give(&item, inode: inode, t)
            var backup = Item(
                parent: moved.parent, name: moved.name, kind: .file, inode: moved.inode)
            backup.size = moved.size
            _ = try t.insert(backup)
            need(moved.inode, for: item)
            return
        }
        item.parent = parent
        item.name = name
        item.deleted = nil
        try give(&item, inode: inode, t)
    }

    private func give(_ item: inout Item, inode: UInt64, _ t: Transaction) throws {
        item.inode = inode
        item.changed = 0
        try t.update(item)
    }

    /// The recorded contents of `item` may lie in an inode that belongs to another name now.
    func need(_ inode: UInt64, for item: Item) {
        guard item.current != nil || works[item.key] != nil else { return }
        heirs[inode] = item.key
        touch(item.key) { $0.sources.insert(inode) }
    }

    @discardableResult
    func insert(_ parent: Int64, _ name: Name, _ trace: Trace, _ t: Transaction) throws -> Int64 {
        if let old = try t.item(parent: parent, name: name) {
            // The scan was here before the event.
            if old.inode == trace.inode { return old.key }
            try vanish(old, t)
        }
        var item = Item(
            parent: parent, name: name, kind: kind(of: trace, name: name), inode: trace.inode)
        item.key = try t.insert(item)
        if item.kind == .directory {
            locations[trace.inode] =
                try isIgnored(item, t) ? .ignored : .directory(item.key)
        } else if item.kind == .package {
            locations[trace.inode] = .package(item.key, [])
            touchPackage(item.key)
        }
        return item.key
    }

    private func isIgnored(_ item: Item, _ t: Reader) throws -> Bool {
        guard let path = try t.path(of: item.key) else { return false }
        return localNames().matches(path: path, isDirectory: true)
    }

    func kind(of trace: Trace, name: Name) -> Item.Kind {
        if trace.isFile { return .file }
        if trace.isSymlink { return .symlink }
        guard trace.isDirectory else { return .special }
        return Volume.isPackage(name: name) ? .package : .directory
    }

    private func removed(
        _ spot: Spot, _ trace: Trace, stash: String?, by actor: Actor, _ event: TreeEvent,
        _ t: Transaction
    ) throws {
        guard let place = try location(of: spot.directory, t) else {
            deferred.append(event)
            return
        }
        if trace.isDirectory { locations[trace.inode] = nil }
        switch place {
        case .ignored:
            drop(stash)
        case .package(let key, _):
            packaged[trace.inode] = nil
            if let stash { attach(stash, to: [key]) }
            touchPackage(key)
        case .directory(let parent):
            let item = try t.item(parent: parent, name: spot.name)
            guard let item, item.inode == trace.inode || item.kind != .file else {
                try bequeath(stash, inode: trace.inode, to: [])
                return
            }
            if item.kind == .file {
                tombstones[spot] = Tombstone(
                    item: item.key, actor: actor, time: cl_clock_monotonic_ns())
            }
            if stash == nil, trace.size > 0 { need(trace.inode, for: item) }
            try bequeath(stash, inode: trace.inode, to: [item])
            try vanish(item, t)
        }
    }

    /// A content that was moved aside goes to the documents it was part of: the one that had the name, unless that was
    /// only a backup's, and the one whose history needs it.
    func bequeath(_ stash: String?, inode: UInt64, to items: [Item]) throws {
        var keys = items.filter { $0.latest > 0 || works[$0.key]?.save != nil || $0.changed == 0 }
            .map(\.key)
        if let heir = heirs.removeValue(forKey: inode) {
            if items.allSatisfy({ $0.latest == 0 }) { keys = [] }
            if !keys.contains(heir) { keys.append(heir) }
        }
        guard let stash else { return }
        if keys.isEmpty { drop(stash) } else { attach(stash, to: keys) }
        if let owner = keys.first, works[owner]?.isWriting == true {
            displaced[inode] = (owner, stash)
        }
    }

    /// An item without a name: kept, softly deleted, while it has versions or will have; else its row goes.
    func vanish(_ item: Item, _ t: Transaction) throws {
        let work = works[item.key]
        if item.latest == 0, work?.stashes.isEmpty ?? true, item.kind != .directory {
            works[item.key] = nil
            try t.removeRow(item.key)
            return
        }
        var item = item
        item.deleted = cl_clock_realtime_ns()
        item.inode = 0
        try t.update(item)
        if work != nil { touch(item.key) { $0.isWriting = false } }
    }

    private func secured(_ inode: UInt64, stash: String, by actor: Actor, _ t: Transaction) throws {
        var keys = try t.items(inode: inode).filter { $0.kind == .file }.map(\.key)
        for key in keys { touch(key) { $0.isWriting = true } }
        if let package = packaged[inode] { keys.append(package) }
        if let heir = heirs[inode], !keys.contains(heir) { keys.append(heir) }
        if !keys.isEmpty {
            attach(stash, to: keys)
        } else if scan != nil {
            deferred.append(.secured(inode: inode, stash: stash, by: actor))
        } else {
            drop(stash)
        }
    }

    private func saved(_ inode: UInt64, by actor: Actor, _ t: Transaction) throws {
        let items = try t.items(inode: inode).filter { $0.kind == .file }
        for item in items { try noteSave(item, by: actor, t) }
        if let package = packaged[inode] { touchPackage(package, by: actor) }
        guard items.isEmpty else { return }
        if let old = displaced.removeValue(forKey: inode) {
            touch(old.item) { $0.superseded.insert(old.stash) }
        } else if scan != nil, packaged[inode] == nil {
            deferred.append(.saved(inode: inode, by: actor))
        }
    }

    func noteSave(_ item: Item, by actor: Actor, _ t: Transaction) throws {
        touch(item.key) { work in
            work.save = Work.Save(actor: actor, time: cl_clock_realtime_ns())
            work.isWriting = false
        }
        guard item.changed != 0 else { return }
        var item = item
        item.changed = 0
        try t.update(item)
    }

    /// Makes or changes the work of a document, and looks at it again soon.
    func touch(_ key: Int64, _ change: (inout Work) -> Void = { _ in }) {
        let now = cl_clock_monotonic_ns()
        var work = works[key] ?? Work(since: now, due: now)
        change(&work)
        work.due = now + nanoseconds(settings.settleSeconds)
        work.attempts = 0
        works[key] = work
    }

    func attach(_ stash: String, to keys: [Int64]) {
        guard let entry = Stash.parse(stash) else { return }
        if keys.count > 1 { stashUsers[stash] = keys.count }
        for key in keys { touch(key) { $0.stashes.append(entry) } }
    }

    /// One document is done with a stash file, or nobody ever needed it.
    func drop(_ name: String?) {
        guard let name else { return }
        if let users = stashUsers[name], users > 1 {
            stashUsers[name] = users - 1
            return
        }
        stashUsers[name] = nil
        stash.remove(name)
    }

    /// The document that had this name a moment ago, if the same program took it away.
    func takeTombstone(_ spot: Spot, _ actor: Actor) -> Tombstone? {
        guard let tomb = tombstones[spot] else { return nil }
        tombstones[spot] = nil
        let age = cl_clock_monotonic_ns() - tomb.time
        guard tomb.actor.process == actor.process, tomb.actor.uid == actor.uid,
            age < nanoseconds(settings.tombstoneSeconds + settings.patienceSeconds)
        else { return nil }
        return tomb
    }
}
