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

/// Processes renames, which are how most programs save: the name keeps its document, whatever inode
/// it gets. Only the recorder's thread uses it.
struct RenameProcessor {
    let writer: JournalWriter
    let index: DocumentIndex
    let roles: DirectoryRoles
    let adopter: ArrivalAdopter
    let attributes: ItemAttributes
    let nameChanges: NameChangeLog
    let owners: TreeOwners
    let incoming: Incoming

    func renamed(_ move: Move, _ t: Transaction) throws {
        if try adopter.arrived(move, t) || adopter.putAside(move, t) { return }
        let origin = try roles.location(of: move.from.directory, t)
        let target = try roles.location(of: move.to.directory, t)
        try noteUnseen(move.from.name, at: origin, move.snapshot, t)
        var source: Item?
        if case .directory(let from) = origin {
            source = try t.item(parent: from, name: move.from.name)
        } else {
            index.leave(origin, move, to: target)
        }
        if case .directory(let to) = target {
            try arrived(source, move, to: to, t)
        } else {
            if let source {
                addTombstone(source, at: move)
                try index.absorbIntoPackage(
                    source, move.snapshot, into: target.inside(move.to.name), t)
            }
            try index.arrive(target, move, t)
        }
        try index.rememberUntrackedFile(move.snapshot, to: move.to, t)
    }

    private func arrived(_ source: Item?, _ move: Move, to: Int64, _ t: Transaction) throws {
        guard !move.snapshot.isDirectory, try roles.isLocal(move.to.name, in: to, t) else {
            try replacedBy(source, move, to: to, t)
            return
        }
        try index.transferContentOfNonDocument(move.stash, inode: move.replaced?.inode ?? 0, t)
        // A document becomes a temporary file. Its name is free, and its bytes stay in that file
        // for now.
        guard let source else { return }
        if index.isSaved(source), !index.settings.has(.losesContentOfHiddenDocuments) {
            index.need(source, move.snapshot)
        }
        addTombstone(source, at: move)
        try index.removeItem(source, t)
    }

    /// If a document has the target name, it gets the moved inode as its new contents. Otherwise
    /// the moved item gets the name.
    private func replacedBy(_ found: Item?, _ move: Move, to: Int64, _ t: Transaction) throws {
        var source = found
        var target = try t.item(parent: to, name: move.to.name)
        if let twin = target, let known = source, isTwin(twin, of: known, move) {
            source = try merge(twin, into: known, move, t)
            target = nil
        }
        if let target { writer.state.foundEarly.remove(target.key) }
        if let target, target.key != source?.key, target.kind == .file, move.snapshot.isFile,
            source == nil || !index.settings.has(.followsTheInode)
        {
            try adopt(target, from: source, move, t)
            return
        }
        if let target, target.key != source?.key {
            try index.transferContent(move.stash, inode: move.replaced?.inode ?? 0, to: [target])
            try index.removeItem(target, t)
        }
        if target == nil, try takesVacatedName(source, move, t) { return }
        guard let source else {
            let key = try index.insert(to, move.to.name, move.snapshot, t)
            if move.snapshot.isFile, let item = try t.item(key) {
                try index.noteSave(item, by: move.actor, t)
            } else if move.snapshot.isDirectory {
                writer.rescan(key)
            }
            return
        }
        addTombstone(source, at: move)
        try nameChanges.noteMoved(source, to: to, move, t)
        try relocate(source, to: to, move.to.name, t)
        if source.kind == .directory, try t.item(source.key)?.kind == .package {
            // Its new name makes it a package, which counts as saved now.
            index.touchPackage(source.key, by: move.actor)
        }
    }

    /// Whether the scan has made this item for what was moved, before this event was processed.
    private func isTwin(_ target: Item, of source: Item, _ move: Move) -> Bool {
        target.key != source.key && target.latest == 0 && target.inode == move.snapshot.inode
            && !hadReplaced(target, move) && !index.settings.has(.seesNoTwins)
    }

    /// What the name had before becomes a prior content of the moved item.
    private func merge(_ twin: Item, into known: Item, _ move: Move, _ t: Transaction) throws
        -> Item
    {
        writer.state.pending.transferContent(from: twin.key, to: known.key)
        let source = takeBack(known, move)
        try transferReplacedContent(known, move)
        try index.removeItem(twin, t)
        if twin.kind == .directory { writer.state.directoriesToRescan.append(known.key) }
        return source
    }

    /// Whether the scan has found the moved file under the name of a document that is older than
    /// it: what the move has replaced is that document's. Then it is no new item.
    private func hadReplaced(_ item: Item, _ move: Move) -> Bool {
        guard let replaced = move.replaced else { return false }
        return writer.state.pending[item.key]?.priorContents.contains {
            $0.entry == nil && $0.inode == replaced.inode
        } == true
    }

    /// The item as it was before the scan saw what later events put at its name: another file,
    /// whose contents would become versions of the wrong document (invariants 4 and 9). A scan sees
    /// that only in the moment between a change and its event.
    private func takeBack(_ item: Item, _ move: Move) -> Item {
        guard item.kind == .file, move.snapshot.isFile, item.inode != move.snapshot.inode else {
            return item
        }
        var item = item
        item.inode = move.snapshot.inode
        item.changed = 0
        writer.state.pending.touch(item.key) {
            $0.priorContents.removeAll { $0.entry == nil && $0.inode == move.snapshot.inode }
        }
        return item
    }

    private func relocate(_ source: Item, to parent: Int64, _ name: Name, _ t: Transaction) throws {
        guard try !index.contains(source.key, parent, t) else {
            // The scan has seen one of the two where a later event puts it. When that event is
            // processed, the whole tree is compared again.
            writer.state.directoriesToRescan.append(Item.root)
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
        if moved.kind == .file { try attributes.refresh(moved, t, isReplaying: index.isReplaying) }
        try attributes.readAgain(t)
        if moved.kind != source.kind { try index.convert(moved, t) }
        guard moved.kind == .directory else { return }
        // Whether the ignore file names it may depend on its path.
        let isIgnored = try roles.isIgnored(moved, t)
        if writer.state.locations[moved.inode] == nil, !isIgnored {
            writer.state.locations[moved.inode] = .directory(moved.key)
        }
        if case .ignored? = writer.state.locations[moved.inode] {
            if !isIgnored { writer.rescan(moved.key) }
        } else if isIgnored {
            writer.rescan(moved.key)
        }
    }

    /// Handles a temporary file that takes the name of a document which the same program has just
    /// moved away. Returns false if it is something else.
    private func takesVacatedName(_ source: Item?, _ move: Move, _ t: Transaction) throws -> Bool {
        guard !index.settings.has(.forgetsVacatedNames),
            move.snapshot.isFile, source?.latest ?? 0 == 0,
            let tombstone = index.takeTombstone(move.to, move.actor), tombstone.item != source?.key,
            let item = try t.item(tombstone.item), item.kind == .file,
            case .directory(let to) = try roles.location(of: move.to.directory, t)
        else { return false }
        let save = source.flatMap { writer.state.pending[$0.key]?.save }
        try retire(source, t)
        try index.continueDocument(
            item, to: to, move.to.name, move.snapshot, tombstone: tombstone,
            save: save ?? PendingDocument.Save(actor: move.actor, time: writer.eventTime), t)
        return true
    }

    /// Adds what had the name until this rename to the document's prior contents.
    private func transferReplacedContent(_ item: Item, _ move: Move) throws {
        if index.settings.has(.losesReplacedContent) { return }
        if let stash = move.stash {
            try index.transferContent(stash, inode: move.replaced?.inode ?? item.inode, to: [item])
        } else if let replaced = move.replaced, replaced.inode != move.snapshot.inode {
            // Another hard link has its bytes.
            index.need(item, replaced)
        }
    }

    private func adopt(_ target: Item, from source: Item?, _ move: Move, _ t: Transaction) throws {
        var target = target
        try transferReplacedContent(target, move)
        if let base = move.unseen { try index.replaceUnseen(target, madeFrom: base, t) }
        let save = source.flatMap { writer.state.pending[$0.key]?.save }
        let isSaved = source.map(index.isSaved) ?? false
        if let source, source.latest > 0 || isSaved && move.to.name.isBackup(of: move.from.name) {
            index.need(source, move.snapshot)
            addTombstone(source, at: move)
        }
        try retire(source, t)
        try index.assignInode(
            &target, move.snapshot,
            save ?? PendingDocument.Save(actor: move.actor, time: writer.eventTime), t)
    }

    /// Removes the item of a temporary file. If it has versions, it stays as a deleted document.
    private func retire(_ source: Item?, _ t: Transaction) throws {
        guard let source else { return }
        writer.state.pending[source.key]?.save = nil
        try index.removeItem(source, t)
    }

    /// Adds a tombstone for the name that a document has lost, if the document was moved aside: to
    /// a temporary or a backup's name, or if it has several versions. A draft that moves to its
    /// final name leaves no tombstone, although the program may use the same name for its next
    /// draft.
    private func addTombstone(_ item: Item, at move: Move) {
        guard item.kind == .file,
            item.latest > 1 || move.to.name.isBackup(of: move.from.name)
                || roles.ignoreFile.current.matches(move.to.name)
        else { return }
        writer.state.tombstones[move.from] = Tombstone(
            item: item.key, actor: move.actor, time: writer.eventTime, snapshot: move.snapshot)
    }

    func exchanged(
        _ a: DirectoryEntry, _ traceA: FileSnapshot, _ b: DirectoryEntry, _ traceB: FileSnapshot,
        by actor: Actor, _ t: Transaction
    ) throws {
        if a.directory == incoming.inode,
            try adopter.arrived(exchanging: traceB, at: b, with: traceA, from: a.name, t)
        {
            return
        }
        let placeA = try roles.location(of: a.directory, t)
        let placeB = try roles.location(of: b.directory, t)
        try noteUnseen(a.name, at: placeA, traceA, t)
        try noteUnseen(b.name, at: placeB, traceB, t)
        guard case .directory(let parentA) = placeA, case .directory(let parentB) = placeB,
            let itemA = try item(named: a.name, in: parentA, traceA, t),
            let itemB = try item(named: b.name, in: parentB, traceB, t)
        else {
            try exchangedWithStranger(a, traceA, placeA, b, traceB, placeB, by: actor, t)
            return
        }
        // Two files or two packages are a save by exchange: both names keep their documents, and
        // their contents are exchanged.
        if itemA.kind == .file, itemB.kind == .file, !index.settings.has(.exchangesDocuments) {
            let saves = (
                writer.state.pending[itemA.key]?.save, writer.state.pending[itemB.key]?.save
            )
            let now = PendingDocument.Save(actor: actor, time: writer.eventTime)
            index.need(itemA, traceA)
            if !index.settings.has(.exchangeLosesOneContent) { index.need(itemB, traceB) }
            var (first, second) = (itemA, itemB)
            try index.assignInode(&first, traceB, saves.1 ?? now, t)
            try index.assignInode(&second, traceA, saves.0 ?? now, t)
            return
        }
        if itemA.kind == .package, itemB.kind == .package {
            index.needPackage(itemA, at: .package(itemB.key, []))
            index.needPackage(itemB, at: .package(itemA.key, []))
            try index.assignDirectory(traceB.inode, toPackage: itemA, by: actor, t)
            try index.assignDirectory(traceA.inode, toPackage: itemB, by: actor, t)
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
        else { return writer.state.directoriesToRescan.append(Item.root) }
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
        return snapshot.isDirectory ? try t.item(index.insert(parent, name, snapshot, t)) : nil
    }

    /// Notes a file that the first scan has not found yet and that loses its name now. Its contents
    /// were closed under that name, and it may be removed under its new one.
    private func noteUnseen(
        _ name: Name, at place: Location, _ snapshot: FileSnapshot, _ t: Transaction
    ) throws {
        guard index.isBeforeFirstLook, snapshot.isFile, case .directory(let parent) = place,
            try !roles.isLocal(name, in: parent, t)
        else { return }
        guard let item = try t.item(parent: parent, name: name) else {
            try index.insert(parent, name, snapshot, t)
            return
        }
        // The scan may have found the file that the name gets by a later event.
        if item.kind == .file, item.inode != snapshot.inode,
            !writer.state.foundEarly.contains(item.key)
        {
            try index.noteUnseenReplacement(of: item, by: snapshot, t)
        }
    }

    /// Whether a package stays one with the directory that its name has now.
    private func staysPackage(_ item: Item, _ t: Reader) throws -> Bool {
        try item.kind == .package && roles.kindNow(item, t) == .package
    }

    /// Handles an exchange of a package with a directory that is no package, such as one in which a
    /// program has prepared the new contents. Both names keep their items. `old` is the package's
    /// directory until now, and `new` the other one.
    private func exchangeContents(
        ofPackage package: Item, _ old: FileSnapshot, _ directory: Item, _ new: FileSnapshot,
        by actor: Actor, _ t: Transaction
    ) throws {
        var place = Location.directory(directory.key)
        if case .ignored? = writer.state.locations[new.inode] {
            place = .ignored(directory.key, [])
        }
        try replaceDirectory(ofPackage: package, old, nowAt: place, by: new, actor, t)
        if case .directory = place {
            try index.absorbChildrenIntoPackage(
                of: directory, in: new.inode, .package(package.key, []), t)
        }
        var directory = directory
        directory.inode = old.inode
        try t.update(directory)
        writer.state.locations[old.inode] = place
        writer.rescan(directory.key)
    }

    /// Replaces the directory `old` of a package by the directory `new`. `old` is at `place` now,
    /// where it is no package.
    private func replaceDirectory(
        ofPackage package: Item, _ old: FileSnapshot, nowAt place: Location, by new: FileSnapshot,
        _ actor: Actor, _ t: Transaction
    ) throws {
        roles.forgetLocations(below: old.inode)
        roles.forgetLocations(below: new.inode)
        index.needPackage(package, at: place)
        writer.state.packaged.removeAll { $1 == package.key }
        try index.assignDirectory(new.inode, toPackage: package, by: actor, t)
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
        index.leave(placeA, there, to: placeB)
        index.leave(placeB, back, to: placeA)
        try settle(placeA, at: a, old: traceA, nowAt: placeB.inside(b.name), traceB, by: actor, t)
        try settle(placeB, at: b, old: traceB, nowAt: placeA.inside(a.name), traceA, by: actor, t)
        try index.rememberUntrackedFile(traceA, to: b, t)
        try index.rememberUntrackedFile(traceB, to: a, t)
    }

    private func settle(
        _ place: Location, at spot: DirectoryEntry, old: FileSnapshot, nowAt other: Location,
        _ snapshot: FileSnapshot, by actor: Actor, _ t: Transaction
    ) throws {
        guard case .directory(let parent) = place else {
            let move = Move(from: spot, to: spot, snapshot: snapshot, stash: nil, actor: actor)
            try index.arrive(place, move, t)
            return
        }
        let save = PendingDocument.Save(actor: actor, time: writer.eventTime)
        if var item = try t.item(parent: parent, name: spot.name) {
            if item.kind == .file, snapshot.isFile {
                index.need(item, old)
                try index.assignInode(&item, snapshot, save, t)
                return
            }
            if snapshot.isDirectory, try staysPackage(item, t) {
                return try replaceDirectory(
                    ofPackage: item, old, nowAt: other, by: snapshot, actor, t)
            }
            try index.absorbIntoPackage(item, old, into: other, t)
        }
        if snapshot.isFile, try roles.isLocal(spot.name, in: parent, t) { return }
        let key = try index.insert(parent, spot.name, snapshot, t)
        if snapshot.isDirectory { writer.rescan(key) }
        if snapshot.isFile { writer.state.pending.touch(key) { $0.save = save } }
    }
}
