import CLinux
import Glibc
import Journal
import Model
import SystemCalls

/// Prepares changes from the hub beside the tree, and notes in the journal what has arrived.
package struct Arrivals: Sendable {
    let items: ItemLookup
    let incoming: Incoming

    // MARK: Preparing

    /// Creates, beside the tree, what a step of the applier will put into it, complete with arrival
    /// tag, mode, attributes and times. `fill` writes the bytes of a file (of each file of a
    /// package); it is not called for placeholders. The recorder expects the arrival from now on.
    ///
    /// - Returns: Its name in `incoming/`.
    /// - Throws: `.full`, `.damaged` (its size is wrong), `.invalid`.
    package func prepare(
        _ arrival: Arrival, fill: Filling = { (_, _) throws(VolumeError) in }
    ) throws(VolumeError) -> String {
        let name = incoming.newName(arrival.mark)
        do throws(VolumeError) {
            try Preparing(
                arrival: arrival, directory: incoming.directory, barrier: incoming.barrier
            ).make(
                Name(name), fill: fill)
        } catch {
            incoming.remove(Name(name))
            throw error
        }
        incoming.expect(arrival)
        return name
    }

    /// Makes durable what was prepared, before a batch of steps.
    package func sync() throws(VolumeError) {
        try incoming.barrier.pass()
    }

    /// A new name in `incoming/` for a package that the hub has removed, where it stays until its
    /// files are in the stash.
    package func asideName(for item: Identifier) -> String {
        incoming.newName(ArrivalTag(item: item, version: .none))
    }

    /// Discards something that was prepared.
    package func discard(_ name: String) {
        if let mark = Incoming.mark(of: Name(name)) { incoming.forget(mark) }
        incoming.remove(Name(name))
    }

    /// Gives a prepared item the owner and the access control list of what it replaces, and its
    /// mode if the hub sends none. A new item gets the owner that the hub sends, or else that of
    /// its directory, and the directory's list for new files. If the owner has changed with the
    /// contents, a replaced item is owned like a new one.
    package func applyLocalAttributes(_ name: String, for path: [Name]) throws(VolumeError) {
        let arrival = Incoming.mark(of: Name(name)).flatMap { incoming.known($0) }
        var finishing = Finishing(name: Name(name), incoming: incoming.directory, tree: items.tree)
        if let arrival, Accounts.ofThisMachine != nil {
            finishing.hasSameOwner = { [items] in
                let item = try? items.journal.read { try $0.item(id: arrival.item) }
                return item.map { $0.owner == arrival.attributes.owner } ?? true
            }
        }
        do throws(Errno) {
            try finishing.finish(arrival, at: path)
        } catch {
            guard error != .notFound else { return }
            throw VolumeError(.system, "A change from the hub cannot be prepared: \(error).")
        }
    }

    /// Sets a function that describes arrivals which were prepared before a crash and are not
    /// expected. It is called on the recorder's thread.
    package func onArrival(_ body: @escaping ExpectedArrival) { incoming.onArrival(body) }

    /// Sets a function that is called when an arrival has become an item, with the item's key, on
    /// the recorder's thread and in the same transaction.
    package func onAdoption(
        _ body: @escaping @Sendable (ArrivalTag, Int64, Transaction) throws -> Void
    ) {
        incoming.onAdoption(body)
    }

    /// An O_PATH descriptor of the directory with prepared items, for the mount.
    package var directory: Int32 { incoming.directory }

    // MARK: Items

    /// Gives an item another id, because two items are the same.
    ///
    /// - Throws: `.notFound`; `.busy` if another item that is not deleted has that id.
    package func reidentify(_ id: Identifier, to other: Identifier) throws(VolumeError) {
        try items.recorder.perform { _, t in try t.reidentify(id, to: other) }
    }

    /// Splits an item that has changed its kind, because items of the hub never do. What the item
    /// was becomes a deleted item with its id and versions, and what the tree has under the name
    /// gets a new id. Does nothing while something of its past is not recorded yet. Only within
    /// `perform`.
    package func part(_ key: Int64, from kind: Item.Kind, named name: Name, _ t: Transaction)
        throws(VolumeError)
    {
        guard !items.recorder.hasWork(key), var item = try t.item(key) else { return }
        var old = Item(
            id: item.id, parent: item.parent, name: name, kind: kind,
            deleted: cl_clock_realtime_ns())
        let hasPast = kind == .file || kind == .package
        if hasPast {
            (old.latest, old.current) = (item.latest, item.current)
            (item.latest, item.current) = (0, nil)
        }
        item.id = .random()
        try t.update(item)
        old.key = try t.insert(old)
        if hasPast { try t.moveVersions(of: key, to: old.key) }
    }

    /// Notes the facts about a placeholder that was found in the tree before they were known.
    package func noteFacts(_ arrival: Arrival) throws(VolumeError) {
        try items.recorder.perform { recorder, t in
            guard var item = try t.item(id: arrival.item) else { return }
            try recorder.adopter.show(arrival, on: &item, t)
            try t.update(item)
        }
    }
}

extension Transaction {
    /// Gives an item another id. A deleted item that has this id gets a new one.
    package func reidentify(_ id: Identifier, to other: Identifier) throws(VolumeError) {
        guard id != other else { return }
        guard var item = try item(id: id) else {
            throw VolumeError(.notFound, "The journal has no item \(id).")
        }
        if var twin = try self.item(id: other) {
            guard twin.deleted != nil else {
                throw VolumeError(.busy, "The journal has an item \(other) already.")
            }
            twin.id = .random()
            try update(twin)
        }
        item.id = other
        try update(item)
    }
}

extension Recorder {
    func hasWork(_ key: Int64) -> Bool { state.pending[key] != nil }

    func recheck(_ path: [Name], _ t: Transaction) throws {
        guard var item = try t.item(Item.root) else { return }
        for name in path {
            guard item.kind == .directory, let next = try t.item(parent: item.key, name: name)
            else { break }
            item = next
        }
        switch item.kind {
        case .directory: writer.rescan(item.key)
        case .package:
            packageCuts[item.key] = nil
            index.touchPackage(item.key)
        case .file:
            guard let now = try? openBeneath(path, from: tree, flags: O_PATH).status() else {
                return writer.rescan(item.parent)
            }
            guard UInt64(now.st_ino) == item.inode else { return writer.rescan(item.parent) }
            guard FileSnapshot(item).differs(from: FileSnapshot(now)) else { return }
            item.changed = 0
            try t.update(item)
            writer.state.pending.touch(item.key)
        case .symlink, .special: break
        }
    }
}
