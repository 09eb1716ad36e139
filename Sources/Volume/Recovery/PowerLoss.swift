import CLinux
import Glibc
import Journal
import Model
import SystemCalls

/// The last time that the machine stopped while the volume was open. A file system stores a file's
/// size separately from its contents: a file that was written shortly before and not synced may
/// have its size on the disk and none of its blocks, or neither. It then reads as zeros that no
/// program wrote, or is empty, and that must not become a version.
struct PowerLoss: Sendable {
    /// Files that were last changed before this time (nanoseconds since 1970) may be destroyed. It
    /// is when the volume was opened again; if the clock was behind then, as on a machine without a
    /// battery, it is an hour after the newest version.
    let time: Int64

    private static let bootKey = "boot"
    private static let timeKey = "power_loss"

    /// Finds whether the machine has stopped since the volume was last open, and notes it in the
    /// journal. Returns the last such time. `wasClosed` says that the volume was closed properly.
    static func last(_ journal: Journal, wasClosed: Bool, _ clocks: MachineClocks)
        throws(VolumeError) -> PowerLoss?
    {
        let known = try journal.read { (try $0.value(bootKey), try $0.value(timeKey)) }
        let boot = clocks.boot()
        let last = known.1.flatMap { Int64($0) }.map { PowerLoss(time: $0) }
        guard known.0 != boot else { return last }
        let isNew = known.0 != nil && !wasClosed
        var found = last
        if isNew {
            let (now, newest) = (clocks.wall(), try journal.read { try $0.newestSave() } ?? 0)
            let isBehind = now < newest
            found = PowerLoss(time: isBehind ? newest &+ 3_600_000_000_000 : now)
        }
        try journal.write { t in
            try t.set(bootKey, to: boot)
            if let found { try t.set(timeKey, to: String(found.time)) }
        }
        return found
    }

    /// Whether a file that was last changed before the machine stopped has allocated blocks and
    /// none of them was ever written. A sparse file has no allocated blocks, and a file that a
    /// program is writing has its blocks in memory.
    func destroyed(_ file: Int32, _ snapshot: FileSnapshot) -> Bool {
        // Programs may set either time: one by utimensat(2), the other by renaming the file.
        guard snapshot.isFile, snapshot.size > 0, min(snapshot.modified, snapshot.changed) < time
        else { return false }
        func isUnwritten() -> Bool {
            let extents = Extents.first(of: file)
            return !extents.isEmpty && extents.allSatisfy { $0.flags & Extents.unwritten != 0 }
        }
        // Blocks that are on their way to the disk look the same until they have arrived.
        return isUnwritten() && cl_fsync(file, 1) == 0 && isUnwritten()
    }

    /// Whether an empty file was last changed before the machine stopped. File systems that store a
    /// file's size only with its contents, like XFS, leave it empty if these were not synced.
    func mayHaveEmptied(_ snapshot: FileSnapshot) -> Bool {
        snapshot.isFile && snapshot.size == 0 && max(snapshot.modified, snapshot.changed) < time
    }

    /// Whether the end of a file that was last changed before the machine stopped has allocated
    /// blocks that were never written. Such a file was appended to, and has its new size without
    /// the new contents. A program can also allocate the end of a file with fallocate(2).
    func mayHaveLostEnd(_ file: Int32, _ snapshot: FileSnapshot) -> Bool {
        guard snapshot.isFile, snapshot.size > 0, max(snapshot.modified, snapshot.changed) < time
        else { return false }
        func isUnwritten() -> Bool {
            let extents = Extents.first(of: file).filter { $0.logical < UInt64(snapshot.size) }
            return extents.last.map { $0.flags & Extents.unwritten != 0 } ?? false
        }
        // Blocks that are on their way to the disk look the same until they have arrived.
        return isUnwritten() && cl_fsync(file, 1) == 0 && isUnwritten()
    }

    /// Whether a loss of power destroyed a content in the stash. An intact copy has the length that
    /// was stored with it, and no block that was allocated and never written.
    func destroyed(_ entry: Stash.Entry, _ file: Int32, _ snapshot: FileSnapshot) -> Bool {
        switch entry.kind {
        case .displaced: return destroyed(file, snapshot)
        case .preImages: return false
        case .copied:
            guard entry.saved < time else { return false }
            return Stash.intendedSize(of: file).map { $0 != snapshot.size } ?? false
                || Extents.first(of: file).contains { $0.flags & Extents.unwritten != 0 }
        }
    }

    /// A file's extents by FIEMAP (linux/fiemap.h); empty if the file system does not support it.
    private enum Extents {
        static let unwritten: UInt32 = 0x800
        private static let request: UInt = 0xc020_660b

        struct Extent {
            var logical: UInt64 = 0
            var physical: UInt64 = 0
            var length: UInt64 = 0
            var reserved64: (UInt64, UInt64) = (0, 0)
            var flags: UInt32 = 0
            var reserved: (UInt32, UInt32, UInt32) = (0, 0, 0)
        }

        private struct Header {
            var start: UInt64 = 0
            var length = UInt64.max
            var flags: UInt32 = 0
            var mappedExtents: UInt32 = 0
            var extentCount: UInt32 = 0
            var reserved: UInt32 = 0
        }

        /// The extents, if there are fewer than 64; a file with more has certainly been written.
        static func first(of file: Int32) -> [Extent] {
            let count = 64
            let size = MemoryLayout<Header>.size + count * MemoryLayout<Extent>.stride
            let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: size, alignment: 8)
            defer { buffer.deallocate() }
            buffer.initializeMemory(as: UInt8.self, repeating: 0)
            var header = Header()
            header.extentCount = UInt32(count)
            buffer.storeBytes(of: header, as: Header.self)
            guard cl_ioctl(file, request, buffer.baseAddress) == 0 else { return [] }
            let mapped = Int(buffer.load(as: Header.self).mappedExtents)
            guard mapped < count else { return [] }
            return (0..<mapped).map {
                buffer.load(
                    fromByteOffset: MemoryLayout<Header>.size + $0 * MemoryLayout<Extent>.stride,
                    as: Extent.self)
            }
        }
    }
}

extension Recorder {
    /// Handles contents that a loss of power destroyed. Prior contents are recorded first. Then the
    /// document shows its last version again, if all its chunks can be read; otherwise the document
    /// stays as it is, without a new version.
    func noteDestroyed(_ snapshot: FileSnapshot, in recording: inout Recording) throws(VolumeError)
        -> Bool
    {
        guard recording.work.priorContents.isEmpty else {
            recording.isLiveDeferred = true
            return true
        }
        if try canShowLastVersion(recording.item) {
            notShown.current?(recording.item.key)
            postpone(recording.item.key)
            return false
        }
        recording.item.size = UInt64(snapshot.size)
        recording.item.modified = snapshot.modified
        recording.item.changed = max(1, snapshot.changed)
        recording.problem =
            "\(recording.item.name) was saved shortly before the machine stopped, and the save did "
            + "not reach the disk: the file holds only zeros, which are not among its versions."
        return true
    }

    /// Handles a file of which a loss of power destroyed the end. If the rest is the last version,
    /// the end is removed. Otherwise the document stays as it is, without a new version.
    func noteLostEnd(
        _ file: Int32, _ snapshot: FileSnapshot, in recording: inout Recording
    ) throws(VolumeError) -> Bool {
        guard recording.work.priorContents.isEmpty else {
            recording.isLiveDeferred = true
            return true
        }
        if let current = try version(recording.item.current, of: recording.item),
            let size = Int64(exactly: current.size), size < snapshot.size,
            CutContent(Manifest(chunks: try cutFile(file, size: size), mode: 0, modified: 0)).digest
                == current.content
        {
            notShown.current?(recording.item.key)
            postpone(recording.item.key)
            return false
        }
        recording.item.size = UInt64(snapshot.size)
        recording.item.modified = snapshot.modified
        recording.item.changed = max(1, snapshot.changed)
        recording.problem =
            "\(recording.item.name) was written shortly before the machine stopped, and not all of "
            + "it reached the disk: its end holds zeros. It gets no new version until it is saved."
        return true
    }

    /// Whether a loss of power probably destroyed the end of a document: no program is known to
    /// have saved it, and it is longer than its current version.
    func hasLostEnd(
        _ item: Item, _ file: Int32, _ snapshot: FileSnapshot, _ work: PendingDocument
    ) throws(VolumeError) -> Bool {
        guard let powerLoss, work.isFound, work.save == nil,
            try version(item.current, of: item)?.size ?? 0 < UInt64(snapshot.size)
        else { return false }
        return powerLoss.mayHaveLostEnd(file, snapshot)
    }

    func canShowLastVersion(_ item: Item) throws(VolumeError) -> Bool {
        guard let current = item.current,
            let bytes = try look({ try $0.manifest(of: current) }),
            let manifest = Manifest(encoded: bytes)
        else { return false }
        return try missing(manifest.chunkIDs, [:]).isSubset(of: onHub(item.key))
    }

    /// Whether a loss of power probably emptied a document: no program is known to have saved it,
    /// its current version is not empty, and that version or prior contents can be shown instead. A
    /// program that emptied the document just before the machine stopped looks the same; then the
    /// document shows contents that it had, and nothing is lost.
    func wasEmptied(_ item: Item, _ snapshot: FileSnapshot, _ work: PendingDocument)
        throws(VolumeError) -> Bool
    {
        guard powerLoss?.mayHaveEmptied(snapshot) == true, work.isFound, work.save == nil,
            let current = try version(item.current, of: item), current.size > 0
        else { return false }
        if !work.priorContents.isEmpty { return true }
        return try canShowLastVersion(item)
    }
}

extension Volume {
    /// Turns a file that holds none of its document's contents into a placeholder of its last
    /// version. If a program has it open, the recorder tries again later.
    func showLastVersion(of key: Int64) {
        do {
            let found = try journal.read { reader -> (Item, Version, [Name])? in
                guard let item = try reader.item(key), item.kind == .file, item.deleted == nil,
                    let current = item.current,
                    let version = try reader.version(id: current)?.version,
                    let path = try reader.path(of: key)
                else { return nil }
                return (item, version, path)
            }
            guard let (item, version, path) = found else { return }
            let file = try openBeneath(path, from: root, flags: O_RDWR | O_NOATIME | O_NONBLOCK)
            let mark = PlaceholderMark(item: item.id, version: version.id)
            let isAlone = try hydration.evicting(item.inode) { () throws(VolumeError) in
                try replace(file.raw, of: item, by: version, mark)
            }
            guard isAlone else { return }
            log.warning(
                """
                What was saved or arrived in \(path.shown) shortly before the end of the last run \
                did not reach the disk. It shows its version \(version.number) again.
                """)
            recorder.isReady(key)
        } catch { log.info("\(error) This will be tried again.") }
    }

    private func replace(
        _ file: Int32, of item: Item, by version: Version, _ mark: PlaceholderMark
    ) throws(VolumeError) {
        let now = snapshot(file)
        guard now.inode == item.inode, openFiles.current?(item.inode) != true,
            cl_probe_users(file) != -EAGAIN
        else { throw VolumeError(.busy, "\(item.name) is in use.") }
        do throws(Errno) {
            if hasLostContents(file, now, of: item, version) {
                if now.size > 0 {
                    _ = try mark.replaceBytes(of: file, size: now.size, modified: version.modified)
                }
                try Volume.mark(
                    absent: file, mark, size: version.size, modified: version.modified,
                    mode: UInt16(truncatingIfNeeded: now.permissions))
            } else if let loss = recorder.powerLoss, PlaceholderMark(of: file) == nil,
                loss.mayHaveLostEnd(file, now), version.size < UInt64(now.size)
            {
                try check(cl_ftruncate(file, Int64(version.size)))
                try PlaceholderMark.restore(version.modified, of: file)
            } else {
                throw Errno(EBUSY)
            }
            try check(cl_fsync(file, 0))
        } catch {
            throw VolumeError(.system, "\(item.name) cannot show its last version: \(error).")
        }
    }

    /// Whether the file holds none of its document's contents: a loss of power destroyed them, or
    /// it is a placeholder of another version.
    private func hasLostContents(
        _ file: Int32, _ snapshot: FileSnapshot, of item: Item, _ version: Version
    ) -> Bool {
        if let mark = PlaceholderMark(of: file, size: snapshot.size) {
            return mark.item == item.id && mark.version != version.id
        }
        guard let loss = recorder.powerLoss else { return false }
        return loss.destroyed(file, snapshot) || loss.mayHaveEmptied(snapshot) && version.size > 0
    }
}
