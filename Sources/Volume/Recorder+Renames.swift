import CLinux
import Journal
import Model

/// One rename, as it was noted.
struct Move {
    var from: Spot
    var to: Spot
    var trace: Trace
    var replaced: Trace?
    var stash: String?
    var actor: Actor
}

// Renaming is how most programs save: the name keeps its document, whatever inode it shows.
extension Recorder {
    /// False when one of the directories is not known yet.
    func renamed(_ move: Move, _ t: Transaction) throws -> Bool {
        guard let origin = try location(of: move.from.directory, t),
            let target = try location(of: move.to.directory, t)
        else { return false }
        switch (origin, target) {
        case (.directory(let from), .directory(let to)):
            try moved(move, from: from, to: to, t)
        case (_, .directory(let to)):
            leave(origin, move)
            try replacedBy(nil, move, to: to, t)
        case (.directory(let from), _):
            if let item = try t.item(parent: from, name: move.from.name) {
                try swallow(item, t)
            }
            arrive(target, move)
        default:
            leave(origin, move)
            arrive(target, move)
        }
        return true
    }

    private func moved(_ move: Move, from: Int64, to: Int64, _ t: Transaction) throws {
        let source = try t.item(parent: from, name: move.from.name)
        let hides = !move.trace.isDirectory && localNames().matches(move.to.name)
        if hides {
            // A document becomes a temporary file: its name is vacated, its bytes live on for now.
            if let source {
                need(move.trace.inode, for: source)
                bury(source, at: move)
                try vanish(source, t)
            }
            drop(move.stash)
            return
        }
        try replacedBy(source, move, to: to, t)
    }

    /// What stood at the target, if anything, gets the moved inode as its new contents; else the moved item moves.
    private func replacedBy(_ source: Item?, _ move: Move, to: Int64, _ t: Transaction) throws {
        var target = try t.item(parent: to, name: move.to.name)
        if let twin = target, twin.key != source?.key, source != nil,
            twin.inode == move.trace.inode, twin.latest == 0
        {
            // The scan saw the new name before this event was understood.
            works[twin.key] = nil
            try t.removeRow(twin.key)
            target = nil
        }
        if var target, target.key != source?.key, target.kind == .file, move.trace.isFile {
            try putAside(&target, move, t)
            try adopt(&target, from: source, move, t)
            return
        }
        if let target, target.key != source?.key { try vanish(target, t) }
        if target == nil, move.trace.isFile, source.map({ isYoung($0) }) ?? true,
            let tomb = takeTombstone(move.to, move.actor), tomb.item != source?.key,
            var item = try t.item(tomb.item), item.kind == .file
        {
            let save = source.flatMap { works[$0.key]?.save }
            try forget(source, t)
            try returnHome(&item, to: to, move.to.name, inode: move.trace.inode, t)
            note(save, move, on: item)
            return
        }
        guard var source else {
            let key = try insert(to, move.to.name, move.trace, t)
            if move.trace.isFile, let item = try t.item(key) {
                try noteSave(item, by: move.actor, t)
            } else if move.trace.isDirectory {
                rescan(key)
            }
            return
        }
        bury(source, at: move)
        let before = source.kind
        source.parent = to
        source.name = move.to.name
        if source.kind == .directory || source.kind == .package {
            source.kind = try kindNow(source, t)
        }
        try t.update(source)
        if source.kind != before { try convert(source, t) }
    }

    /// The bytes that a document had until now, wherever they went.
    private func putAside(_ target: inout Item, _ move: Move, _ t: Transaction) throws {
        let old = target.inode
        if let stash = move.stash {
            try bequeath(stash, inode: old, to: [target])
        } else if let replaced = move.replaced, replaced.size > 0 {
            need(old, for: target)
        }
    }

    private func adopt(_ target: inout Item, from source: Item?, _ move: Move, _ t: Transaction)
        throws
    {
        let save = source.flatMap { works[$0.key]?.save }
        if let source, source.latest > 0 { need(move.trace.inode, for: source) }
        try forget(source, t)
        target.inode = move.trace.inode
        target.changed = 0
        try t.update(target)
        note(save, move, on: target)
    }

    private func note(_ save: Work.Save?, _ move: Move, on item: Item) {
        touch(item.key) { work in
            work.save = save ?? Work.Save(actor: move.actor, time: cl_clock_realtime_ns())
            work.isWriting = false
        }
    }

    /// The item that a temporary file had while it was one. With versions of its own it stays, softly deleted.
    private func forget(_ source: Item?, _ t: Transaction) throws {
        guard let source else { return }
        if source.latest == 0, let work = works[source.key] {
            for entry in work.stashes { drop(entry.file) }
            works[source.key]?.stashes = []
        }
        try vanish(source, t)
    }

    private func isYoung(_ item: Item) -> Bool { item.latest == 0 }

    private func bury(_ item: Item, at move: Move) {
        guard item.kind == .file else { return }
        tombstones[move.from] = Tombstone(
            item: item.key, actor: move.actor, time: cl_clock_monotonic_ns())
    }

    func exchanged(
        _ a: Spot, _ traceA: Trace, _ b: Spot, _ traceB: Trace, by actor: Actor, _ t: Transaction
    ) throws -> Bool {
        guard let placeA = try location(of: a.directory, t),
            let placeB = try location(of: b.directory, t)
        else { return false }
        guard case .directory(let parentA) = placeA, case .directory(let parentB) = placeB,
            var itemA = try t.item(parent: parentA, name: a.name),
            var itemB = try t.item(parent: parentB, name: b.name)
        else {
            let there = Move(from: a, to: b, trace: traceA, stash: nil, actor: actor)
            let back = Move(from: b, to: a, trace: traceB, stash: nil, actor: actor)
            leave(placeA, there)
            leave(placeB, back)
            try settle(placeA, at: a, traceB, by: actor, t)
            try settle(placeB, at: b, traceA, by: actor, t)
            return true
        }
        if itemA.kind == itemB.kind, itemA.kind == .file || itemA.kind == .package {
            // A save by exchange: both names keep their documents, the contents change places.
            try exchangeContents(&itemA, traceB, by: actor, t)
            try exchangeContents(&itemB, traceA, by: actor, t)
            return true
        }
        // One of them is a directory: the items change places.
        var parked = itemA
        parked.name = Name("\u{1}exchange")
        try t.update(parked)
        (itemB.parent, itemB.name) = (parentA, a.name)
        try t.update(itemB)
        (itemA.parent, itemA.name) = (parentB, b.name)
        try t.update(itemA)
        return true
    }

    private func exchangeContents(_ item: inout Item, _ trace: Trace, by actor: Actor, _ t: Transaction)
        throws
    {
        if item.kind == .file {
            need(item.inode, for: item)
            item.inode = trace.inode
            item.changed = 0
            try t.update(item)
            touch(item.key) { $0.save = .init(actor: actor, time: cl_clock_realtime_ns()) }
        } else {
            item.inode = trace.inode
            item.changed = 0
            try t.update(item)
            locations[trace.inode] = .package(item.key, [])
            packageCuts[item.key] = nil
            touchPackage(item.key, by: actor)
        }
    }

    private func settle(_ place: Location, at spot: Spot, _ trace: Trace, by actor: Actor, _ t: Transaction)
        throws
    {
        switch place {
        case .directory(let parent):
            let key = try insert(parent, spot.name, trace, t)
            if trace.isDirectory { rescan(key) }
            if trace.isFile, let item = try t.item(key) { try noteSave(item, by: actor, t) }
        case .package(let key, let path): enter(package: key, path + [spot.name], trace)
        case .ignored: break
        }
    }
}
