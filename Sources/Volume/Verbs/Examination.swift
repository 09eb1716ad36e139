import CLinux
import ChunkStore
import Glibc
import Journal
import Model
import SystemCalls

/// One result of an examination of a store (`fsctl doctor`).
package struct Finding: Hashable, Sendable {
    package enum Severity: String, Sendable {
        /// Information; nothing is wrong.
        case note
        /// Something is lost or inconsistent.
        case damage
        /// Something was inconsistent and has been repaired.
        case repaired
    }

    package var severity: Severity
    package var subject: String
    package var message: String

    package init(severity: Severity, subject: String, message: String) {
        self.severity = severity
        self.subject = subject
        self.message = message
    }
}

/// Checks tree, journal and chunks against each other. It repairs only what it can prove, which is
/// a chunk found again by its hash, and changes nothing else.
package struct Examination {
    let tree: Int32
    let stash: Stash
    let journal: Journal
    let packs: PackStore
    let repairs: Bool
    let progress: (String, Double) -> Void
    var findings: [Finding] = []
    /// The place of each undamaged chunk in the packs.
    private var stored: [Digest: ChunkLocation] = [:]
    /// Files that may hold only a part of a save.
    private var lostSaves: LostSaves?
    private var newPlaces: [Digest: ChunkLocation] = [:]
    /// Documents with prior contents that are not recorded yet.
    private var waiting: Set<Int64> = []

    init(
        tree: Int32, stash: Stash, journal: Journal, packs: PackStore, repairs: Bool,
        progress: @escaping (String, Double) -> Void
    ) {
        self.tree = tree
        self.stash = stash
        self.journal = journal
        self.packs = packs
        self.repairs = repairs
        self.progress = progress
    }

    mutating func run() -> [Finding] {
        lostSaves = (try? journal.read { try UnfinishedFile.lost(in: $0) }).map(LostSaves.init)
        for problem in journal.integrityProblems() {
            add(.damage, "journal", "The journal is damaged: \(problem).")
        }
        do {
            try examinePacks()
            try examineDocuments()
            if repairs, !newPlaces.isEmpty {
                try packs.sync()
                let places = newPlaces
                try journal.write { t in
                    for (id, place) in places { try t.setPlace(id, place) }
                }
            }
        } catch {
            add(.damage, "journal", "The examination ended early: \(error)")
        }
        return findings
    }

    private mutating func add(_ severity: Finding.Severity, _ subject: String, _ message: String) {
        findings.append(Finding(severity: severity, subject: subject, message: message))
    }

    // MARK: Packs

    private mutating func examinePacks() throws(VolumeError) {
        var bad: Set<Digest> = []
        let report = progress
        for damage in packs.verify(progress: { report("chunks", share($0, of: $1)) }) {
            if let id = damage.id { bad.insert(id) }
            add(.note, "packs", "\(damage)")
        }
        var found: [Digest: ChunkLocation] = [:]
        _ = packs.scan { id, location in
            if !bad.contains(id) { found[id] = location }
        }
        stored = found
        var wrong: [Digest] = []
        try journal.read { reader in
            try reader.forEachChunk { id, place in
                if found[id] != place { wrong.append(id) }
            }
        }
        let aside = try packs.quarantinedPacks()
        if !aside.isEmpty {
            add(
                .note, "packs",
                "\(aside.count) packs with \(aside.values.reduce(0, +)) bytes are in quarantine: "
                    + "this journal does not need them, but another one may. They are not removed.")
        }
        // A chunk may have several records; the index may point at any that is whole.
        for id in wrong {
            guard let place = try journal.read({ try $0.place(of: id) }) else { continue }
            if (try? packs.read(id, at: place)) != nil {
                stored[id] = place
            } else if let location = found[id] {
                repairIndex(id, location)
            } else {
                stored[id] = nil
            }
        }
    }

    private mutating func repairIndex(_ id: Digest, _ place: ChunkLocation) {
        newPlaces[id] = place
        add(
            repairs ? .repaired : .note, "chunk \(id)",
            "The index had a wrong place for chunk \(id); it is in pack \(packName(place.pack)).")
    }

    // MARK: Documents

    private mutating func examineDocuments() throws(VolumeError) {
        var keys: [Int64] = []
        try journal.read { reader in
            try reader.forEachItem { keys.append($0.key) }
            waiting = Set(try reader.stashed().compactMap(\.item))
        }
        for (index, key) in keys.enumerated() {
            if index.isMultiple(of: 64) { progress("documents", share(index, of: keys.count)) }
            try examine(key)
        }
        progress("documents", 1)
    }

    /// Reads everything in one transaction: the recorder may be working, and the item may be gone
    /// by now.
    private mutating func examine(_ key: Int64) throws(VolumeError) {
        let (item, way, versions) = try journal.read { reader in
            let versions = try reader.versions(of: key)
            return (
                try reader.item(key), try reader.path(of: key),
                try versions.map { ($0, try reader.manifest(of: $0.id)) }
            )
        }
        guard let item else { return }
        guard item.deleted != nil || way != nil else {
            return add(
                .damage, "item \(item.id)",
                "\(item.name) has no path to the root: its directories are damaged.")
        }
        guard item.latest > 0 else { return }
        let path = way ?? [item.name]
        let shown = path.shown
        var inTree: Set<Digest> = []
        // Chunks that can be fetched from the present hub again.
        let onHub = chunks(of: versions.filter { $0.0.durability == .hub }.map(\.1))
        let wereOnHub = chunks(of: versions.filter(\.0.wasAtHub).map(\.1))
        if item.deleted == nil, let current = versions.first(where: { $0.0.id == item.current }),
            let manifest = current.1.flatMap(Manifest.init(encoded:))
        {
            inTree = examineTree(item, manifest, current.0, path, shown)
        }
        // The versions that need something that only an earlier hub has had.
        var former: [Version] = []
        for (version, bytes) in versions {
            // Its list of chunks has never been fetched.
            if bytes?.isEmpty == true, version.wasAtHub {
                if version.durability != .hub { former.append(version) }
                continue
            }
            guard let manifest = bytes.flatMap(Manifest.init(encoded:)) else {
                add(
                    .damage, shown,
                    "Version \(version.number) of \(shown) has a damaged list of chunks.")
                continue
            }
            let lost = manifest.chunkIDs.filter {
                !onHub.contains($0) && !isStored($0) && !inTree.contains($0)
            }
            guard !lost.isEmpty, !isWaiting(item, version) else { continue }
            guard !wereOnHub.isSuperset(of: lost) else {
                former.append(version)
                continue
            }
            add(
                .damage, shown,
                "Version \(version.number) of \(shown) has lost \(lost.count) of "
                    + "\(manifest.chunkIDs.count) chunks and cannot be restored completely.")
        }
        try noteFormerHub(former, item, shown)
    }

    private func chunks(of manifests: [[UInt8]?]) -> Set<Digest> {
        manifests.compactMap { $0.flatMap(Manifest.init(encoded:))?.chunkIDs }
            .reduce(into: []) { $0.formUnion($1) }
    }

    /// Reports the versions that are not here, and that the present hub has not confirmed.
    private mutating func noteFormerHub(
        _ versions: [Version], _ item: Item, _ shown: String
    ) throws(VolumeError) {
        let (lost, elsewhere) = try journal.read { reader in
            var (lost, elsewhere): ([Int], [Int]) = ([], [])
            for version in versions {
                if try reader.hub.wasConfirmedBeforeRestoring(version.id) {
                    lost.append(version.number)
                } else {
                    elsewhere.append(version.number)
                }
            }
            return (lost, elsewhere)
        }
        noteUnreadable(
            lost, shown,
            "the hub had them before it came back from a backup, and has not confirmed them since. "
                + "If another device lists the version, restore it there; otherwise "
                + "`fsctl forget` removes it from the list.")
        noteUnreadable(
            elsewhere, shown,
            "no hub that this volume is signed in to has confirmed them. An earlier hub has had "
                + "them: sign in to it again, or see fsctl wait --durable hub.")
    }

    private mutating func noteUnreadable(_ numbers: [Int], _ shown: String, _ reason: String) {
        guard let first = numbers.first else { return }
        let what = numbers.count == 1 ? "Version \(first)" : "\(numbers.count) versions"
        add(
            .damage, shown,
            "\(what) of \(shown) cannot be read now: the contents are not on this device, and "
                + reason)
    }

    private func isStored(_ id: Digest) -> Bool {
        guard stored[id] != nil else { return false }
        if newPlaces[id] != nil { return repairs }
        return ((try? journal.read { try $0.place(of: id) }) ?? nil) != nil
    }

    /// Whether bytes of the version lie in the stash or under another name of the tree, from where
    /// the recorder will put them into the chunk store.
    private func isWaiting(_ item: Item, _ version: Version) -> Bool {
        if waiting.contains(item.key) { return true }
        guard item.changed == 0 || item.deleted != nil else { return false }
        let entries = (try? stash.entries()) ?? []
        return entries.contains { entry in
            entry.inode == item.inode || entry.spot?.name == item.name
        }
    }

    /// The chunks of a document that the tree holds. If the file's attributes show no change and
    /// the bytes differ, the disk has damaged them.
    private mutating func examineTree(
        _ item: Item, _ manifest: Manifest, _ current: Version, _ path: [Name], _ shown: String
    ) -> Set<Digest> {
        if isAbsent(path) { return [] }
        guard item.changed != 0 else {
            // The document has changed since it was recorded, so a chunk counts only where its
            // bytes are found.
            return presentChunks(manifest, path, shown)
        }
        let present = presentChunks(manifest, path, shown)
        guard present.count < manifest.chunkIDs.count, item.kind == .file else { return present }
        var status = stat()
        guard let file = try? openBeneath(path, from: tree, flags: O_PATH),
            cl_fstat(file.raw, &status) == 0
        else {
            add(
                .note, shown,
                "\(shown) is not in the working tree: it counts as deleted at the next mount.")
            return present
        }
        let snapshot = FileSnapshot(status)
        if lostSaves?.contains(snapshot) == true {
            add(
                .note, shown,
                "\(shown) was being saved when the machine stopped, and may hold only a part of "
                    + "what was to be saved. Save it, or restore a version.")
        } else if snapshot.changed == item.changed, UInt64(snapshot.size) == item.size {
            add(
                .damage, shown,
                "\(shown) does not hold what its version \(current.number) recorded, although "
                    + "no program changed it: the disk may be failing. "
                    + "An older version can be restored.")
        } else {
            add(.note, shown, "\(shown) was changed and is not recorded yet.")
        }
        return present
    }

    /// Whether the document is a placeholder, which need not hold any bytes.
    private func isAbsent(_ path: [Name]) -> Bool {
        guard let file = try? openBeneath(path, from: tree, flags: O_PATH),
            let status = try? file.status()
        else { return false }
        return PlaceholderMark(of: file.raw, size: Int64(status.st_size)) != nil
    }

    private mutating func presentChunks(
        _ manifest: Manifest, _ path: [Name], _ shown: String
    ) -> Set<Digest> {
        var present: Set<Digest> = []
        for entry in manifest.entries where entry.kind == .file {
            do throws(Errno) {
                let file = try openForReading(path + entry.names, beneath: tree)
                present.formUnion(presentChunks(entry.chunks, file.raw))
            } catch {
                guard error == .denied else { continue }
                add(.note, shown, "\(shown) is not examined: this user may not read it.")
                return manifest.chunkIDs
            }
        }
        return present
    }

    private func presentChunks(_ chunks: [ChunkReference], _ file: Int32) -> Set<Digest> {
        var present: Set<Digest> = []
        var offset: Int64 = 0
        for chunk in chunks {
            var bytes = [UInt8](repeating: 0, count: Int(chunk.length))
            let count = try? bytes.withUnsafeMutableBytes {
                try readFully(file, into: $0, at: offset)
            }
            if count == bytes.count, Digest.sha256(bytes) == chunk.id { present.insert(chunk.id) }
            offset += Int64(chunk.length)
        }
        return present
    }
}

private func share(_ done: some BinaryInteger, of total: some BinaryInteger) -> Double {
    total == 0 ? 1 : Double(done) / Double(total)
}

extension Examination {
    /// Examines a store that is not mounted.
    ///
    /// - Throws: `.busy` when the store is in use, `.notFound`, `.newer`, or `.damaged` when the
    ///   journal cannot be opened at all.
    package static func findings(
        inStore path: String, repair: Bool, progress: @escaping (String, Double) -> Void
    ) throws(VolumeError) -> [Finding] {
        let store = try Store(
            opening: path, mayCreate: false, owner: "fsctl doctor, process \(getpid())")
        let journal = try Journal.open(path: store.journalPath, mayCreate: false, checked: true)
        let packs = try PackStore(directory: store.chunksPath)
        let stash = Stash(directory: store.stash.raw, firstSequence: 0)
        var examination = Examination(
            tree: store.tree.raw, stash: stash, journal: journal, packs: packs, repairs: repair,
            progress: progress)
        let findings = examination.run()
        try journal.close()
        return findings
    }

    /// Examines a volume's store while the volume is in use.
    package static func findings(
        in volume: Volume, repair: Bool, progress: @escaping (String, Double) -> Void
    ) -> [Finding] {
        let recorder = volume.recorder
        // Waiting for the root records everything that can be recorded.
        _ = recorder.catchUp(with: .item(Item.root), timeoutSeconds: 60)
        var examination = Examination(
            tree: volume.root, stash: volume.stash, journal: volume.journal, packs: volume.packs,
            repairs: repair, progress: progress)
        let rebuilt = recorder.reports.report.problems["parts"]?.words
        let notes = rebuilt.map { [Finding(severity: .note, subject: "store", message: $0)] } ?? []
        return notes + examination.run()
    }
}
