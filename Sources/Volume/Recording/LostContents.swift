import ChunkStore
import Journal
import Model

/// Finds files that a loss of power or a crash left without their contents, and decides what
/// becomes of their documents: such contents must not become versions.
struct LostContents {
    let writer: JournalWriter
    let powerLoss: PowerLoss?
    let chunks: ChunkKeeper
    /// Called with the key of a document whose file has lost its contents or its end.
    let notShown: CallbackSlot<@Sendable (Int64) -> Void>

    /// Handles contents that a loss of power destroyed. Prior contents are recorded first. Then the
    /// document shows its last version again, if all its chunks can be read; otherwise the document
    /// stays as it is, without a new version.
    func noteDestroyed(_ snapshot: FileSnapshot, in recording: inout Recording) throws(VolumeError)
        -> Bool
    {
        try note(
            snapshot, in: &recording,
            obstacle: "was saved shortly before the machine stopped, and the save did not reach "
                + "the disk: the file holds only zeros, which are not among its versions.",
            canShowLastVersion: canShowLastVersion)
    }

    /// Handles a file of which a loss of power destroyed the end. If the rest is the last version,
    /// the end is removed. If it is an earlier one, because what was then written there is lost as
    /// well, the document shows its last version again. Otherwise it stays as it is, without a new
    /// version.
    func noteLostEnd(
        _ file: Int32, _ snapshot: FileSnapshot, in recording: inout Recording
    ) throws(VolumeError) -> Bool {
        try note(
            snapshot, in: &recording,
            obstacle: "was written shortly before the machine stopped, and not all of it reached "
                + "the disk: its end holds zeros. It gets no new version until it is saved."
        ) { item throws(VolumeError) in
            guard let current = try writer.version(item.current, of: item),
                let size = Int64(exactly: current.size), size < snapshot.size
            else { return false }
            let rest = try LostContents.content(of: file, size: size)
            if rest == current.content { return true }
            let key = item.key
            let isEarlier = try writer.look { reader in
                try reader.versions(of: key).contains {
                    $0.size == current.size && $0.content == rest
                }
            }
            return isEarlier ? try canShowLastVersion(item) : false
        }
    }

    /// What people are told of a file that holds a part of a save. This follows its path.
    static let unfinished =
        "was being saved when the machine stopped, so it may hold only a part of what was to be "
        + "saved. It gets no new version until it is saved; `fsctl restore` shows an earlier "
        + "version."

    /// The digest of a file's content if it had this size.
    static func content(of file: Int32, size: Int64) throws(VolumeError) -> Digest {
        let chunks = try cutFile(file, size: size)
        return CutContent(Manifest(chunks: chunks, mode: 0, modified: 0)).digest
    }

    /// - Returns: False if the document shows its last version soon, and is recorded after that.
    private func note(
        _ snapshot: FileSnapshot, in recording: inout Recording, obstacle: String,
        canShowLastVersion: (Item) throws(VolumeError) -> Bool
    ) throws(VolumeError) -> Bool {
        guard recording.work.priorContents.isEmpty else {
            recording.isLiveDeferred = true
            return true
        }
        if try canShowLastVersion(recording.item) {
            notShown.current?(recording.item.key)
            writer.state.pending.postpone(recording.item.key, because: .showsLastVersion)
            return false
        }
        recording.item.size = UInt64(snapshot.size)
        recording.item.modified = snapshot.modified
        recording.item.changed = max(1, snapshot.changed)
        recording.obstacle = obstacle
        return true
    }

    /// Whether a loss of power probably destroyed the end of a document: no program is known to
    /// have saved it, and it is longer than its current version.
    func hasLostEnd(
        _ item: Item, _ file: Int32, _ snapshot: FileSnapshot, _ work: PendingDocument
    ) throws(VolumeError) -> Bool {
        guard let powerLoss, work.isFound, work.save == nil else { return false }
        let size = try writer.version(item.current, of: item)?.size ?? 0
        guard size < UInt64(snapshot.size) else { return false }
        return powerLoss.mayHaveLostEnd(file, snapshot)
            || powerLoss.mayHaveLostEnd(file, snapshot, beyond: size)
    }

    func canShowLastVersion(_ item: Item) throws(VolumeError) -> Bool {
        guard let current = item.current,
            let bytes = try writer.look({ try $0.manifest(of: current) }),
            let manifest = Manifest(encoded: bytes)
        else { return false }
        return try chunks.missing(manifest.chunkIDs, [:])
            .isSubset(of: chunks.onHub(item.key))
    }

    /// Whether a loss of power probably emptied a document: no program is known to have saved it,
    /// its current version is not empty, and that version or prior contents can be shown instead. A
    /// program that emptied the document just before the machine stopped looks the same; then the
    /// document shows contents that it had, and nothing is lost.
    func wasEmptied(_ item: Item, _ snapshot: FileSnapshot, _ work: PendingDocument)
        throws(VolumeError) -> Bool
    {
        guard powerLoss?.mayHaveEmptied(snapshot) == true, work.isFound, work.save == nil,
            let current = try writer.version(item.current, of: item), current.size > 0
        else { return false }
        if !work.priorContents.isEmpty { return true }
        return try canShowLastVersion(item)
    }
}

/// Finds files in a package that a loss of power emptied, or of which it destroyed the end.
struct LostPackageFiles {
    enum Loss {
        /// The file became empty, or lost the end of new contents.
        case contents
        /// The file is that of the last version, with an end that was never written.
        case excess
        /// The file may hold only a part of what a program was saving.
        case unfinished
    }

    let powerLoss: PowerLoss
    /// The files of the package's last version by path.
    private let last: [[UInt8]: Manifest.Entry]
    /// Whether a file holds only the beginning of an earlier content.
    private let isShortened: (Int32, FileSnapshot) throws(VolumeError) -> Bool

    init(
        _ powerLoss: PowerLoss, _ last: Manifest?,
        isShortened: @escaping (Int32, FileSnapshot) throws(VolumeError) -> Bool = { _, _ in
            false
        }
    ) {
        (self.powerLoss, self.isShortened) = (powerLoss, isShortened)
        let files = (last?.entries ?? []).filter { $0.kind == .file }
        self.last = Dictionary(files.map { ($0.path, $0) }) { $1 }
    }

    /// Examines a file that is not as in the last version; nil if it has lost nothing. A program
    /// that has emptied a file, or allocated its end, just before the machine stopped looks the
    /// same.
    func loss(in file: Int32, _ snapshot: FileSnapshot, at path: [UInt8]) throws(VolumeError)
        -> Loss?
    {
        let before = last[path]
        if powerLoss.mayBeUnfinished(snapshot) {
            let chunks = try cutFile(file, size: snapshot.size)
            return chunks == before?.chunks ? nil : .unfinished
        }
        if let before, before.size > 0, powerLoss.mayHaveEmptied(snapshot) { return .contents }
        guard before?.size ?? 0 < UInt64(snapshot.size),
            powerLoss.mayHaveLostEnd(file, snapshot)
        else { return try isShortened(file, snapshot) ? .unfinished : nil }
        guard let before, try LostPackageFiles.begins(file, with: before) else {
            return .contents
        }
        return .excess
    }

    /// Whether a file that is longer than one of a version begins with its contents.
    static func begins(_ file: Int32, with entry: Manifest.Entry) throws(VolumeError) -> Bool {
        guard let size = Int64(exactly: entry.size) else { return false }
        return try cutFile(file, size: size) == entry.chunks
    }
}
