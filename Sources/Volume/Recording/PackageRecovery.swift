import CLinux
import ChunkStore
import Journal
import Model

// Files that were saved in a package and replaced before the package was cut normally become no
// version. After a crash or a loss of power it is unknown whether their replacements are complete,
// so they are kept, in versions that consist of the package with those files in it.
extension PackageRecorder {
    /// Adds these versions before the present contents (`live`). Returns the newest of them, or
    /// `current`.
    func keepRecovered(
        _ recording: inout Recording, _ live: Manifest?, after current: Version?,
        _ places: inout [Digest: ChunkLocation]
    ) throws(VolumeError) -> Version? {
        var stashed = recording
        stashed.work.priorContents.removeAll { !$0.isRecovered || $0.isBase || $0.entry == nil }
        guard !stashed.work.priorContents.isEmpty else { return current }
        var known = try writer.files(inVersionsOf: recording.item)
        known.formUnion(live?.files ?? [])
        // The first version has the oldest content of each file, the second the next ones, and so
        // on.
        var rounds: [[(path: [UInt8], content: CutPriorContent)]] = []
        var counts: [[UInt8]: Int] = [:]
        for content in try contents.openPriorContents(&stashed, nil) ?? [] {
            guard let chunks = content.cut.manifest.fileChunks.nonEmpty,
                known.insert(chunks).inserted
            else { continue }
            let path = try path(of: content, in: recording.item)
            let round = counts[path, default: 0]
            counts[path] = round + 1
            if round == rounds.count { rounds.append([]) }
            rounds[round].append((path, content))
        }
        var newest = current
        let prior = try manifest(of: recording.item.current)
        for files in rounds {
            var manifest = live ?? prior ?? Manifest(entries: [])
            for (path, content) in files {
                try chunks.store(
                    content.cut.manifest.chunkIDs, from: content.source, content.snapshot.size,
                    &places)
                manifest.put(content.cut.manifest, content.snapshot, at: path)
            }
            let last = files[files.count - 1].content
            let save =
                last.prior.save ?? last.prior.entry.map {
                    PendingDocument.Save(actor: $0.actor, time: $0.saved)
                }
                ?? PendingDocument.Save(
                    actor: Actor(process: 0, uid: 0, program: ""), time: last.snapshot.modified)
            newest = versions.append(
                CutContent(manifest), to: &recording, snapshot: last.snapshot,
                Protection(of: last.descriptor.raw), save: save, kind: .current, after: newest)
            recording.item.current = newest?.id
        }
        return newest
    }

    private func manifest(of version: Identifier?) throws(VolumeError) -> Manifest? {
        try writer.look { reader in
            try version.flatMap { try reader.manifest(of: $0) }.flatMap(Manifest.init(encoded:))
        }
    }

    /// The path that a content had in the package, by the name that it lost or by the file that it
    /// was copied from.
    private func path(of content: CutPriorContent, in item: Item) throws(VolumeError) -> [UInt8] {
        let entry = content.prior.entry
        if let spot = entry?.spot,
            case .package(item.key, let inner) = try writer.look({
                try roles.location(of: spot.directory, $0)
            })
        {
            return Array((inner + [spot.name]).map(\.bytes).joined(separator: [UInt8(ascii: "/")]))
        }
        let inode = content.prior.inode
        if let found = cuts.path(of: inode, in: item.key) { return found }
        return Array("recovered \(entry?.sequence ?? inode)".utf8)
    }
}

extension Manifest {
    fileprivate var files: [[ChunkReference]] { entries.map(\.chunks).filter { !$0.isEmpty } }

    /// Adds a file at a path, with the missing directories above it.
    fileprivate mutating func put(_ content: Manifest, _ snapshot: FileSnapshot, at path: [UInt8]) {
        var all = entries.filter { $0.path != path }
        var above = path
        while let slash = above.lastIndex(of: UInt8(ascii: "/")) {
            above = Array(above[..<slash])
            if all.contains(where: { $0.path == above && $0.kind == .directory }) { break }
            all.removeAll { $0.path == above }
            all.append(
                Manifest.Entry(
                    path: above, kind: .directory, mode: 0o755, modified: snapshot.modified))
        }
        all.append(
            Manifest.Entry(
                path: path, mode: snapshot.permissions, modified: snapshot.modified,
                size: UInt64(snapshot.size), chunks: content.fileChunks))
        self = Manifest(entries: all.sorted { $0.path.lexicographicallyPrecedes($1.path) })
    }
}

extension Array {
    fileprivate var nonEmpty: Self? { isEmpty ? nil : self }
}

extension JournalWriter {
    /// The files in a package's versions.
    func files(inVersionsOf item: Item) throws(VolumeError) -> Set<[ChunkReference]> {
        try look { reader in
            try reader.versions(of: item.key).reduce(into: []) { known, version in
                let bytes = try reader.manifest(of: version.id)
                known.formUnion(bytes.flatMap(Manifest.init(encoded:))?.files ?? [])
            }
        }
    }
}
