import CLinux
import Merge
import Model
import Volume

/// Merges a document's current version with one of its conflict versions, by their common ancestor.
struct DocumentMerge {
    let volume: Volume
    let merger: Merger
    let path: [Name]
    let history: DocumentHistory
    /// Whether a person asked for the merge. Then documents are merged, too, for which the rules
    /// want a person's decision.
    let isAsked: Bool

    enum Outcome {
        case clean(Replacement)
        /// Both versions stay, for the given reason.
        case left(String)
        /// The rules require that a person decides.
        case ask
    }

    private var current: Version? { history.versions.last { $0.kind == .current } }

    /// - Throws: `.offline` or `.timeout` if contents cannot be fetched now.
    func merge(_ theirs: Version, by actor: Actor) throws(VolumeError) -> Outcome {
        guard let ours = current else { return .left("Its contents have not been recorded yet.") }
        guard max(ours.size, theirs.size) <= UInt64(Merger.sizeMax) else {
            return .left("It has more than \(Merger.sizeMax >> 20) MiB.")
        }
        let base = try base(of: ours, and: theirs)
        let outcome: Outcome
        if history.isPackage {
            outcome = try mergePackage(base, ours, theirs, by: actor)
        } else {
            switch try merger.merge(try input(base, ours, theirs)) {
            case .clean(let bytes, by: _):
                let (manifest, chunks) = try Manifest.cut(bytes)
                outcome = .clean(Replacement(manifest, added: chunks, by: actor))
            case .conflict(let what): outcome = .left(what)
            case .unmergeable(let why): outcome = .left(why)
            case .ask: outcome = .ask
            }
        }
        guard case .clean(var replacement) = outcome else { return outcome }
        replacement.sources = [theirs.id]
        replacement.settles = [theirs.id]
        replacement.expected = ours.id
        return .clean(replacement)
    }

    /// Says in sentences what the rules require and what the result would be; with the merged text
    /// if there is one.
    func explain(_ theirs: Version) throws(VolumeError) -> (
        kind: String, sentences: [String], text: [UInt8]?
    ) {
        guard let ours = current else {
            return ("unmergeable", ["Its contents have not been recorded yet."], nil)
        }
        let base = try base(of: ours, and: theirs)
        if history.isPackage {
            switch try mergePackage(base, ours, theirs, by: Actor(process: 0, uid: 0, program: ""))
            {
            case .clean: return ("clean", ["Its files can be merged one by one."], nil)
            case .left(let why): return ("conflict", [why], nil)
            case .ask: return ("ask", ["The rules require that a person decides."], nil)
            }
        }
        let explanation = try merger.explain(try input(base, ours, theirs))
        switch explanation.outcome {
        case .clean(let bytes, by: _): return ("clean", explanation.sentences, bytes)
        case .conflict: return ("conflict", explanation.sentences, nil)
        case .unmergeable: return ("unmergeable", explanation.sentences, nil)
        case .ask: return ("ask", explanation.sentences, nil)
        }
    }

    /// The version that both come from, if it is known and has contents anywhere: a hub that came
    /// back from a backup may have lost them.
    private func base(of ours: Version, and theirs: Version) throws(VolumeError) -> Version? {
        let base = Lineage(history.versions).base(of: ours.id, and: theirs.id)
        guard let base else { return nil }
        do throws(VolumeError) {
            _ = try volume.versions.content(of: base.id)
            return base
        } catch {
            guard error.code == .notFound else { throw error }
            return nil
        }
    }

    private func input(_ base: Version?, _ ours: Version, _ theirs: Version) throws(VolumeError)
        -> MergeInput
    {
        MergeInput(
            path: path, base: try base.map { base throws(VolumeError) in try content(of: base) },
            ours: try content(of: ours), theirs: try content(of: theirs), isAsked: isAsked,
            source: source(of: theirs))
    }

    func source(of version: Version) -> MergeInput.Source {
        MergeInput.Source(
            version: version.id.description, device: version.deviceName, saved: version.saved)
    }

    func content(of version: Version) throws(VolumeError) -> MergeContent {
        try content(of: volume.versions.content(of: version.id), entry: 0)
    }

    private func content(of content: VersionContent, entry: Int) throws(VolumeError)
        -> MergeContent
    {
        guard content.manifest.entries.indices.contains(entry) else {
            throw VolumeError(.damaged, "A version of \(path.shown) has no contents.")
        }
        // The size in the version and the size in its manifest both come from the hub and may
        // differ.
        let size = content.manifest.entries[entry].size
        guard size <= UInt64(Merger.sizeMax) else { return .tooLarge }
        var bytes = [UInt8](repeating: 0, count: Int(size))
        let result = bytes.withUnsafeMutableBytes { buffer in
            Result { () throws(VolumeError) in try content.read(entry, into: buffer, at: 0) }
        }
        guard try result.get() == bytes.count else {
            throw VolumeError(.damaged, "A version of \(path.shown) is shorter than it was.")
        }
        return .bytes(bytes)
    }

    // MARK: Packages

    private typealias Entry = TreeEntry<[ChunkReference]>

    func mergePackage(
        _ base: Version?, _ ours: Version, _ theirs: Version, by actor: Actor
    ) throws(VolumeError) -> Outcome {
        guard let base else {
            return .left("The common ancestor of both versions is not known any more.")
        }
        let sides = try [base, ours, theirs].map { version throws(VolumeError) in
            try volume.versions.content(of: version.id)
        }
        let trees = sides.map { $0.manifest.entries.map(Entry.init) }
        let outcome = try merger.merge(
            package: path, base: trees[0], ours: trees[1], theirs: trees[2], isAsked: isAsked,
            source: source(of: theirs)
        ) { entry throws(VolumeError) in
            for (tree, side) in zip(trees, sides) {
                if let index = tree.firstIndex(of: entry) {
                    return try content(of: side, entry: index)
                }
            }
            throw VolumeError(.system, "A merge asked for a file that is in no version.")
        }
        switch outcome {
        case .clean(let steps, let merged):
            return .clean(
                try replacement(steps, merged, sides[1].manifest, sides[2].manifest, by: actor))
        case .conflict(let what): return .left(what)
        case .unmergeable(let why): return .left(why)
        case .ask: return .ask
        }
    }

    private func replacement(
        _ steps: [TreeMerge<[ChunkReference]>.Step], _ merged: [[Name]: [UInt8]],
        _ ours: Manifest, _ theirs: Manifest, by actor: Actor
    ) throws(VolumeError) -> Replacement {
        let both = [index(ours), index(theirs)]
        let sides: [MergeSide: [[Name]: Manifest.Entry]] = [.ours: both[0], .theirs: both[1]]
        var replacement = Replacement(Manifest(entries: []), by: actor)
        for step in steps {
            switch step.action {
            case .remove, .conflict: continue
            case .place(let side):
                if var entry = sides[side]?[step.path] {
                    entry.modified = time(of: entry, both.compactMap { $0[step.path] })
                    replacement.manifest.entries.append(entry)
                }
            case .combine(let source, let attributes):
                guard var entry = sides[.ours]?[step.path] else { continue }
                switch source {
                case .side(let side): if let other = sides[side]?[step.path] { entry = other }
                case .merged:
                    let (manifest, chunks) = try Manifest.cut(merged[step.path] ?? [])
                    entry.chunks = manifest.entries[0].chunks
                    entry.size = manifest.size
                    replacement.added.merge(chunks) { $1 }
                }
                entry.mode = sides[attributes]?[step.path]?.mode ?? entry.mode
                entry.modified = time(of: entry, both.compactMap { $0[step.path] })
                replacement.manifest.entries.append(entry)
            }
        }
        replacement.manifest.entries.sort { $0.path.lexicographicallyPrecedes($1.path) }
        return replacement
    }

    /// The modification time of a file in a merged package. It follows from those of both sides,
    /// because another device may make the same merge, and then neither is sent. What no side has
    /// is newer than both.
    private func time(of entry: Manifest.Entry, _ sides: [Manifest.Entry]) -> Int64 {
        func isEqual(_ other: Manifest.Entry) -> Bool {
            (other.kind, other.target) == (entry.kind, entry.target) && other.chunks == entry.chunks
        }
        let equal = sides.filter(isEqual)
        if let time = equal.map(\.modified).max() { return time }
        let newest = sides.map(\.modified).max() ?? entry.modified
        return newest == .max ? newest : newest + 1
    }

    private func index(_ manifest: Manifest) -> [[Name]: Manifest.Entry] {
        Dictionary(manifest.entries.map { ($0.names, $0) }) { $1 }
    }
}

extension TreeEntry<[ChunkReference]> {
    fileprivate init(_ entry: Manifest.Entry) {
        let kind: Kind =
            switch entry.kind {
            case .file: .file(entry.chunks)
            case .directory: .directory
            case .symlink: .symlink(target: entry.target)
            }
        self.init(
            path: entry.names, kind: kind,
            attributes: [UInt8(entry.mode >> 8), UInt8(entry.mode & 0xFF)])
    }
}
