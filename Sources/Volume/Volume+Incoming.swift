import CLinux
import ChunkStore
import Glibc
import Journal
import Model
import SystemCalls

// What the hub's changes ask of the volume.
extension Volume {
    // MARK: Preparing

    /// Makes in the store, beside the tree, what a step of the applier puts into it: all of it,
    /// with its mark, mode, attributes and times. `fill` writes a file's bytes (of a package, each
    /// file's); it is not called for what is dataless. The recorder expects it from now on.
    ///
    /// - Returns: Its name there.
    /// - Throws: `.full`, `.damaged` (it has not the size that was said), `.invalid`.
    package func prepare(
        _ arrival: Arrival, fill: Filling = { (_, _) throws(VolumeError) in }
    ) throws(VolumeError) -> String {
        let name = incoming.newName(arrival.mark)
        do throws(VolumeError) {
            try Preparing(arrival: arrival, directory: incoming.directory).make(
                Name(name), fill: fill)
        } catch {
            incoming.remove(Name(name))
            throw error
        }
        incoming.expect(arrival)
        return name
    }

    /// Brings all that was prepared to the disk, before a batch of steps.
    package func syncIncoming() throws(VolumeError) {
        do throws(Errno) {
            // Not on an O_PATH descriptor.
            let directory = try Descriptor(
                opening: ".", in: incoming.directory, flags: O_RDONLY | O_DIRECTORY)
            try check(cl_syncfs(directory.raw))
        } catch {
            throw VolumeError(.system, "What the hub sent cannot be synced to the disk: \(error).")
        }
    }

    /// Where a package that the hub has removed lies beside the tree until its files are in the
    /// stash: never given before.
    package func asideName(for item: Identifier) -> String {
        incoming.newName(Mark(item: item, version: .none))
    }

    /// What was prepared is not wanted any more.
    package func discard(_ name: String) {
        if let mark = Incoming.mark(of: Name(name)) { incoming.forget(mark) }
        incoming.remove(Name(name))
    }

    /// Gives what was prepared the owner and the access control list of what it replaces, and its
    /// mode where the hub says none; something new gets the owner of its directory, and the list
    /// that this has for new files.
    package func dress(_ name: String, for path: [Name]) throws(VolumeError) {
        do throws(Errno) {
            let arrival = Incoming.mark(of: Name(name)).flatMap { incoming.known($0) }
            try dress([Name(name)], as: path, mode: arrival?.mode)
            guard let arrival, let last = path.last else { return }
            // What its name does not say, its attribute does.
            if arrival.kind == .package || arrival.kind == .directory,
                Volume.isPackage(name: last) != (arrival.kind == .package)
            {
                let made = try openBeneath([Name(name)], from: incoming.directory, flags: O_PATH)
                let value: [UInt8] = [UInt8(ascii: arrival.kind == .package ? "1" : "0")]
                try check(cl_setxattr_fd(made.raw, "user.concord.package", value, 1, 0))
            }
            guard arrival.kind == .package, let manifest = Manifest(encoded: arrival.manifest)
            else { return }
            for entry in manifest.entries where !entry.path.isEmpty {
                let inside = entry.names
                try dress([Name(name)] + inside, as: path + inside, mode: entry.mode)
            }
        } catch {
            guard error != .notFound else { return }
            throw VolumeError(.system, "A change from the hub cannot be prepared: \(error).")
        }
    }

    private func dress(_ made: [Name], as path: [Name], mode: UInt16?) throws(Errno) {
        let file = try openBeneath(made, from: incoming.directory, flags: O_PATH)
        let status = Trace(try file.status())
        var mode = mode
        let local: LocalAttributes
        if let old = try? openBeneath(path, from: root, flags: O_PATH),
            let replaced = try? Trace(old.status()), replaced.mode & S_IFMT == status.mode & S_IFMT
        {
            local = try LocalAttributes(of: old.raw)
            if status.isFile { mode = mode ?? replaced.permissions }
        } else {
            let parent =
                made.count > 1
                ? try openBeneath(made.dropLast(), from: incoming.directory, flags: O_PATH)
                : try openBeneath(path.dropLast(), from: root, flags: O_PATH)
            local = try LocalAttributes(in: parent.raw)
        }
        guard !status.isSymlink else { return try local.setOwner(of: file.raw) }
        try IncomingAttributes(mode: mode ?? status.permissions).apply(to: file.raw, local: local)
    }

    /// Tells what was prepared before a crash: asked, on the recorder's thread, for what nobody
    /// expects.
    package func onArrival(_ body: @escaping @Sendable (Mark) -> Arrival?) {
        incoming.onArrival(body)
    }

    /// Called on the recorder's thread, in the transaction that notes it, when an arrival has
    /// become an item: with its key.
    package func onAdoption(_ body: @escaping @Sendable (Mark, Int64, Transaction) throws -> Void) {
        incoming.onAdoption(body)
    }

    /// Where the mount finds what was prepared: an O_PATH descriptor.
    package var incomingDirectory: Int32 { incoming.directory }

    // MARK: The journal

    /// Runs `body` in a transaction on the recorder's thread, once all that has happened in the
    /// tree up to now is in the journal. Blocks; not to be called on that thread, nor before
    /// `start`. When `body` throws, nothing of it happened.
    ///
    /// - Throws: What `body` threw; `.full`; `.cancelled` when the volume ends.
    package func perform<Result: Sendable>(
        _ body: @escaping @Sendable (Transaction) throws -> Result
    ) throws(VolumeError) -> Result {
        try recorder.perform { _, t in try body(t) }
    }

    /// The item has another id from now on: two turned out to be one.
    ///
    /// - Throws: `.notFound`; `.busy` when another item that is alive has that id.
    package func reidentify(_ id: Identifier, to other: Identifier) throws(VolumeError) {
        try recorder.perform { _, t in try t.reidentify(id, to: other) }
    }

    /// The hub's items are of one kind for ever: what the item was is deleted, with its id and its
    /// versions, and what the tree has under its name is a new one. Not yet while something of its
    /// past is still to be recorded. Only within `perform`.
    package func part(_ key: Int64, from kind: Item.Kind, named name: Name, _ t: Transaction)
        throws(VolumeError)
    {
        guard !recorder.hasWork(key), var item = try t.item(key) else { return }
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

    /// The facts about something dataless that was found in the tree before they were known.
    package func learn(_ arrival: Arrival) throws(VolumeError) {
        try recorder.perform { recorder, t in
            guard var item = try t.item(id: arrival.item) else { return }
            try recorder.show(arrival, on: &item, t)
            try t.update(item)
        }
    }

    /// The tree has something there that the journal does not know as it is: it is looked at again
    /// soon.
    package func recheck(_ path: [Name]) {
        recorder.signal.change {
            recorder.tasks.append { recorder in
                try? recorder.transact { t in try recorder.recheck(path, t) }
            }
        }
    }
}

extension Transaction {
    /// A deleted item that has the id already gets one of its own.
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
    func hasWork(_ key: Int64) -> Bool { memory.works[key] != nil }

    func recheck(_ path: [Name], _ t: Transaction) throws {
        guard var item = try t.item(Item.root) else { return }
        for name in path {
            guard item.kind == .directory, let next = try t.item(parent: item.key, name: name)
            else { break }
            item = next
        }
        switch item.kind {
        case .directory: rescan(item.key)
        case .package:
            packageCuts[item.key] = nil
            touchPackage(item.key)
        case .file:
            guard let now = try? openBeneath(path, from: tree, flags: O_PATH).status() else {
                return rescan(item.parent)
            }
            guard UInt64(now.st_ino) == item.inode else { return rescan(item.parent) }
            guard Trace(item).differs(from: Trace(now)) else { return }
            item.changed = 0
            try t.update(item)
            touch(item.key)
        case .symlink, .special: break
        }
    }
}
