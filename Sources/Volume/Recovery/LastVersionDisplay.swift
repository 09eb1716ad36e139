import CLinux
import Glibc
import Journal
import Model
import SystemCalls

/// Shows the last version of a document whose file holds none of its contents, or has lost its end,
/// and of files in a package that have lost their end.
struct LastVersionDisplay {
    let volume: Volume

    /// Turns a file that holds none of its document's contents into a placeholder of its last
    /// version. If a program has it open, the recorder tries again later.
    func show(_ key: Int64) {
        do {
            let found = try volume.journal.read { reader -> (Item, Version, [Name])? in
                guard let item = try reader.item(key), item.deleted == nil,
                    item.kind == .file || item.kind == .package,
                    let current = item.current,
                    let version = try reader.version(id: current)?.version,
                    let path = try reader.path(of: key)
                else { return nil }
                return (item, version, path)
            }
            guard let (item, version, path) = found else { return }
            if item.kind == .package { return try removeExcess(of: item, version, at: path) }
            let file = try openBeneath(
                path, from: volume.root, flags: O_RDWR | O_NOATIME | O_NONBLOCK)
            let mark = PlaceholderMark(item: item.id, version: version.id)
            let isAlone = try volume.hydration.evicting(item.inode) { () throws(VolumeError) in
                try replace(file.raw, of: item, by: version, mark)
            }
            guard isAlone else { return }
            volume.log.warning(
                """
                What was saved or arrived in \(path.shown) shortly before the end of the last run \
                did not reach the disk. It shows its version \(version.number) again.
                """)
            volume.recorder.isReady(key)
        } catch { volume.log.info("\(error) This will be tried again.") }
    }

    /// Removes the end, which a loss of power destroyed, of files in a package that otherwise are
    /// those of its last version.
    private func removeExcess(of item: Item, _ version: Version, at path: [Name]) throws {
        let bytes = try volume.journal.read { try $0.manifest(of: version.id) }
        guard let loss = volume.recorder.powerLoss, let bytes,
            let manifest = Manifest(encoded: bytes)
        else { return }
        for entry in manifest.entries where entry.kind == .file {
            guard
                let file = try? openBeneath(
                    path + entry.names, from: volume.root, flags: O_RDWR | O_NOATIME | O_NONBLOCK)
            else { continue }
            let inode = volume.snapshot(file.raw).inode
            let isAlone = try volume.hydration.evicting(inode) { () throws(VolumeError) in
                let now = volume.snapshot(file.raw)
                guard UInt64(now.size) > entry.size, loss.mayHaveLostEnd(file.raw, now),
                    LostPackageFiles.begins(file.raw, with: entry)
                else { return }
                try checkUnused(file.raw, now, item)
                do throws(Errno) {
                    try cut(file.raw, to: entry.size, modified: entry.modified)
                } catch { throw failure(item, error) }
                volume.log.warning(
                    """
                    What was appended to \((path + entry.names).shown) shortly before the end of \
                    the last run did not reach the disk. The file is as it was before.
                    """)
            }
            guard isAlone else { return }
        }
        volume.recorder.isReady(item.key)
    }

    private func checkUnused(_ file: Int32, _ snapshot: FileSnapshot, _ item: Item)
        throws(VolumeError)
    {
        guard volume.openFiles.current?(snapshot.inode) != true, cl_probe_users(file) != -EAGAIN
        else { throw VolumeError(.busy, "\(item.name) is in use.") }
    }

    private func cut(_ file: Int32, to size: UInt64, modified: Int64) throws(Errno) {
        try check(cl_ftruncate(file, Int64(size)))
        try PlaceholderMark.restore(modified, of: file)
        try check(cl_fsync(file, 0))
    }

    private func failure(_ item: Item, _ error: Errno) -> VolumeError {
        VolumeError(.system, "\(item.name) cannot show its last version: \(error).")
    }

    private func replace(
        _ file: Int32, of item: Item, by version: Version, _ mark: PlaceholderMark
    ) throws(VolumeError) {
        let now = volume.snapshot(file)
        guard now.inode == item.inode else {
            throw VolumeError(.busy, "\(item.name) is in use.")
        }
        try checkUnused(file, now, item)
        do throws(Errno) {
            if hasLostContents(file, now, of: item, version) {
                if now.size > 0 {
                    _ = try mark.replaceBytes(of: file, size: now.size, modified: version.modified)
                }
                try Volume.mark(
                    absent: file, mark, size: version.size, modified: version.modified,
                    mode: UInt16(truncatingIfNeeded: now.permissions))
            } else if let loss = volume.recorder.powerLoss, PlaceholderMark(of: file) == nil,
                loss.mayHaveLostEnd(file, now), version.size < UInt64(now.size)
            {
                try cut(file, to: version.size, modified: version.modified)
            } else {
                throw Errno(EBUSY)
            }
            try check(cl_fsync(file, 0))
        } catch {
            throw failure(item, error)
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
        guard let loss = volume.recorder.powerLoss else { return false }
        return loss.destroyed(file, snapshot) || loss.mayHaveEmptied(snapshot) && version.size > 0
    }
}
