import CLinux
import ChunkStore
import Glibc
import Journal
import Model
import SystemCalls

/// Rebuilds a missing working tree from the journal: contents from the packs, and placeholders for
/// what the hub has. Existing files are not touched, and items that cannot be rebuilt are not
/// reported as deleted if the hub knows them.
struct TreeRebuilding {
    let tree: Int32
    let journal: Journal
    let packs: PackStore
    private var made = 0
    private var lost = 0
    /// Items that only the hub can restore.
    private var awaited: [Item] = []
    /// Files and directories as they are now, so that the scan does not take them for others that
    /// have replaced them.
    private var rows: [Item] = []
    /// The versions of which there are only placeholders, by the key of the item.
    private var absent: [Int64: Identifier] = [:]
    /// Items that get a version other than their current one.
    private var older: [(item: Item, version: Identifier)] = []

    init(tree: Int32, journal: Journal, packs: PackStore) {
        self.tree = tree
        self.journal = journal
        self.packs = packs
    }

    /// Rebuilds the tree.
    ///
    /// - Returns: A sentence about what was rebuilt.
    mutating func run() throws(VolumeError) -> [String] {
        var waiting: [(key: Int64, path: [Name])] = [(Item.root, [])]
        do {
            while let (key, path) = waiting.popLast() {
                let directory = try openBeneath(path, from: tree, flags: O_PATH | O_DIRECTORY)
                for item in try journal.read({ try $0.children(of: key) }) {
                    var entry = try entryIfPresent(item.name, in: directory.raw)
                    if entry == nil {
                        try make(item, in: directory.raw)
                        entry = try entryIfPresent(item.name, in: directory.raw)
                    } else if item.kind == .file {
                        try notePlaceholder(item, in: directory.raw)
                    }
                    if item.kind == .directory, entry.map(FileSnapshot.init)?.isDirectory == true {
                        waiting.append((item.key, path + [item.name]))
                    }
                }
            }
        } catch {
            throw error as? VolumeError
                ?? VolumeError(.system, "The working tree cannot be rebuilt: \(error).")
        }
        try note()
        let items = made == 1 ? "1 item" : "\(made) items"
        var sentence = "The working tree was rebuilt from the history: \(items)."
        switch lost {
        case 0: break
        case 1: sentence += " The bytes of 1 document are lost: it is deleted."
        default: sentence += " The bytes of \(lost) documents are lost: they are deleted."
        }
        return [sentence]
    }

    private mutating func make(_ item: Item, in directory: Int32) throws {
        switch item.kind {
        case .directory:
            try make(Arrival(item, nil, []), item, in: directory) { (_, _) throws(VolumeError) in }
        case .file, .package: try makeDocument(item, in: directory)
        case .symlink, .special: awaited.append(item)
        }
    }

    /// Rebuilds the current version if its bytes are in the packs, or else its placeholder, or else
    /// the newest version that is available.
    private mutating func makeDocument(_ item: Item, in directory: Int32) throws {
        let versions = try journal.read { reader in
            try reader.versions(of: item.key).map { ($0, try reader.manifest(of: $0.id) ?? []) }
        }
        let (current, others) = (
            versions.filter { $0.0.id == item.current }, versions.filter { $0.0.id != item.current }
        )
        for (version, manifest) in current + others.reversed() {
            var arrival = Arrival(item, version, manifest)
            if !isStored(manifest, version) {
                guard version.durability == .hub, item.kind == .file || !manifest.isEmpty else {
                    continue
                }
                arrival.isDataless = true
            }
            try make(arrival, item, in: directory) { [self] (chunks, file) throws(VolumeError) in
                try fill(chunks, file)
            }
            if version.id != item.current { older.append((item, version.id)) }
            return
        }
        if versions.isEmpty { awaited.append(item) } else { lost += 1 }
    }

    private mutating func make(
        _ arrival: Arrival, _ item: Item, in directory: Int32, fill: Filling
    ) throws {
        try Preparing(
            arrival: arrival, directory: directory, barrier: WriteBarrier(directory: directory)
        ).make(item.name, fill: fill)
        made += 1
        let file = try openBeneath([item.name], from: directory, flags: O_PATH)
        // The file is no arrival that the recorder expects, so the tag is removed.
        ArrivalTag.remove(from: file.raw)
        try FileOwner(arrival.attributes.owner)?.give(
            file.raw, in: directory, includingContents: item.kind == .package)
        guard item.kind != .package else { return }
        var shown = item
        shown.current = arrival.version?.id ?? item.current
        note(shown, FileSnapshot(try file.status()), isPlaceholder: arrival.isDataless)
    }

    /// Notes a placeholder that a rebuilding made before it was interrupted.
    private mutating func notePlaceholder(_ item: Item, in directory: Int32) throws {
        let file = try openBeneath([item.name], from: directory, flags: O_PATH)
        let snapshot = FileSnapshot(try file.status())
        guard snapshot.isFile, snapshot.inode != item.inode,
            let mark = PlaceholderMark(of: file.raw, size: snapshot.size), mark.item == item.id,
            mark.version == item.current
        else { return }
        note(item, snapshot, isPlaceholder: true)
    }

    private mutating func note(_ item: Item, _ now: FileSnapshot, isPlaceholder: Bool) {
        var row = item
        row.inode = now.inode
        if item.kind == .file {
            row.size = UInt64(max(0, now.size))
            row.modified = now.modified
            row.changed = max(1, now.changed)
            if isPlaceholder { absent[item.key] = item.current }
        }
        rows.append(row)
    }

    private func isStored(_ bytes: [UInt8], _ version: Version) -> Bool {
        guard let manifest = Manifest(encoded: bytes) else { return version.size == 0 }
        return manifest.chunkIDs.allSatisfy { id in
            guard let place = try? journal.read({ try $0.place(of: id) }) else { return false }
            return (try? packs.read(id, at: place)) != nil
        }
    }

    private func fill(_ chunks: [ChunkReference], _ file: Int32) throws(VolumeError) {
        var offset: Int64 = 0
        for chunk in chunks {
            guard let place = try journal.read({ try $0.place(of: chunk.id) }) else {
                throw VolumeError(.damaged, "Chunk \(chunk.id) is not in the packs.")
            }
            let bytes = try packs.read(chunk.id, at: place)
            do throws(Errno) { try writeSparsely(file, bytes, at: offset) } catch {
                throw VolumeError(
                    error == .noSpace ? .full : .system,
                    "The working tree cannot be rebuilt: \(error).")
            }
            offset += Int64(bytes.count)
        }
    }

    private func note() throws(VolumeError) {
        let (older, awaited, rows, absent) = (older, awaited, rows, absent)
        try journal.write { t in
            for (item, id) in older {
                if let current = item.current { try t.setKind(current, .history) }
                try t.setKind(id, .current)
                guard item.kind == .package else { continue }
                var item = item
                item.current = id
                try t.update(item)
            }
            for row in rows { try t.update(row) }
            for (key, version) in absent { try t.setAbsent(key, version: version) }
            // Their rows are removed without a deletion, so that the hub sends the items as to a
            // new device.
            for item in awaited {
                try t.removeMirror(item.id)
                try t.removeRow(item.key)
                try t.removeUnsent(item.key)
            }
            try t.set(Parts.rebuiltTree, to: "1")
        }
    }
}

extension Reader {
    /// Whether the tree was rebuilt and the hub has not been asked for everything since.
    package var isTreeRebuilt: Bool {
        get throws(VolumeError) { try value(Parts.rebuiltTree) != nil }
    }
}

extension Transaction {
    /// The hub has been asked for everything again, so missing items count as not yet created.
    package func forgetRebuilding() throws(VolumeError) {
        try set(Parts.rebuiltTree, to: nil)
    }
}

extension Arrival {
    /// An arrival made from an item of the journal.
    fileprivate init(_ item: Item, _ version: Version?, _ manifest: [UInt8]) {
        self.init(
            item: item.id, kind: item.kind, version: version, manifest: manifest,
            mode: item.mode == 0 ? nil : item.mode,
            attributes: AttributeList(encoded: item.attributes) ?? AttributeList())
    }
}
