import CLinux
import ChunkStore
import Glibc
import Journal
import Model
import SystemCalls

// Cutting a package: all of its files at one quiet moment are one version.
extension Recorder {
    func recordPackage(
        _ item: Item, _ work: Work, syncs: Bool, _ places: inout [Digest: ChunkPlace]
    ) throws(VolumeError) -> Recording? {
        var live: (manifest: Manifest, trace: Trace)?
        if item.deleted == nil {
            guard let cut = try cutPackage(item, syncs: syncs) else {
                postpone(item.key)
                return nil
            }
            live = cut
        }
        var recording = Recording(item: item, finished: work)
        let versions = try journal.read { try $0.versions(of: item.key) }
        let current = versions.first { $0.id == item.current }
        if let live {
            let cut = CutContent(live.manifest)
            if cut.digest != current?.content, !live.manifest.entries.isEmpty {
                let save = work.save ?? Work.Save(
                    actor: Actor(process: 0, uid: 0, program: ""), time: live.trace.modified)
                let version = append(
                    cut, to: &recording, trace: live.trace, save: save, kind: .current,
                    after: current)
                recording.item.current = version.id
            }
            recording.item.size = live.manifest.size
            recording.item.modified = live.trace.modified
            recording.item.changed = max(1, live.trace.changed)
        }
        try keepBytes(of: item, live?.manifest, work, &places)
        return recording
    }

    /// The bytes of the former version that the package no longer has are in the stash, file by file.
    private func keepBytes(
        of item: Item, _ live: Manifest?, _ work: Work, _ places: inout [Digest: ChunkPlace]
    ) throws(VolumeError) {
        let former = try journal.read { reader in
            try item.current.flatMap { try reader.manifest(of: $0) }.flatMap(Manifest.init(encoded:))
        }
        var lost = try missing(
            (former?.chunkIDs ?? []).subtracting(live?.chunkIDs ?? []), places)
        for entry in work.stashes where !lost.isEmpty {
            guard let old = try openStashed(entry, work, liveFile: -1) else { continue }
            try store(lost, from: old.source, old.trace.size, &places)
            lost = try missing(lost, places)
        }
        if !lost.isEmpty {
            tell(
                "bytes of \(item.key)",
                "An older version of \(item.name) has lost bytes that were nowhere else "
                    + "(\(lost.count) chunks): `fsctl doctor` names it.")
        }
    }

    /// Nil when a program is changing it.
    private func cutPackage(_ item: Item, syncs: Bool) throws(VolumeError)
        -> (manifest: Manifest, trace: Trace)?
    {
        guard let path = try journal.read({ try $0.path(of: item.key) }) else { return nil }
        do throws(Errno) {
            if syncs { _ = cl_syncfs(tree) }
            let root = try openBeneath(path, from: tree, flags: O_PATH | O_DIRECTORY)
            var builder = PackageBuilder(known: packageCuts[item.key] ?? [:])
            try builder.add(directory: root.raw, path: [])
            guard !builder.isBusy else { return nil }
            packageCuts[item.key] = builder.files
            for file in builder.files.values { packaged[file.trace.inode] = item.key }
            for (inode, directory) in builder.directories {
                locations[inode] = .package(item.key, directory)
            }
            var trace = status(root.raw)
            trace.modified = builder.entries.map(\.modified).max() ?? trace.modified
            let entries = builder.entries.sorted { $0.path.lexicographicallyPrecedes($1.path) }
            return (Manifest(entries: entries), trace)
        } catch {
            if error == .notFound { return nil }
            throw VolumeError(.system, "The package \(text(path)) cannot be read: \(error).")
        }
    }
}

/// Walks a package and collects its manifest.
private struct PackageBuilder {
    let known: [[UInt8]: PackageFile]
    var entries: [Manifest.Entry] = []
    var files: [[UInt8]: PackageFile] = [:]
    var directories: [UInt64: [Name]] = [:]
    var isBusy = false

    init(known: [[UInt8]: PackageFile]) { self.known = known }

    mutating func add(directory: Int32, path: [Name]) throws(Errno) {
        var names: [Name] = []
        try forEachName(in: directory) { names.append($0) }
        for name in names.sorted() where !isBusy {
            let trace = Trace(try entryStatus(name, in: directory))
            try add(name, trace, in: directory, path: path + [name])
        }
    }

    private mutating func add(_ name: Name, _ trace: Trace, in directory: Int32, path: [Name])
        throws(Errno)
    {
        var entry = Manifest.Entry(
            path: Array(path.map(\.bytes).joined(separator: [UInt8(ascii: "/")])),
            mode: trace.permissions, modified: trace.modified)
        if trace.isDirectory {
            entry.kind = .directory
            entries.append(entry)
            directories[trace.inode] = path
            let inner = try openBeneath([name], from: directory, flags: O_PATH | O_DIRECTORY)
            try add(directory: inner.raw, path: path)
        } else if trace.isSymlink {
            entry.kind = .symlink
            entry.target = try target(of: name, in: directory)
            entry.size = UInt64(entry.target.count)
            entries.append(entry)
        } else if trace.isFile {
            guard let chunks = try chunks(of: name, trace, in: directory, key: entry.path) else {
                return
            }
            entry.size = UInt64(trace.size)
            entry.chunks = chunks
            entries.append(entry)
        }
    }

    private func target(of name: Name, in directory: Int32) throws(Errno) -> [UInt8] {
        var buffer = [UInt8](repeating: 0, count: 4096)
        let length = try name.withCString { (text) throws(Errno) in
            try check(
                buffer.withUnsafeMutableBytes {
                    cl_readlinkat(
                        directory, text, $0.baseAddress!.assumingMemoryBound(to: CChar.self),
                        $0.count)
                })
        }
        return Array(buffer[..<length])
    }

    private mutating func chunks(
        of name: Name, _ trace: Trace, in directory: Int32, key: [UInt8]
    ) throws(Errno) -> [ChunkReference]? {
        let file = try openBeneath([name], from: directory, flags: O_RDONLY | O_NOATIME | O_NONBLOCK)
        if cl_probe_writers(file.raw) == -EAGAIN {
            isBusy = true
            return nil
        }
        if let before = known[key], !before.trace.differs(from: trace) {
            files[key] = before
            return before.chunks
        }
        guard let chunks = try? cutFile(file.raw, size: trace.size),
            !Trace(try file.status()).differs(from: trace)
        else {
            isBusy = true
            return nil
        }
        files[key] = PackageFile(trace: trace, chunks: chunks)
        return chunks
    }
}
