import CLinux
import Journal
import Model

/// One rename event.
struct Move {
    var from: DirectoryEntry
    var to: DirectoryEntry
    var snapshot: FileSnapshot
    var replaced: FileSnapshot?
    var stash: String?
    var unseen: NamedBase?
    var actor: Actor
}

// Renames are how most programs save: the name keeps its document, whatever inode it gets.
extension Recorder {
    func renamed(_ move: Move, _ t: Transaction) throws {
        if try arrived(move, t) || putAside(move, t) { return }
        let origin = try roles.location(of: move.from.directory, t)
        let target = try roles.location(of: move.to.directory, t)
        var source: Item?
        if case .directory(let from) = origin {
            source = try t.item(parent: from, name: move.from.name)
        } else {
            leave(origin, move, to: target)
        }
        if case .directory(let to) = target {
            try arrived(source, move, to: to, t)
        } else {
            if let source {
                addTombstone(source, at: move)
                try absorbIntoPackage(source, move.snapshot, into: target.inside(move.to.name), t)
            }
            try arrive(target, move, t)
        }
        try rememberUntrackedFile(move.snapshot, to: move.to, t)
    }

    /// Remembers where a file is that holds prior contents of documents, or is another hard link of
    /// one, if it has no item of its own.
    func rememberUntrackedFile(_ snapshot: FileSnapshot, to spot: DirectoryEntry, _ t: Reader)
        throws
    {
        guard snapshot.isFile else { return }
        // An item with this entry shows where the file is.
        if case .directory(let parent) = try roles.location(of: spot.directory, t),
            try t.item(parent: parent, name: spot.name)?.inode == snapshot.inode
        {
            return
        }
        let hasDependents = state.pending.dependents[snapshot.inode] != nil
        guard
            try hasDependents
                || state.untrackedFiles.count < 10_000 && t.hasItem(inode: snapshot.inode)
        else { return }
        state.untrackedFiles[snapshot.inode] = spot
    }

    private func arrived(_ source: Item?, _ move: Move, to: Int64, _ t: Transaction) throws {
        guard !move.snapshot.isDirectory, try roles.isLocal(move.to.name, in: to, t) else {
            try replacedBy(source, move, to: to, t)
            return
        }
        try transferContent(move.stash, inode: move.replaced?.inode ?? 0, to: [])
        // A document becomes a temporary file. Its name is free, and its bytes stay in that file
        // for now.
        guard let source else { return }
        if state.pending[source.key]?.save != nil || source.latest > 0 {
            need(source, move.snapshot)
        }
        addTombstone(source, at: move)
        try removeItem(source, t)
    }

    /// If a document has the target name, it gets the moved inode as its new contents. Otherwise
    /// the moved item gets the name.
    private func replacedBy(_ source: Item?, _ move: Move, to: Int64, _ t: Transaction) throws {
        var target = try t.item(parent: to, name: move.to.name)
        if let twin = target, let source, twin.key != source.key, twin.latest == 0,
            twin.inode == move.snapshot.inode
        {
            // The scan has seen the new name before this event was processed. What the name had
            // before becomes a prior content of the moved item.
            writer.transferContent(from: twin.key, to: source.key)
            try transferReplacedContent(source, move)
            try removeItem(twin, t)
            if twin.kind == .directory { state.directoriesToRescan.append(source.key) }
            target = nil
        }
        if let target, target.key != source?.key, target.kind == .file, move.snapshot.isFile {
            try adopt(target, from: source, move, t)
            return
        }
        if let target, target.key != source?.key {
            try transferContent(move.stash, inode: move.replaced?.inode ?? 0, to: [target])
            try removeItem(target, t)
        }
        if target == nil, try takesVacatedName(source, move, t) { return }
        guard let source else {
            let key = try insert(to, move.to.name, move.snapshot, t)
            if move.snapshot.isFile, let item = try t.item(key) {
                try noteSave(item, by: move.actor, t)
            } else if move.snapshot.isDirectory {
                rescan(key)
            }
            return
        }
        addTombstone(source, at: move)
        try noteMoved(source, to: to, move, t)
        try relocate(source, to: to, move.to.name, t)
        if source.kind == .directory, try t.item(source.key)?.kind == .package {
            // Its new name makes it a package, which counts as saved now.
            touchPackage(source.key, by: move.actor)
        }
    }

    private func relocate(_ source: Item, to parent: Int64, _ name: Name, _ t: Transaction) throws {
        guard try !contains(source.key, parent, t) else {
            // The scan has seen one of the two where a later event puts it. When that event is
            // processed, the whole tree is compared again.
            state.directoriesToRescan.append(Item.root)
            return
        }
        var moved = source
        moved.parent = parent
        moved.name = name
        if parent != source.parent { try owners.note(&moved, t) }
        if moved.kind == .directory || moved.kind == .package {
            moved.kind = try roles.kindNow(moved, t)
        }
        try t.update(moved)
        if moved.kind == .file { try refresh(moved, t) }
        if moved.kind != source.kind { try convert(moved, t) }
        guard moved.kind == .directory else { return }
        // Whether the ignore file names it may depend on its path.
        let isIgnored = try roles.isIgnored(moved, t)
        if state.locations[moved.inode] == nil, !isIgnored {
            state.locations[moved.inode] = .directory(moved.key)
        }
        if case .ignored? = state.locations[moved.inode] {
            if !isIgnored { rescan(moved.key) }
        } else if isIgnored {
            rescan(moved.key)
        }
    }

    /// Whether `key` is `other` or a directory that contains it.
    func contains(_ key: Int64, _ other: Int64, _ t: Reader) throws -> Bool {
        var next: Int64? = other
        // A path of at most 4,096 bytes has no more names. The bound also ends a cycle.
        for _ in 0..<2048 {
            guard let at = next, at != Item.root else { return false }
            if at == key { return true }
            next = try t.item(at)?.parent
        }
        return true
    }

    /// Handles a temporary file that takes the name of a document which the same program has just
    /// moved away. Returns false if it is something else.
    private func takesVacatedName(_ source: Item?, _ move: Move, _ t: Transaction) throws -> Bool {
        guard move.snapshot.isFile, source?.latest ?? 0 == 0,
            let tombstone = takeTombstone(move.to, move.actor), tombstone.item != source?.key,
            let item = try t.item(tombstone.item), item.kind == .file,
            case .directory(let to) = try roles.location(of: move.to.directory, t)
        else { return false }
        let save = source.flatMap { state.pending[$0.key]?.save }
        try retire(source, t)
        try continueDocument(
            item, to: to, move.to.name, move.snapshot, tombstone: tombstone,
            save: save ?? PendingDocument.Save(actor: move.actor, time: eventTime), t)
        return true
    }

    /// Adds what had the name until this rename to the document's prior contents.
    private func transferReplacedContent(_ item: Item, _ move: Move) throws {
        if let stash = move.stash {
            try transferContent(stash, inode: move.replaced?.inode ?? item.inode, to: [item])
        } else if let replaced = move.replaced, replaced.inode != move.snapshot.inode {
            // Another hard link has its bytes.
            need(item, replaced)
        }
    }

    private func adopt(_ target: Item, from source: Item?, _ move: Move, _ t: Transaction) throws {
        var target = target
        try transferReplacedContent(target, move)
        if let base = move.unseen { try replaceUnseen(target, madeFrom: base, t) }
        let save = source.flatMap { state.pending[$0.key]?.save }
        let isSaved = source.map { $0.latest > 0 || state.pending[$0.key]?.save != nil } ?? false
        if let source, source.latest > 0 || isSaved && move.to.name.isBackup(of: move.from.name) {
            need(source, move.snapshot)
            addTombstone(source, at: move)
        }
        try retire(source, t)
        try assignInode(
            &target, move.snapshot,
            save ?? PendingDocument.Save(actor: move.actor, time: eventTime), t)
    }

    /// Notes that the newest prior content of a document was not seen by the program that replaced
    /// it.
    func replaceUnseen(_ item: Item, madeFrom base: NamedBase, _ t: Reader) throws {
        let known = try t.versions(of: item.key).last { base.isThat(of: $0) }
        touch(item.key) { work in
            guard let last = work.priorContents.indices.last else { return }
            work.priorContents[last].isUnseen = true
            work.priorContents[last].mergesOnlyManually = base.mergesOnlyManually
            work.priorContents[last].base = known?.id
        }
    }

    /// Removes the item of a temporary file. If it has versions, it stays as a deleted document.
    private func retire(_ source: Item?, _ t: Transaction) throws {
        guard let source else { return }
        state.pending[source.key]?.save = nil
        try removeItem(source, t)
    }

    /// Adds a tombstone for the name that a document has lost, if the document was moved aside: to
    /// a temporary or a backup's name, or if it has several versions. A draft that moves to its
    /// final name leaves no tombstone, although the program may use the same name for its next
    /// draft.
    private func addTombstone(_ item: Item, at move: Move) {
        guard item.kind == .file,
            item.latest > 1 || move.to.name.isBackup(of: move.from.name)
                || ignoreFile.current.matches(move.to.name)
        else { return }
        state.tombstones[move.from] = Tombstone(
            item: item.key, actor: move.actor, time: eventTime, snapshot: move.snapshot)
    }

    func exchanged(
        _ a: DirectoryEntry, _ traceA: FileSnapshot, _ b: DirectoryEntry, _ traceB: FileSnapshot,
        by actor: Actor, _ t: Transaction
    ) throws {
        if a.directory == incoming.inode,
            try arrived(exchanging: traceB, at: b, with: traceA, from: a.name, t)
        {
            return
        }
        let placeA = try roles.location(of: a.directory, t)
        let placeB = try roles.location(of: b.directory, t)
        guard case .directory(let parentA) = placeA, case .directory(let parentB) = placeB,
            let itemA = try item(named: a.name, in: parentA, traceA, t),
            let itemB = try item(named: b.name, in: parentB, traceB, t)
        else {
            try exchangedWithStranger(a, traceA, placeA, b, traceB, placeB, by: actor, t)
            return
        }
        // Two files or two packages are a save by exchange: both names keep their documents, and
        // their contents are exchanged.
        if itemA.kind == .file, itemB.kind == .file {
            let saves = (state.pending[itemA.key]?.save, state.pending[itemB.key]?.save)
            let now = PendingDocument.Save(actor: actor, time: eventTime)
            need(itemA, traceA)
            need(itemB, traceB)
            var (first, second) = (itemA, itemB)
            try assignInode(&first, traceB, saves.1 ?? now, t)
            try assignInode(&second, traceA, saves.0 ?? now, t)
            return
        }
        if itemA.kind == .package, itemB.kind == .package {
            needPackage(itemA, at: .package(itemB.key, []))
            needPackage(itemB, at: .package(itemA.key, []))
            try assignDirectory(traceB.inode, toPackage: itemA, by: actor, t)
            try assignDirectory(traceA.inode, toPackage: itemB, by: actor, t)
            return
        }
        if itemB.kind == .directory, try staysPackage(itemA, t) {
            return try exchangeContents(ofPackage: itemA, traceA, itemB, traceB, by: actor, t)
        }
        if itemA.kind == .directory, try staysPackage(itemB, t) {
            return try exchangeContents(ofPackage: itemB, traceB, itemA, traceA, by: actor, t)
        }
        // One of them is a directory: the items themselves are exchanged.
        try changePlaces(itemA, itemB, t)
    }

    /// Handles an exchange of two items by a change from the hub.
    func swapped(_ a: DirectoryEntry, _ b: DirectoryEntry, _ t: Transaction) throws {
        guard case .directory(let parentA) = try roles.location(of: a.directory, t),
            case .directory(let parentB) = try roles.location(of: b.directory, t),
            let itemA = try t.item(parent: parentA, name: a.name),
            let itemB = try t.item(parent: parentB, name: b.name)
        else { return state.directoriesToRescan.append(Item.root) }
        try changePlaces(itemA, itemB, t)
    }

    private func changePlaces(_ itemA: Item, _ itemB: Item, _ t: Transaction) throws {
        let (a, b) = (itemA, itemB)
        var parked = itemA
        parked.name = Name("\u{1}exchange")
        try t.update(parked)
        try relocate(itemB, to: a.parent, a.name, t)
        try relocate(parked, to: b.parent, b.name, t)
    }

    /// The item with a name; a directory that the scan has not reached yet becomes one.
    private func item(
        named name: Name, in parent: Int64, _ snapshot: FileSnapshot, _ t: Transaction
    ) throws -> Item? {
        if let item = try t.item(parent: parent, name: name) { return item }
        return snapshot.isDirectory ? try t.item(insert(parent, name, snapshot, t)) : nil
    }

    /// Whether a package stays one with the directory that its name has now.
    private func staysPackage(_ item: Item, _ t: Reader) throws -> Bool {
        try item.kind == .package && roles.kindNow(item, t) == .package
    }

    /// Assigns another directory to the package. `item` may have other changes, which are written
    /// with it.
    func assignDirectory(
        _ inode: UInt64, toPackage item: Item, by actor: Actor? = nil, _ t: Transaction
    ) throws {
        var item = item
        item.inode = inode
        item.changed = 0
        try t.update(item)
        state.locations[inode] = .package(item.key, [])
        packageCuts[item.key] = nil
        touchPackage(item.key, by: actor)
        rescan(item.key)
    }

    /// Handles an exchange of a package with a directory that is no package, such as one in which a
    /// program has prepared the new contents. Both names keep their items. `old` is the package's
    /// directory until now, and `new` the other one.
    private func exchangeContents(
        ofPackage package: Item, _ old: FileSnapshot, _ directory: Item, _ new: FileSnapshot,
        by actor: Actor, _ t: Transaction
    ) throws {
        var place = Location.directory(directory.key)
        if case .ignored? = state.locations[new.inode] { place = .ignored(directory.key, []) }
        try replaceDirectory(ofPackage: package, old, nowAt: place, by: new, actor, t)
        if case .directory = place {
            try absorbChildrenIntoPackage(
                of: directory, in: new.inode, .package(package.key, []), t)
        }
        var directory = directory
        directory.inode = old.inode
        try t.update(directory)
        state.locations[old.inode] = place
        rescan(directory.key)
    }

    /// Replaces the directory `old` of a package by the directory `new`. `old` is at `place` now,
    /// where it is no package.
    private func replaceDirectory(
        ofPackage package: Item, _ old: FileSnapshot, nowAt place: Location, by new: FileSnapshot,
        _ actor: Actor, _ t: Transaction
    ) throws {
        roles.forgetLocations(below: old.inode)
        roles.forgetLocations(below: new.inode)
        needPackage(package, at: place)
        state.packaged.removeAll { $1 == package.key }
        try assignDirectory(new.inode, toPackage: package, by: actor, t)
    }

    /// Handles an exchange in which one of the two is no item, but a temporary file or something in
    /// a package or an ignored directory.
    private func exchangedWithStranger(
        _ a: DirectoryEntry, _ traceA: FileSnapshot, _ placeA: Location, _ b: DirectoryEntry,
        _ traceB: FileSnapshot,
        _ placeB: Location, by actor: Actor, _ t: Transaction
    ) throws {
        let there = Move(from: a, to: b, snapshot: traceA, stash: nil, actor: actor)
        let back = Move(from: b, to: a, snapshot: traceB, stash: nil, actor: actor)
        leave(placeA, there, to: placeB)
        leave(placeB, back, to: placeA)
        try settle(placeA, at: a, old: traceA, nowAt: placeB.inside(b.name), traceB, by: actor, t)
        try settle(placeB, at: b, old: traceB, nowAt: placeA.inside(a.name), traceA, by: actor, t)
        try rememberUntrackedFile(traceA, to: b, t)
        try rememberUntrackedFile(traceB, to: a, t)
    }

    private func settle(
        _ place: Location, at spot: DirectoryEntry, old: FileSnapshot, nowAt other: Location,
        _ snapshot: FileSnapshot, by actor: Actor, _ t: Transaction
    ) throws {
        guard case .directory(let parent) = place else {
            let move = Move(from: spot, to: spot, snapshot: snapshot, stash: nil, actor: actor)
            try arrive(place, move, t)
            return
        }
        let save = PendingDocument.Save(actor: actor, time: eventTime)
        if var item = try t.item(parent: parent, name: spot.name) {
            if item.kind == .file, snapshot.isFile {
                need(item, old)
                try assignInode(&item, snapshot, save, t)
                return
            }
            if snapshot.isDirectory, try staysPackage(item, t) {
                return try replaceDirectory(
                    ofPackage: item, old, nowAt: other, by: snapshot, actor, t)
            }
            try absorbIntoPackage(item, old, into: other, t)
        }
        if snapshot.isFile, try roles.isLocal(spot.name, in: parent, t) { return }
        let key = try insert(parent, spot.name, snapshot, t)
        if snapshot.isDirectory { rescan(key) }
        if snapshot.isFile { touch(key) { $0.save = save } }
    }
}
