import CLinux
import Glibc
import Journal
import Model
import SystemCalls

/// The last time that the machine stopped while the volume was open. A file system keeps a file's
/// size apart from its contents: what was written shortly before and not synced may have its size
/// on the disk and not one of its blocks. It reads as zeros then, which nobody wrote, and becomes
/// no version.
struct PowerLoss: Sendable {
    /// When the volume was opened again, in nanoseconds since 1970.
    let time: Int64

    private static let bootKey = "boot"
    private static let timeKey = "power_loss"

    /// The last one that the journal knows, or the one that it notes now. `wasClosed`: the volume
    /// was closed in order.
    static func last(_ journal: Journal, wasClosed: Bool, _ clocks: MachineClocks)
        throws(VolumeError) -> PowerLoss?
    {
        let known = try journal.read { (try $0.value(bootKey), try $0.value(timeKey)) }
        let boot = clocks.boot()
        let last = known.1.flatMap { Int64($0) }.map { PowerLoss(time: $0) }
        guard known.0 != boot else { return last }
        let isNew = known.0 != nil && !wasClosed
        let found = isNew ? PowerLoss(time: clocks.wall()) : last
        try journal.write { t in
            try t.set(bootKey, to: boot)
            if let found { try t.set(timeKey, to: String(found.time)) }
        }
        return found
    }

    /// Whether a file has room on the disk and no block in it that was ever written, since before
    /// the machine stopped. A sparse file has no room, and one that a program is writing has blocks
    /// in memory.
    func destroyed(_ file: Int32, _ trace: Trace) -> Bool {
        guard trace.isFile, trace.size > 0, trace.modified < time else { return false }
        let extents = Extents.first(of: file)
        return !extents.isEmpty
            && extents.allSatisfy { $0.flags & Extents.unwritten != 0 }
    }

    /// Whether a loss of power destroyed a content in the stash. A copy that is whole has the
    /// length that was noted with it, and no block that was allocated and never written.
    func destroyed(_ entry: Stash.Entry, _ file: Int32, _ trace: Trace) -> Bool {
        switch entry.kind {
        case .displaced: return destroyed(file, trace)
        case .undo: return false
        case .copied:
            guard entry.saved < time else { return false }
            return Stash.intendedSize(of: file).map { $0 != trace.size } ?? false
                || Extents.first(of: file).contains { $0.flags & Extents.unwritten != 0 }
        }
    }

    /// What FIEMAP says of a file (linux/fiemap.h); nothing where the file system has no answer.
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

        /// Up to 64 of them: a file with more has been written.
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
    /// Contents that a loss of power destroyed. What was moved aside before is recorded first; then
    /// the document shows its last version again, if that can be read, else it has no new one.
    func noteDestroyed(_ trace: Trace, in recording: inout Recording) throws(VolumeError) -> Bool {
        guard recording.work.formers.isEmpty else {
            recording.isLiveLeft = true
            return true
        }
        if let current = recording.item.current,
            let bytes = try look({ try $0.manifest(of: current) }),
            let manifest = Manifest(encoded: bytes)
        {
            let lost = try missing(manifest.chunkIDs, [:])
            if try lost.isSubset(of: onHub(recording.item.key)) {
                destroyed.current?(recording.item.key)
                postpone(recording.item.key)
                return false
            }
        }
        recording.item.size = UInt64(trace.size)
        recording.item.modified = trace.modified
        recording.item.changed = max(1, trace.changed)
        recording.problem =
            "\(recording.item.name) was saved shortly before the machine stopped, and the save did "
            + "not reach the disk: the file holds only zeros, which are not among its versions."
        return true
    }
}

extension Volume {
    /// Makes a placeholder of its last version out of a file whose contents a loss of power
    /// destroyed. Where a program has it open, the recorder asks again later.
    func showLastVersion(ofDestroyed key: Int64) {
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
            let mark = AbsentMark(item: item.id, version: version.id)
            let isAlone = try hydration.evicting(item.inode) { () throws(VolumeError) in
                try replace(destroyed: file.raw, item, by: version, mark)
            }
            guard isAlone else { return }
            log.warning(
                """
                \(path.shown) was saved shortly before the machine stopped, and that save did not \
                reach the disk. It shows its version \(version.number) again.
                """)
            recorder.isReady(key)
        } catch { log.info("\(error) It is tried again.") }
    }

    private func replace(
        destroyed file: Int32, _ item: Item, by version: Version, _ mark: AbsentMark
    ) throws(VolumeError) {
        let now = trace(file)
        guard let loss = recorder.powerLoss, now.inode == item.inode,
            AbsentMark(of: file) == nil, loss.destroyed(file, now),
            openFiles.current?(item.inode) != true, cl_probe_users(file) != -EAGAIN
        else { throw VolumeError(.busy, "\(item.name) is just being used.") }
        do throws(Errno) {
            try Volume.mark(
                absent: file, mark, size: version.size, modified: version.modified,
                mode: UInt16(truncatingIfNeeded: now.permissions))
            try check(cl_fsync(file, 0))
        } catch {
            throw VolumeError(.system, "\(item.name) cannot show its last version: \(error).")
        }
    }
}
